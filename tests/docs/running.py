"""Execute the commands of a page as a newcomer would: in a fresh copy of the checkout, in one terminal, in order."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

from tests.docs.pages import ROOT, Block, Command, commands_of, is_run
from tests.docs.tables import POINTS

_SHARE = re.compile(r"(\d+(?:\.\d+)?) %")
LEFT_OUT = {".git", ".venv", ".venv-peers", ".carry", "runs", "demo", "site", "build", "dist"}


def fresh_copy(to: Path) -> Path:
    """What a checkout holds after `make setup`, without anything that was made in this one but Python's own caches."""

    def ignored(folder: str, names: list[str]) -> set[str]:
        caches = {name for name in names if name.endswith("_cache") or name == ".hypothesis"}
        if Path(folder).is_relative_to(ROOT / "tests"):
            caches |= {"__pycache__"} & set(names)  # large, and no page runs tests
        return caches | (LEFT_OUT & set(names) if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, to, ignore=ignored, symlinks=True)
    (to / ".venv").symlink_to(Path(sys.prefix))
    for name in ("pyproject.toml", "constraints.txt"):
        os.utime(to / name, (0, 0))  # older than the environment: make has nothing to set up
    return to


def run_page(result: list[Block], root: Path, scratch: Path, *, soak: bool, seconds: float) -> list[str]:
    """What is wrong with the page's commands, one text each; none if every command did as the page says."""
    for block in result:
        if block.mark == "file":
            (root / block.value).parent.mkdir(parents=True, exist_ok=True)
            (root / block.value).write_text(block.text)
    commands = [command for block in result if is_run(block, soak=soak) for command in commands_of(block)]
    scratch.mkdir()
    script = "\n".join(_step(command, scratch / str(i)) for i, command in enumerate(commands))
    terminal = subprocess.Popen(["bash", "-c", script], cwd=root, env=_surroundings(root), start_new_session=True)
    late = False
    try:
        terminal.wait(seconds)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        with contextlib.suppress(ProcessLookupError):  # what the page left in the background ends with it
            os.killpg(terminal.pid, signal.SIGKILL)
        terminal.wait()
    faults = [fault for i, command in enumerate(commands) if (fault := _fault(command, scratch / str(i)))]
    return [*faults, *([f"the page took more than {seconds:.0f} s"] if late else [])]


def _surroundings(root: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("FEDFLEET_")}
    # PYTHONPATH: the environment is that of this checkout, the program that of the copy.
    return env | {
        "PATH": f"{root / '.venv/bin'}:{env.get('PATH', '')}",
        "PYTHONPATH": str(root),
        "HOME": str(root.parent),  # what is kept for another day is not kept here
        "COLUMNS": "160",
        "NO_COLOR": "1",
    }


def _step(command: Command, to: Path) -> str:
    """One command with its output and exit code beside it; of a script every line has to succeed."""
    out, code = shlex.quote(f"{to}.out"), shlex.quote(f"{to}.code")
    text = f"(\nset -e\n{command.line}\n)" if command.script else f"{{\n{command.line}\n}}"
    return f"{text} >{out} 2>&1 </dev/null\necho $? >{code}"


def _fault(command: Command, at: Path) -> str | None:
    out, code = Path(f"{at}.out"), Path(f"{at}.code")
    printed = out.read_text() if out.exists() else ""
    if not code.exists():
        return f"{command.place}: {command.line.strip()}\ndid not end well\n{printed[-2000:]}"
    refused = command.said.startswith("fedfleet: ")  # pages show mistakes too
    if (code.read_text().strip() != "0") != refused:
        return f"{command.place}: {command.line.strip()}\nended with {code.read_text().strip()}\n{printed[-2000:]}"
    if command.said and not says(command.said, printed):
        return f"{command.place}: {command.line.strip()}\nprinted\n{printed[-3000:]}\nand the page says\n{command.said}"
    return None


def says(want: str, printed: str) -> bool:
    """Whether this was printed: `...` stands for anything, a line of `..` for any lines, and a percentage may be POINTS off."""
    want = re.sub(r"^\.\.$", "...", want.rstrip(), flags=re.M)
    if not _alike(_SHARE.sub("@ %", want), _SHARE.sub("@ %", printed)):
        return False
    for line in want.splitlines():  # accuracies differ a little between kinds of processor, nothing else does
        alike = [other for other in printed.splitlines() if _alike(_SHARE.sub("@ %", line), _SHARE.sub("@ %", other))]
        if line != "..." and alike and not any(_near(line, other) for other in alike):
            return False
    return True


def _alike(want: str, printed: str) -> bool:
    return OutputChecker().check_output(want + "\n", printed + "\n", ELLIPSIS | NORMALIZE_WHITESPACE)


def _near(line: str, other: str) -> bool:
    told, result = (list(map(float, _SHARE.findall(text))) for text in (line, other))
    return all(abs(a - b) <= POINTS for a, b in zip(told, result, strict=False))
