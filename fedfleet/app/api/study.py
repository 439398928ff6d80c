"""`fedfleet.study` and `fedfleet.compare`: several runs, their tables and pages, and which is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from fedfleet.app.api.inputs import folder_of, given, kept_in, kept_once
from fedfleet.app.api.run_result import Result
from fedfleet.app.pages.study_page_worker import work
from fedfleet.app.pages.study_pages import with_pages
from fedfleet.app.spec import plain
from fedfleet.app.studies.compare import Comparison
from fedfleet.app.studies.compare import compare as compared
from fedfleet.app.studies.grid.run_study import Studied, asked_for, place_of
from fedfleet.app.studies.grid.run_study import study as carry_out
from fedfleet.app.studies.grid.study_jobs import Means
from fedfleet.app.terminal.answers import check_folder
from fedfleet.app.terminal.value_checks import counted
from fedfleet.core.errors import BadInput

MOST_WORKERS = 256


def study(
    file: str | Path | Mapping[str, Any],
    *,
    scale: str | None = None,
    model: Any = None,
    data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
) -> Studied:
    """Carry out a study (a file, or the same as a nested dictionary) and write its tables and its page; `print` shows the answer.

    What is finished in the folder is not run again: say the same again to go on after an interruption.

    Args:
        scale: apply the study's `[scale.NAME]`.
        model, data, loss, metrics: your own, as for `run`; such runs are done in this process, one after the other, and the data
            lie once in the folder.
        out: the folder; default: runs/NAME.
        workers: in how many processes to run; default: one for each processor.
    """
    many = None if workers is None else counted("workers", workers, MOST_WORKERS)
    place = None if out is None else folder_of("out", out)
    if isinstance(file, Mapping):
        table = plain(cast("Mapping[Any, Any]", file))
        asked = asked_for({"name": place.name, **table} if place is not None and place.name else table, scale)
    else:
        asked = asked_for(folder_of("the study file", file), scale)
    folder = place_of(asked) if place is None else place
    own = given(model, data, loss, metrics)
    if own.model is None and own.data is None and own.loss is None and not own.metrics:
        return with_pages(carry_out(asked, folder, means=Means(many or 0, work=work), quiet=False))
    resolving, prepare = kept_once(own, folder, "study")
    alone(many)
    return with_pages(carry_out(asked, folder, means=Means(1), quiet=False, resolving=resolving, prepare=prepare))


def alone(workers: int | None) -> None:
    """Refuse other processes for what only this one has."""
    if workers is not None and workers > 1:
        raise BadInput(
            f"workers = {workers}: a model of your own lives in this process, and its runs are done here, one after the other; "
            "leave workers out"
        )


def compare(
    runs: Iterable[Result | str | Path], *, target: float | None = None, page: str | Path | None = None
) -> Comparison:
    """Runs side by side, by their folders or results; `print(found.verdict.sentence)` says which is better and how sure that is.

    Args:
        runs: folders of runs, finished or not, or of studies; or what `run(.., out=..)` gave.
        target: the accuracy to which times are told, as a share; default: from the runs.
        page: also write the comparison as one HTML file.
    """
    if isinstance(runs, str | Path | Result) or not isinstance(runs, Iterable):
        raise BadInput("compare takes a list of runs: compare([first, second])")
    place = None if page is None else folder_of("page", page)
    if place is not None:
        check_folder("page", place)
    found = compared([kept_in(one, "compare") for one in runs], target=target)
    if place is not None:
        from fedfleet.app.pages.comparison_page import write_comparison

        write_comparison(found, place)
    return found
