"""How a verb answers: a JSON object for programs, text for people, remarks on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from fedfleet.app.terminal.own_options import with_option_names
from fedfleet.core.errors import BadInput, FedFleetError

LOG_LINES: ContextVar[bool] = ContextVar("remarks as lines of JSON", default=False)
# Set while a verb is carried out, so that calls know nothing of the command line.
AS_JSON: ContextVar[bool] = ContextVar("the answer is printed as JSON, without progress", default=False)
OPTION_NAMES: ContextVar[Mapping[str, str] | None] = ContextVar("options by the names of parameters", default=None)
OWN_DATA: ContextVar[bool] = ContextVar("the verb was given data of one's own by options", default=False)
_LONG_WORD = re.compile(r"\S{400,}")


class Interrupted(FedFleetError):
    """The user pressed Ctrl-C, and can be told how to go on."""

    exit_code = 130


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a verb that has no record of its own: its JSON object, its text, remarks for standard error, and whether the
    command fails."""

    values: dict[str, Any]
    text: str | Callable[[dict[str, Any]], str]
    remarks: Sequence[str] = ()
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return self.values

    def __str__(self) -> str:
        return self.text if isinstance(self.text, str) else self.text(self.values)


def print_answer(result: Any) -> int:
    """Print a result (a record with `to_dict()`, whose text is what people read) on standard output, and its remarks beside it; the
    exit code of the command."""
    _print(json.dumps(result.to_dict()) if AS_JSON.get() else str(result), sys.stdout)
    exit_code = getattr(result, "exit_code", 0)
    for remark in getattr(result, "remarks", ()):
        say(remark, "error" if exit_code else "info")
    return exit_code


def _print(text: str, stream: TextIO) -> None:
    # At once: whoever reads a pipe wants to know while the command runs.
    print(text, file=stream, flush=True)


def option_name(parameter: str) -> str:
    """What a refusal calls a parameter: its option where a verb was typed (`--picture`), else its own name (`page`)."""
    return (OPTION_NAMES.get() or {}).get(parameter, parameter)


def say(text: str, level: str = "info") -> None:
    """Print a remark on standard error, as a line of JSON with its level where logs are asked for so; words longer than any path
    are cut."""
    text = with_option_names(text, OPTION_NAMES.get() or {}) if OWN_DATA.get() else text
    text = _LONG_WORD.sub(lambda word: f"{word[0][:80]}..", text)
    if LOG_LINES.get():
        level = "warning" if text.startswith("WARNING: ") else level
        _print(json.dumps({"level": level, "message": text.removeprefix("WARNING: ")}), sys.stderr)
        return
    _print(f"fedfleet: {' '.join(text.splitlines())}", sys.stderr)


def show(lines: Sequence[str]) -> None:
    """Print lines on standard error as they are, such as a picture of blocks; where logs are JSON, the first of them alone."""
    if LOG_LINES.get():
        _print(json.dumps({"level": "info", "message": lines[0]}), sys.stderr)
        return
    _print("\n".join([f"fedfleet: {lines[0]}", *lines[1:]]), sys.stderr)


def say_unless_json(result: object) -> None:
    """Print progress on standard error, but not beside JSON."""
    if not AS_JSON.get():
        say(str(result))


def check_writable(parameter: str, path: Path) -> None:
    """Refuse a file that cannot be written where an option asks for it, before the work is done."""
    try:
        fine = path.absolute().parent.is_dir() and not path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte in it
        fine = False
    if not fine:
        raise BadInput(
            f"{option_name(parameter)}: cannot write {path}: it is a folder, or its folder does not exist; "
            "give a file in a folder that exists"
        )


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on standard error, each so that nobody overlooks it."""
    for warning in warnings:
        say(f"WARNING: {warning}")


def write_page(parameter: str, path: Path, text: str) -> None:
    """Write an HTML page where an option asked for it."""
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{option_name(parameter)}: cannot write {path}: {reason}; give a file in a folder that exists") from None
