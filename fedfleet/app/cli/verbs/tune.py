"""`fedfleet tune`: search for the values of a spec's keys with which training does best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, Interrupted, answer, say


def tune(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec file whose table 'tune' says what may change.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Overrides of the spec, for example stop.rounds=30."),
    ] = None,
    space: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the table 'tune' from this file instead.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="How many trials, those from before among them.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="In how many processes to try.")] = 1,
    sampler: Annotated[str | None, typer.Option(help="How values are chosen: tpe, random or grid.")] = None,
    pruner: Annotated[str | None, typer.Option(help="Which trials are stopped early: median, halving or none.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write; default: runs/NAME-tune.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Search for the best values of a spec's keys; trials that do badly are stopped early. What has been tried is kept."""
    from fedfleet.app.api.tune import tune as search

    try:
        result = search(
            spec, *(words or ()), space=space, trials=trials, sampler=sampler, pruner=pruner, out=out, workers=workers,
            on_trial=None if as_json else lambda row: say(str(row)),
        )  # fmt: skip
    except KeyboardInterrupt:
        raise Interrupted("interrupted; what has been tried is kept: say the same again to go on") from None
    answer({**result.answer(), "page": str(result.page)}, as_json, lambda _: str(result))
    for note in result.notes:
        say(note)
    if result.winner is None:
        raise typer.Exit(1)  # a search of which no trial ended is a failed one
