"""`fedfleet.report`: the page of a run, of a study or of a search, written from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedfleet.app.api.inputs import result_folder
from fedfleet.app.api.results import Reported
from fedfleet.core.errors import BadInput


def report(of: Any) -> Reported:
    """Write the page of a run, a study or a search as one HTML file; of a run also while it goes on. `print` shows what it says.

    Args:
        of: the folder, or what `run(.., out=..)`, `study` or `tune` gave.
    """
    folder = result_folder(of, "report")
    if (folder / "study.json").is_file():
        return _report_study(folder)
    if (folder / "tune.json").is_file():
        return _report_search(folder)
    for name, file in (("study", "study.toml"), ("search", "tune.db")):
        if (folder / file).is_file():
            raise BadInput(
                f"the {name} in {folder} has not ended, so there is nothing to report yet; say the same again to go on"
            )
    from fedfleet.app.pages.report_page import report_run
    from fedfleet.app.terminal.text import metrics_text

    json_answer = report_run(folder)
    return Reported("run", Path(json_answer["report"]), metrics_text(json_answer), json_answer)


def _report_study(folder: Path) -> Reported:
    from fedfleet.app.pages.study_page import report_study, study_answer

    path = report_study(folder)
    json_answer = study_answer(folder, path)
    return Reported("study", path, f"{json_answer['verdict']}\npage: {path}", json_answer)


def _report_search(folder: Path) -> Reported:
    from fedfleet.app.pages.search_page import report_tuning
    from fedfleet.app.studies.tune.search_result import read_search_result, result_text

    tuned, path = read_search_result(folder), report_tuning(folder)
    return Reported("search", path, result_text(tuned), {**tuned.answer(), "report": str(path)})
