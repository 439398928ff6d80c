"""`fedfleet report`: write the page of a run or of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN|STUDY", help="The folder of a run or of a study.")],
    as_json: AsJson = False,
) -> None:
    """Write the page of a run or of a study as one HTML file, and print what it says; of a run also while it goes on."""
    if (folder / "study.json").is_file():
        from fedfleet.app.pages.study import report_study, told_study

        path = report_study(folder)
        answer(told_study(folder, path), as_json, lambda found: f"{found['verdict']}\npage: {found['report']}")
        return
    from fedfleet.app.pages.report import report_run
    from fedfleet.app.terminal.text import shown_metrics

    answer(report_run(folder), as_json, shown_metrics)
