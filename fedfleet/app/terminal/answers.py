"""How a verb answers: a JSON object for programs, text for people, remarks on standard error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from fedfleet.core.errors import BadInput, FedFleetError

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")
]
SigningKey = Annotated[
    Path | None,
    typer.Option(metavar="KEY", help="Sign the finished run with this Ed25519 private key (OpenSSH or PEM)."),
]
TrustCode = Annotated[
    str | None,
    typer.Option(metavar="HASH", help="Run the code of an own model that lies in the folder, if this is its hash."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]

LOG_LINES: ContextVar[bool] = ContextVar("remarks as lines of JSON", default=False)
_LONG_WORD = re.compile(r"\S{400,}")


class Interrupted(FedFleetError):
    """The user pressed Ctrl-C, and can be told how to go on."""

    exit_code = 130


def answer(value: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], str]) -> None:
    """Print an answer on standard output, for a program or for a person."""
    typer.echo(json.dumps(value) if as_json else show(value))


def say(text: str, level: str = "info") -> None:
    """Print a remark on standard error, as a line of JSON with its level where logs are asked for so; words longer than any path
    are cut."""
    text = _LONG_WORD.sub(lambda word: f"{word[0][:80]}..", text)
    if LOG_LINES.get():
        level = "warning" if text.startswith("WARNING: ") else level
        typer.echo(json.dumps({"level": level, "message": text.removeprefix("WARNING: ")}), err=True)
        return
    typer.echo(f"fedfleet: {' '.join(text.splitlines())}", err=True)


def check_writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written where an option asks for it, before the work is done."""
    try:
        fine = path.absolute().parent.is_dir() and not path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte in it
        fine = False
    if not fine:
        raise BadInput(
            f"{option}: cannot write {path}: there is no such folder, or it is one; give a file in a folder that exists"
        )


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on standard error, each so that nobody overlooks it."""
    for warning in warnings:
        say(f"WARNING: {warning}")


def write_page(option: str, path: Path, text: str) -> None:
    """Write an HTML page where an option asked for it."""
    try:
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{option}: cannot write {path}: {reason}; give a file in a folder that exists") from None
