"""`fedfleet.study` and `fedfleet.compare`: several runs, their tables and pages, and which is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from fedfleet.app.api.inputs import as_path, result_folder, shared_resolver, user_inputs
from fedfleet.app.api.run_result import Result
from fedfleet.app.pages.page_writer import run_and_write
from fedfleet.app.pages.study_pages import write_pages
from fedfleet.app.spec import plain_table
from fedfleet.app.studies.compare import Comparison
from fedfleet.app.studies.compare import compare as compared
from fedfleet.app.studies.grid.run_study import Studied, default_folder, load_study
from fedfleet.app.studies.grid.run_study import study as carry_out
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from fedfleet.app.terminal.answers import check_writable
from fedfleet.app.terminal.value_checks import positive_int
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
    worker_count = None if workers is None else positive_int("workers", workers, MOST_WORKERS)
    out_folder = None if out is None else as_path("out", out)
    if isinstance(file, Mapping):
        table = plain_table(cast("Mapping[Any, Any]", file))
        study_plan = load_study(
            {"name": out_folder.name, **table} if out_folder is not None and out_folder.name else table, scale
        )
    else:
        study_plan = load_study(as_path("the study file", file), scale)
    folder = default_folder(study_plan) if out_folder is None else out_folder
    inputs = user_inputs(model, data, loss, metrics)
    if inputs.model is None and inputs.data is None and inputs.loss is None and not inputs.metrics:
        return write_pages(
            carry_out(
                study_plan, folder, worker_settings=WorkerSettings(worker_count or 0, work=run_and_write), quiet=False
            )
        )
    resolver, prepare = shared_resolver(inputs, folder, "study")
    refuse_workers(worker_count)
    return write_pages(
        carry_out(
            study_plan, folder, worker_settings=WorkerSettings(1), quiet=False, resolving=resolver, prepare=prepare
        )
    )


def refuse_workers(workers: int | None) -> None:
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
    page_path = None if page is None else as_path("page", page)
    if page_path is not None:
        check_writable("page", page_path)
    result = compared([result_folder(one, "compare") for one in runs], target=target)
    if page_path is not None:
        from fedfleet.app.pages.comparison_page import write_comparison

        write_comparison(result, page_path)
    return result
