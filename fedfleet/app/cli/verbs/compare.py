"""`fedfleet compare`: runs side by side, and which is better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer, check_writable


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
    from fedfleet.app.terminal.comparison_text import comparison_text

    if out is not None:
        check_writable("--out", out)
    comparison = compared(folders, target=target)
    json_answer = answer_of(comparison)
    if out is not None:
        from fedfleet.app.pages.comparison_page import write_comparison

        json_answer["page"] = str(write_comparison(comparison, out))
    answer(json_answer, as_json, comparison_text)
