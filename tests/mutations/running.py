"""Calling the command: in this process under an alarm, or in a process of its own; and judging what it answered."""

import contextlib
import faulthandler
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from unittest import mock

from fedfleet.app.cli import main
from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import perform
from fedfleet.app.spec import load_spec
from tests.app.specs import TINY, written
from tests.mutations.commands import Case, make_case
from tests.processes import start

LIMIT, GRACE = 5.0, 60.0  # seconds for a case, and for its answer to an interrupt
MEMORY = 16 << 30  # of addresses, of which PyTorch takes a good part
WAITING = "; trying for 30 s"  # how the word of a device ends that goes on asking a server which does not answer


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    number: int
    words: list[str]
    code: int
    out: str
    err: str
    seconds: float = 0.0


def finished_run(root: Path) -> Path:
    """The folder of a finished run, for verbs that look at one."""
    spec = written(root, TINY.replace("rounds = 6", "rounds = 2"), "finished.toml")
    done = perform(load_spec(spec), root / "finished")
    write_report(done)
    return done.out


@contextlib.contextmanager
def alarm(limit: float) -> Iterator[None]:
    """Press Ctrl-C after so many seconds; whoever does not hear it is ended with all that it was doing printed."""

    def interrupt(*_: object) -> None:
        faulthandler.dump_traceback_later(GRACE, exit=True, file=sys.__stderr__)
        signal.raise_signal(signal.SIGINT)  # as a terminal does, so that the command's own handler is tried

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def called_here(case: Case, folder: Path, limit: float = LIMIT) -> Answer:
    """The command in this process, in its folder."""
    # Before any alarm: interrupted in the middle, these imports would stay half done, for all tests of this process.
    for module in ("torch._dynamo", "fedfleet.measure.montecarlo.kernel"):
        import_module(module)

    out, err, before, start = io.StringIO(), io.StringIO(), Path.cwd(), time.perf_counter()
    os.chdir(folder)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["fedfleet", *case.words]),
            alarm(limit),
        ):
            main.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        code = 70
        err.write(traceback.format_exc())
    finally:
        os.chdir(before)
        import_module("torch").set_grad_enabled(True)  # an interrupt may fall between PyTorch's switching it off and on
    return Answer(case.number, case.words, code, out.getvalue(), err.getvalue(), time.perf_counter() - start)


def stopped_apart(case: Case, folder: Path, at_work: Callable[[str], bool]) -> Answer:
    """The command in a process of its own, to which Ctrl-C comes as soon as it is at work, going by what it said."""
    with (folder / "said.out").open("w+") as out, (folder / "said.err").open("w+") as err:
        process = start("fedfleet.app.cli.main", *case.words, cwd=folder, stdout=out, stderr=err)
        try:
            until = time.monotonic() + GRACE
            while process.poll() is None and time.monotonic() < until and not at_work(Path(err.name).read_text()):
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            code = process.wait(GRACE)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return Answer(case.number, case.words, code, out.read(), err.read())


def called_apart(case: Case, folder: Path, limit: float = 60.0) -> Answer:
    """The command in a process of its own, as people call it."""
    words = [sys.executable, "-m", "fedfleet.app.cli.main", *(w.replace("\x00", "") for w in case.words)]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += "\nTraceback: it did not answer to an interrupt"
    return Answer(case.number, case.words, process.returncode, out, err)


def complaint(answer: Answer, folder: Path) -> str | None:
    """What is wrong with an answer; None if the command ran, or refused in one sentence."""
    lines = [line for line in answer.err.strip().splitlines() if line.strip()]
    if lines and lines[0].endswith(WAITING) and answer.words[0] == "device":
        lines = lines[1:]  # half a minute without a word would be worse: the refusal is what comes after it
    if "Traceback" in answer.err or answer.code not in (0, 1, 2, 130):
        return f"exit {answer.code}: {answer.err[-3000:]}"
    if answer.code == 2 and (answer.out or len(lines) != 1) and "Usage" not in answer.err:
        return f"a refusal of {len(lines)} lines, {len(answer.out)} characters on standard output: {answer.err[:2000]}"
    if answer.code == 2 and len(answer.err) > 800:
        return f"a sentence of {len(answer.err)} characters: {answer.err[:2000]}"
    if answer.code == 1 and not lines:
        return "a failure without a word"
    texts = [answer.out] if "--json" in answer.words and answer.code == 0 else []
    texts += [p.read_text() for p in [folder / "out" / "metrics.json"] if p.is_file()]
    for text in texts:
        try:
            json.loads(text, parse_constant=_no_constant)
        except ValueError as error:
            return f"what it answers is no JSON: {error}: {text[:300]}"
    return None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def work_through(seed: int, numbers: range, root: Path, results: Path) -> None:
    """Call these cases here, one after the other, and note each before and after: whoever reads knows what killed us."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    finished = root / "finished"
    with results.open("a") as file:
        for number in numbers:
            case, folder = make_case(seed, number, root, finished)
            file.write(json.dumps({"begun": number, "words": case.words}) + "\n")
            file.flush()
            answer = called_here(case, folder)
            wrong = complaint(answer, folder)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            file.write(json.dumps({**asdict(answer), "out": answer.out[:500], "complaint": wrong, "peak_mb": peak}) + "\n")
            file.flush()
            if wrong is None:
                shutil.rmtree(folder)


if __name__ == "__main__":
    _, seed, first, last, root, results = sys.argv
    work_through(int(seed), range(int(first), int(last)), Path(root), Path(results))
