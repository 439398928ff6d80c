"""`fedfleet explain`: say where the time of a run went."""

from __future__ import annotations

from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, RunFolder, answer


def explain(
    folder: RunFolder,
    rounds: Annotated[
        int, typer.Option("--rounds", min=0, metavar="N", help="List the N longest rounds with their causes.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Say where the virtual time of a run went, cause by cause, and who was waited for; also while the run is going on."""
    from fedfleet.app.runs.explaining import explained
    from fedfleet.app.terminal.explained import shown_explained

    answer(explained(folder, longest=rounds), as_json, shown_explained)
