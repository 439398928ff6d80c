"""`fedfleet compare`: runs side by side, and which is better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_folder


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN..", help="Folders of runs, finished or not; or of a study: all of its runs."),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Also write the comparison as one HTML page.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="The accuracy to which times are told, as a share; default: from the runs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What differs between runs, and which is better: at the end and at equal virtual time, with its uncertainty."""
    from fedfleet.app.studies.compare import answer_of
    from fedfleet.app.studies.compare import compare as compared
    from fedfleet.app.terminal.comparison_text import shown_comparison

    if out is not None:
        check_folder("--out", out)
    found = compared(folders, target=target)
    told = answer_of(found)
    if out is not None:
        from fedfleet.app.pages.comparison_page import write_comparison

        told["page"] = str(write_comparison(found, out))
    answer(told, as_json, shown_comparison)
