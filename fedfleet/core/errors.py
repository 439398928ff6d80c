"""The two ways in which FedFleet says no."""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable
from contextlib import contextmanager


class FedFleetError(Exception):
    """Everything that FedFleet raises on purpose; `exit_code` is what the command line answers."""

    exit_code = 1


class BadInput(FedFleetError):
    """What a person gave cannot be used: one sentence with what, where and the cure."""

    exit_code = 2


class RunFailed(FedFleetError):
    """A run that began properly cannot go on."""


class Refused(Exception):
    """A report cannot be used; its text is the reason. The report is rejected and the run goes on."""


@contextmanager
def error_context(part: str) -> Generator[None]:
    """Errors inside name this part; said once, at the border where it is called. Ours already say what they mean."""
    try:
        yield
    except FedFleetError:
        raise
    except Exception as error:
        raise part_error(part, error) from error


def part_error(part: str, wrong: Exception) -> RunFailed:
    """What to raise for an error inside a part, so that people hear whose it is.

    >>> part_error("selector 'mine'", KeyError("loss"))
    RunFailed("selector 'mine' failed: KeyError: 'loss'")
    """
    return RunFailed(f"{part} failed: {type(wrong).__name__}: {wrong}")


def suggest_name(word: str, known: Iterable[str]) -> str:
    """A hint with the closest known name: `; did you mean 'oort'?`, else the list of what there is.

    >>> suggest_name("fedavgg", ["fedavg", "fedprox"])
    "; did you mean 'fedavg'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there is {', '.join(names)}" if names else ""
