"""`fedfleet.report`: the page of a run, of a study or of a search, written from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedfleet.app.api.inputs import kept_in
from fedfleet.app.api.results import Reported
from fedfleet.core.errors import BadInput


def report(of: Any) -> Reported:
    """Write the page of a run, a study or a search as one HTML file; of a run also while it goes on. `print` shows what it says.

    Args:
        of: the folder, or what `run(.., out=..)`, `study` or `tune` gave.
    """
    folder = kept_in(of, "report")
    if (folder / "study.json").is_file():
        return _study(folder)
    if (folder / "tune.json").is_file():
        return _search(folder)
    for name, file in (("study", "study.toml"), ("search", "tune.db")):
        if (folder / file).is_file():
            raise BadInput(
                f"the {name} in {folder} has not ended, so there is nothing to report yet; say the same again to go on"
            )
    from fedfleet.app.pages.report_page import report_run
    from fedfleet.app.terminal.text import shown_metrics

    told = report_run(folder)
    return Reported("run", Path(told["report"]), shown_metrics(told), told)


def _study(folder: Path) -> Reported:
    from fedfleet.app.pages.study_page import report_study, told_study

    path = report_study(folder)
    told = told_study(folder, path)
    return Reported("study", path, f"{told['verdict']}\npage: {path}", told)


def _search(folder: Path) -> Reported:
    from fedfleet.app.pages.search_page import report_tuning
    from fedfleet.app.studies.tune.search_result import read_tuned, shown_tuned

    found, path = read_tuned(folder), report_tuning(folder)
    return Reported("search", path, shown_tuned(found), {**found.answer(), "report": str(path)})
