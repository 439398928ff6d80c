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
    if (folder / "study.json").is_file():
        from fedfleet.app.pages.study import report_study, told_study

        path = report_study(folder)
        answer(told_study(folder, path), as_json, lambda found: f"{found['verdict']}\npage: {found['report']}")
        return
    if (folder / "tune.json").is_file():
        from fedfleet.app.pages.tuning import report_tuning
        from fedfleet.app.tuning.answering import read_tuned, shown_tuned

        found, path = read_tuned(folder), report_tuning(folder)
        answer({**found.answer(), "report": str(path)}, as_json, lambda _: shown_tuned(found))
        return
    from fedfleet.app.pages.report import report_run
    from fedfleet.app.terminal.text import shown_metrics

    answer(report_run(folder), as_json, shown_metrics)
