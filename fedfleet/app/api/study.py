"""`fedfleet.study` and `fedfleet.compare`: several runs, their tables and pages, and which is better."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fedfleet.app.terminal.answers import AS_JSON, check_writable, option_name
from fedfleet.app.terminal.own_options import (
    DroppedColumns,
    InputColumns,
    KindOfTask,
    LabelColumn,
    MissingRule,
    OwnerColumn,
    OwnModel,
    OwnPath,
    TimeColumn,
)
from fedfleet.app.terminal.value_checks import MOST_LOOKS, MOST_WORKERS, Looks, Workers, positive_int
from fedfleet.core.errors import BadInput

if TYPE_CHECKING:
    from fedfleet.app.api.run_result import Result
    from fedfleet.app.studies.compare import Comparison
    from fedfleet.app.studies.grid.run_study import Studied
    from fedfleet.executors.worker_pool import WorkerPool


def study(
    file: str | Path | Mapping[str, Any],
    *,
    scale: str | None = None,
    aim: str | None = None,
    model: OwnModel = None,
    data: OwnPath = None,
    label: LabelColumn = None,
    owner: OwnerColumn = None,
    input: InputColumns = None,
    drop: DroppedColumns = None,
    time: TimeColumn = None,
    kind: KindOfTask = None,
    missing: MissingRule = None,
    loss: Callable[[Any, Any], Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    weights: Any = None,
    partial_weights: Any = False,
    out: str | Path | None = None,
    workers: Workers | None = None,
    ray: bool = False,
    ray_address: str | None = None,
    track: Sequence[str] | str = (),
) -> Studied:
    """Run every arm of a study with every seed, and compare them: tables, analyses and one page. What is finished stays.

    Run the same again to resume after an interruption.

    Args:
        file: a study file in TOML, or one that ships: mild, middle or severe, which ask on such a fleet whether to wait for all
            clients, to stop at a deadline, or to train without rounds; in Python also a nested dictionary.
        scale: apply the study's table 'scale.NAME', for example quick or full.
        aim: by what an arm is recommended: accuracy (the score of whatever task, at equal time), or time, bytes or joules to the
            target, or fairness (the score of the worst tenth of clients), or another measure: rmse, perplexity, own.NAME;
            default: that of the file, else accuracy.
        model, data, label, owner, input, drop, time, kind, missing: your own, by their places; in Python also as objects, as for
            `run`.
        loss, metrics, weights, partial_weights: your own, as for `run`; such runs are done in this process, one after the other,
            and the data lie once in the folder.
        out: the folder to write; default: runs/NAME, or runs/NAME-SCALE.
        workers: in how many processes to run; default: one for each processor.
        ray: run on a Ray cluster, started here if no address is given.
        ray_address: run on the Ray cluster at this address; the folder must be one that it shares.
        track: write each run that this call finishes to tensorboard:DIR, mlflow:URI, wandb:DIR or jsonl:FILE too; may be repeated.
    """
    worker_count = None if workers is None else positive_int("workers", workers, MOST_WORKERS)
    here = any(given is not None for given in (model, data, loss, metrics, weights)) or ray or ray_address is not None
    started = 0 if here or not _needs_workers(file, out) else _count_of_workers(worker_count)
    # The workers start at once, so that they load their libraries while this process loads its own.
    with _early_workers(started) as pool:
        from fedfleet.app.api.inputs import as_path, shared_resolver, take_study_inputs, user_inputs
        from fedfleet.app.api.own_task import Columns
        from fedfleet.app.api.user_warnings import warn_of_unseeded
        from fedfleet.app.pages.page_writer import run_and_write
        from fedfleet.app.pages.study_page import write_pages
        from fedfleet.app.spec import plain_table
        from fedfleet.app.studies.compare.criteria import check_aim
        from fedfleet.app.studies.grid.ready_studies import is_ready, ready_table, refuse_misspelt
        from fedfleet.app.studies.grid.run_study import default_folder, load_study
        from fedfleet.app.studies.grid.run_study import study as run_study
        from fedfleet.app.studies.grid.study_jobs import WorkerSettings
        from fedfleet.app.studies.run_export import run_tracker

        out_folder = None if out is None else as_path("out", out)
        if isinstance(file, Mapping):
            table = plain_table(cast("Mapping[Any, Any]", file))
            named = {"name": out_folder.name, **table} if out_folder is not None and out_folder.name else table
            study_plan = load_study(named, scale)
        elif is_ready(file):
            study_plan = load_study(ready_table(str(file)), scale)
        else:
            refuse_misspelt(file)
            study_plan = load_study(as_path("the study file", file), scale)
        study_plan = study_plan if aim is None else replace(study_plan, aim=check_aim(aim, option_name("aim")))
        inputs = user_inputs(model, data, loss, metrics, weights, partial_weights=partial_weights)
        columns = Columns(label, owner, input, drop, time, kind, missing)
        study_plan, inputs = take_study_inputs(study_plan, inputs, columns, small_fleets=is_ready(file))
        folder = default_folder(study_plan) if out_folder is None else out_folder
        quiet, tracker = AS_JSON.get(), run_tracker(track)
        if inputs.model is None and inputs.data is None and inputs.loss is None and not inputs.metrics:
            settings = WorkerSettings(
                worker_count or 0, ray=ray or ray_address is not None, address=ray_address, work=run_and_write, pool=pool
            )
            return write_pages(run_study(study_plan, folder, worker_settings=settings, quiet=quiet, tracker=tracker))
        warn_of_unseeded(inputs)
        resolver, prepare = shared_resolver(inputs, folder, "study")
        refuse_workers(worker_count)
        if ray or ray_address is not None:
            raise BadInput("ray: a model of your own exists only in this process, so its runs must run here; leave ray out")
        return write_pages(
            run_study(
                study_plan,
                folder,
                worker_settings=WorkerSettings(1),
                quiet=quiet,
                resolving=resolver,
                prepare=prepare,
                tracker=tracker,
            )
        )


_WORK = "fedfleet.app.pages.page_writer:run_and_write"


def _needs_workers(file: object, out: object) -> bool:
    """Is there certainly a study to run? A file that is not there has none, and a study that was begun may be finished."""
    if isinstance(out, str | Path) and (Path(out) / "study.toml").is_file():
        return False
    # Names of studies that ship have no ending.
    return isinstance(file, Mapping) or (isinstance(file, str | Path) and (Path(file).is_file() or not Path(file).suffix))


def _count_of_workers(wanted: int | None) -> int:
    from fedfleet.core.registry import added_here
    from fedfleet.executors.worker_pool import processor_count

    return wanted or (1 if added_here() else processor_count())


@contextmanager
def _early_workers(count: int) -> Iterator[WorkerPool | None]:
    """That many workers from now on; none where one process is enough."""
    if count < 2:
        yield None
        return
    from fedfleet.executors.worker_pool import open_workers

    with tempfile.TemporaryDirectory() as folder, open_workers(_WORK, count, log=Path(folder) / "workers.log") as pool:
        yield pool


def refuse_workers(workers: int | None) -> None:
    """Refuse other processes for what only this one has."""
    if workers is not None and workers > 1:
        raise BadInput(
            f"{option_name('workers')} = {workers}: a model of your own exists only in this process, so its runs "
            "run here, one after the other; leave workers out"
        )


def compare(
    runs: Iterable[Result | str | Path],
    *,
    target: float | str | None = None,
    aim: str | None = None,
    look: Looks | None = None,
    page: str | Path | None = None,
) -> Comparison:
    """What differs between runs, and which to use: how much better it is, how sure that is, and what speaks against it.

    Args:
        runs: folders of runs, finished or not; or of a study: all of its runs. In Python also what `run(.., out=..)` gave.
        target: the score to which times are measured, as a share, or the limit of a measure, such as "rmse <= 3.5"; default:
            from the runs.
        aim: by what an arm is recommended: accuracy (the score of whatever task, at equal time, the default), or time, bytes or
            joules to the target, or fairness (the score of the worst tenth of clients), or another measure: rmse, own.NAME.
        look: how often these arms have been compared by now, each time with more seeds; default: 1, of a study what its folder
            says.
        page: also write the comparison as one HTML page.
    """
    from fedfleet.app.api.inputs import as_path, result_folder
    from fedfleet.app.api.run_result import Result
    from fedfleet.app.studies.compare import compare as compare_folders
    from fedfleet.app.studies.compare.aim_names import check_aim

    if isinstance(runs, str | Path | Result) or not isinstance(runs, Iterable):
        raise BadInput("compare takes a list of runs: compare([first, second])")
    page_path = None if page is None else as_path("page", page)
    if page_path is not None:
        check_writable("page", page_path)
    count = None if look is None else positive_int("look", look, MOST_LOOKS)
    result = compare_folders(
        [result_folder(one, "compare") for one in runs],
        target=target,
        aim=None if aim is None else check_aim(aim, option_name("aim")),
        look=count,
    )
    if page_path is None:
        return result
    from fedfleet.app.pages.comparison_page import write_comparison

    return replace(result, page=write_comparison(result, page_path))
