"""`fedfleet.tune`: search for the values of a spec's keys with which training does best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedfleet.app.api.study import refuse_workers
from fedfleet.app.terminal.answers import warn
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
from fedfleet.app.terminal.value_checks import MOST_WORKERS, Workers, positive_int
from fedfleet.core.errors import BadInput

if TYPE_CHECKING:
    from fedfleet.app.studies.tune.search import RowListener
    from fedfleet.app.studies.tune.search_result import Row, Tuned

OnTrial = Callable[["Row"], object]


def tune(
    spec: str | Path | Mapping[str, Any] | None = None,
    *overrides: str,
    space: str | Path | Mapping[str, Any] | None = None,
    trials: int | None = None,
    sampler: str | None = None,
    pruner: str | None = None,
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
    weights: Any = None,
    partial_weights: Any = False,
    on_trial: OnTrial | None = None,
    out: str | Path | None = None,
    workers: Workers = 1,
    track: Sequence[str] | str = (),
) -> Tuned:
    """Search for the best values of a spec's keys; trials that do badly are stopped early. What has been tried is kept.

    Run the same again to resume after an interruption, with more trials to add some.

    Args:
        spec: a spec file whose table 'tune' says what may change; in Python also a nested dictionary.
        overrides: overrides of the spec, for example stop.rounds=30.
        space: read the table 'tune' from this file instead; in Python also a table, or the keys that may change:
            `{"algorithm.lr": {"low": 0.01, "high": 1.0, "log": True}}`.
        trials: how many trials, those from before among them; default: what the table says, or 20. The first is the spec as it
            stands.
        sampler: how values are chosen: tpe (the default), random or grid.
        pruner: which trials are stopped early: median (the default), halving or none.
        model, data, label, owner, input, drop, time, kind, missing: your own, by their places; in Python also as objects, as for
            `run`.
        loss, weights, partial_weights: your own, as for `run`; such trials are done in this process, and the data lie once in the
            folder.
        on_trial: called with the `Row` of each trial that ends.
        out: the folder to write; default: runs/NAME-tune.
        workers: in how many processes to try.
        track: write each trial that this call ends to tensorboard:DIR, mlflow:URI, wandb:DIR or jsonl:FILE too; may be repeated.

    >>> import tempfile
    >>> spec = {"task": "digits_logreg", "world": {"clients": 10}, "pace": {"cohort": 4}, "stop": {"rounds": 2}}
    >>> found = tune(spec, space={"algorithm.lr": [0.01, 0.5]}, trials=2, sampler="grid", out=tempfile.mkdtemp())
    >>> sorted(found.best), len(found.rows), found.page.name
    (['algorithm.lr'], 2, 'report.html')
    """
    from fedfleet.app.api.inputs import as_path, shared_resolver, take_inputs, user_inputs
    from fedfleet.app.api.own_task import Columns
    from fedfleet.app.api.user_warnings import warn_of_unseeded
    from fedfleet.app.pages.search_page import write_tuning
    from fedfleet.app.runs.custom_task import resolve_named_task
    from fedfleet.app.studies.run_export import run_tracker
    from fedfleet.app.studies.tune.search import default_folder
    from fedfleet.app.studies.tune.search import tune as run_search
    from fedfleet.app.studies.tune.search_file import load_search
    from fedfleet.app.studies.tune.trial import trial_runs

    worker_count, notify = positive_int("workers", workers, MOST_WORKERS), _trial_listener(on_trial)
    tracker = run_tracker(track)
    given = user_inputs(model, data, loss, None, weights, partial_weights=partial_weights)
    table, name, inputs = take_inputs(spec, overrides, given, Columns(label, owner, input, drop, time, kind, missing))
    folder = default_folder(name) if out is None else as_path("out", out)
    resolver, prepare = shared_resolver(inputs, folder, "tune")
    if resolver is not resolve_named_task:
        warn_of_unseeded(inputs)
        refuse_workers(worker_count)
    search = load_search(table, name, space, trials=trials, sampler=sampler, pruner=pruner, resolving=resolver)

    def on_row(row: Row) -> None:
        for name, run_folder in trial_runs(folder, row.trial).items():
            tracker.write(run_folder, name)
        notify(row)

    result = run_search(search, folder, workers=worker_count, on_row=on_row, prepare=prepare)
    warn(tracker.warnings)
    return replace(result, page=write_tuning(result))


def _trial_listener(on_trial: OnTrial | None) -> RowListener:
    """What is called with each row. A listener that fails is named in a warning and not called again; the search goes on."""
    if on_trial is not None and not callable(on_trial):
        raise BadInput(f"on_trial: {on_trial!r} is not a function; give one that takes a Row")
    callbacks = [on_trial] if on_trial is not None else []

    def notify(row: Row) -> None:
        for callback in tuple(callbacks):
            try:
                callback(row)
            except Exception as error:
                callbacks.remove(callback)
                name = getattr(callback, "__name__", type(callback).__name__)
                warnings.warn(
                    f"on_trial: {name} failed at trial {row.trial} ({type(error).__name__}: {error}); it is not "
                    "called again, and the search continues",
                    stacklevel=2,
                )

    return notify
