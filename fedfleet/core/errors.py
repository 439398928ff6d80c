"""FedFleet's exceptions: bad input, a failed run, a refused report; and what their sentences quote.

That is the nearest known name for a hint, and foreign text as it may be shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

_MAX_ENTRIES, _MAX_NEAR = 10_000, 3  # of a folder in which a name is looked for, and of these those that are tried
MAX_TEXT_LENGTH = 200  # characters of foreign text that are shown
_CUT = ".."


class FedFleetError(Exception):
    """The base of all errors that FedFleet raises on purpose; `exit_code` is the exit code of the command line."""

    exit_code = 1


class BadInput(FedFleetError):
    """Input that cannot be used. The message is one sentence: what is wrong, where, and the cure."""

    exit_code = 2


# A traceback shows the name by which people know it.
BadInput.__module__ = "fedfleet"


class CurableInput(BadInput):
    """Bad input that a few more arguments cure; `cure` has these arguments by their names."""

    def __init__(self, message: str, cure: Mapping[str, str | list[str]] | None = None) -> None:
        super().__init__(message)
        self.cure = dict(cure or {})


CurableInput.__module__ = "fedfleet"


def with_place(place: str, error: BadInput) -> BadInput:
    """The same refusal, which says first where it belongs; its cure stays."""
    text = f"{place}: {error}"
    return CurableInput(text, error.cure) if isinstance(error, CurableInput) else BadInput(text)


class BadCall(BadInput, TypeError):
    """A Python call whose arguments do not fit its signature; who catches TypeError catches it too."""


class RunFailed(FedFleetError):
    """A run that started properly and cannot continue."""


class Refused(Exception):
    """A report that cannot be used; the message is the reason. The server rejects the report and the run continues."""


@contextmanager
def error_context(part: str) -> Generator[None]:
    """Errors raised inside name this part. FedFleet's own errors pass unchanged, since they already name their cause."""
    try:
        yield
    except FedFleetError:
        raise
    except Exception as error:
        raise part_error(part, error) from error


def part_error(part: str, wrong: Exception) -> RunFailed:
    """The error to raise for an exception inside a part, so that the message names the part.

    >>> part_error("selector 'mine'", KeyError("loss"))
    RunFailed("selector 'mine' failed: KeyError: 'loss'")
    """
    return RunFailed(f"{part} failed: {type(wrong).__name__}: {wrong}")


def suggest_name(word: str, known: Iterable[str]) -> str:
    """A hint with the closest known name (`; did you mean 'oort'?`), else the list of known names.

    >>> suggest_name("fedavgg", ["fedavg", "fedprox"])
    "; did you mean 'fedavg'?"
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}" if names else ""


def nearest_file(path: str | Path) -> str:
    """A hint with the file or folder whose path is the nearest, where names of folders may be misspelt too; else nothing."""
    try:
        nearest = _nearest_paths(Path(path).expanduser())
    except (OSError, ValueError, RuntimeError):  # a folder that cannot be read, a name that is none, nobody's home
        nearest = []
    return f"; did you mean {printable(str(nearest[0]))}?" if nearest and nearest[0] != Path(path).expanduser() else ""


def _nearest_paths(path: Path) -> list[Path]:
    """The paths that are there and whose names are near to these, each in its folder; the nearest first."""
    if path.exists() or path.parent == path:
        return [path]
    folders = [folder for folder in _nearest_paths(path.parent) if folder.is_dir()]
    result = [folder / path.name for folder in folders if (folder / path.name).exists()]
    for folder in folders:
        names = [entry.name for entry in islice(folder.iterdir(), _MAX_ENTRIES)]
        result += [folder / name for name in difflib.get_close_matches(path.name, names, n=_MAX_NEAR, cutoff=0.6)]
    return result[:_MAX_NEAR]


def printable(text: str | bytes, longest: int = MAX_TEXT_LENGTH) -> str:
    r"""Foreign text as it may be shown: one line of printable characters, no longer than `longest`.

    What could move a cursor, start a line, hide or turn text around (controls, format and direction marks, lone surrogates,
    separators, private characters) becomes an escape, and what is too long is cut.

    >>> printable("phone\n\x1b[2J of \u202eecila")
    'phone\\n\\x1b[2J of \\u202eecila'
    """
    cut = text[: longest + 1]  # before anything is done with it, however long it is
    line = cut.decode("utf-8", "backslashreplace") if isinstance(cut, bytes) else cut
    if not (line.isprintable() and "\\" not in line):
        line = "".join(
            c if c.isprintable() and c != "\\" else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in line
        )
    return line if len(line) <= longest and len(text) <= longest else line[: longest - len(_CUT)] + _CUT
