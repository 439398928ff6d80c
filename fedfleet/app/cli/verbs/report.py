"""`fedfleet report`: write the page of a run, of a study or of a search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN|STUDY", help="The folder of a run, of a study or of a search.")
    ],
    as_json: AsJson = False,
) -> None:
    """Write the page of a run, a study or a search as one HTML file, and print what it says; of a run also while it goes on."""
    from fedfleet.app.api.report import report as reported

    result = reported(folder)
    answer(result.answer(), as_json, lambda _: str(result))
