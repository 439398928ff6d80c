"""`fedfleet predict`: what a run will come to, before anything is trained on the fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_folder, say, write_page


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
    from fedfleet.app.pages.prediction import prediction_page, sweep_page
    from fedfleet.app.predicting.predicting import answered
    from fedfleet.app.predicting.predicting import predict as predicted
    from fedfleet.app.predicting.sweeping import sweep_of, swept
    from fedfleet.app.spec import resolve
    from fedfleet.app.spec.reading import read_table, with_words
    from fedfleet.app.terminal.predicted import shown_prediction, shown_sweep

    if out is not None:
        check_folder("--out", out)
    asked = None if sweep is None else sweep_of(sweep)
    table = with_words(read_table(spec), words or [])
    if asked is not None:
        found = swept(table, spec.stem, asked, cache=cache, tell=say)
        if out is not None:
            write_page("--out", out, sweep_page(found, spec.stem))
        answer(found, as_json, shown_sweep)
        return
    found = answered(predicted(resolve(table, spec.stem), cache=cache, tell=say))
    if out is not None:
        write_page("--out", out, prediction_page(found, spec.stem))
    answer(found, as_json, shown_prediction)
