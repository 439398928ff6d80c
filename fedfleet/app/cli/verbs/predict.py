"""`fedfleet predict`: what a run will come to, before anything is trained on the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_writable


def predict(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec file of the run.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]..", help="Overrides of the spec.")] = None,
    sweep: Annotated[
        str | None,
        typer.Option(metavar="KEY=A..B", help="Predict at many values of one key, for example pace.seconds=30..600."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="PAGE", help="Also draw it, as an HTML page.")] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where reference runs are kept; default: ~/.cache/fedfleet.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict accuracy, commits, virtual time and who will be left out, in about a second after three short reference runs."""
    from fedfleet.app.api.predict import predict as predicted

    if out is not None:
        check_writable("--out", out)
    result = predicted(spec, *(words or ()), sweep=sweep, page=out, cache=cache)
    answer(result.answer(), as_json, lambda _: str(result))
