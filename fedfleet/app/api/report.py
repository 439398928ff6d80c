"""`fedfleet.report`: the page of a run, of a study or of a search, written from its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fedfleet.app.terminal.text import join_words
from fedfleet.core.errors import BadInput

_NAMED = 5  # folders in a sentence


@dataclass(frozen=True, slots=True, repr=False)
class Reported:
    """The page of a run, a study or a search that was written; `print` shows what it says in short."""

    kind: Literal["run", "study", "search"]
    page: Path
    text: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def to_dict(self) -> dict[str, Any]:
        """What `fedfleet report --json` answers."""
        return dict(self.values)

    answer = to_dict  # its name before

    def __repr__(self) -> str:
        return f"Reported({self.kind}: {self.page})"

    def __str__(self) -> str:
        return self.text


def report(of: str | Path | Any) -> Reported:
    """Write the page of a run, a study or a search as one HTML file, and print what it says; of a run also while it goes on.

    Args:
        of: the folder of a run, of a study or of a search; in Python also what `run(.., out=..)`, `study` or `tune` gave.
    """
    from fedfleet.app.api.inputs import result_folder

    folder = result_folder(of, "report")
    if (folder / "study.json").is_file():
        from fedfleet.app.pages.study_page import report_study, study_answer

        page = report_study(folder)
        values = study_answer(folder, page)
        return Reported("study", page, f"{values['verdict']}\npage: {page}", values)
    if (folder / "tune.json").is_file():
        from fedfleet.app.pages.search_page import report_tuning
        from fedfleet.app.studies.tune.search_result import read_search_result

        result, page = read_search_result(folder), report_tuning(folder)
        return Reported("search", page, str(result), {**result.to_dict(), "report": str(page)})
    for name, file in (("study", "study.toml"), ("search", "tune.db")):
        if (folder / file).is_file():
            raise BadInput(
                f"the {name} in {folder} has not ended, so there is nothing to report yet; run the same command again to resume"
            )
    _refuse_folder_of_runs(folder)
    from fedfleet.app.pages.report_page import report_run
    from fedfleet.app.terminal.text import metrics_text

    values = report_run(folder)
    return Reported("run", Path(values["report"]), metrics_text(values), values)


def _refuse_folder_of_runs(folder: Path) -> None:
    """Refuse a folder that is no run itself but holds some, by their names."""
    if not folder.is_dir() or (folder / "run.db").is_file() or (folder / "spec.toml").is_file():
        return
    files = ("run.db", "study.json", "tune.json")
    inside = sorted(str(one) for one in folder.iterdir() if one.is_dir() and any((one / file).is_file() for file in files))
    if inside:
        raise BadInput(f"{folder} is no folder of a run, but these in it are: {join_words(inside, _NAMED)}; name one of them")
