"""`fedfleet.tune`: search for the values of a spec's keys with which training does best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.api.inputs import folder_of, given, kept_once
from fedfleet.app.api.study import MOST_WORKERS, alone
from fedfleet.app.pages.search_page import write_tuning
from fedfleet.app.runs.custom_task import named
from fedfleet.app.spec import given_table
from fedfleet.app.studies.tune.search import Hear, place_of
from fedfleet.app.studies.tune.search import tune as carry_out
from fedfleet.app.studies.tune.search_file import asked_for
from fedfleet.app.studies.tune.search_result import Row, Tuned
from fedfleet.app.terminal.value_checks import counted
from fedfleet.core.errors import BadInput

OnTrial = Callable[[Row], object]


def tune(
    spec: str | Path | Mapping[str, Any],
    *overrides: str,
    space: str | Path | Mapping[str, Any] | None = None,
    trials: int | None = None,
    sampler: str | None = None,
    pruner: str | None = None,
    model: Any = None,
    data: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    on_trial: OnTrial | None = None,
    out: str | Path | None = None,
    workers: int = 1,
) -> Tuned:
    """Search for the best values of a spec's keys; trials that do badly are stopped early. `print` shows the answer.

    What has been tried is kept in the folder: say the same again to go on after an interruption, with more trials to add some.

    Args:
        spec: a path or a nested dictionary, with `key=value` overrides, as for `run`; its table `tune` says what may change.
        space: the keys that may change, instead: `{"algorithm.lr": {"low": 0.01, "high": 1.0, "log": True}}`; or a whole table
            `tune`, or a file with one.
        trials: how many, those from before among them; default: what the table says, or 20. The first is the spec as it stands.
        sampler: how values are chosen: tpe (the default), random or grid.
        pruner: which trials are stopped early: by the median (the default), halving or none.
        model, data, loss: your own, as for `run`; such trials are done in this process, and the data lie once in the folder.
        on_trial: called with the `Row` of each trial that ends.
        out: the folder; default: runs/NAME-tune.
        workers: in how many processes to try.

    >>> import tempfile
    >>> spec = {"task": "digits_logreg", "world": {"clients": 10}, "pace": {"cohort": 4}, "stop": {"rounds": 2}}
    >>> found = tune(spec, space={"algorithm.lr": [0.01, 0.5]}, trials=2, sampler="grid", out=tempfile.mkdtemp())
    >>> sorted(found.best), len(found.rows), found.page.name
    (['algorithm.lr'], 2, 'report.html')
    """
    many, hear = counted("workers", workers, MOST_WORKERS), _hearing(on_trial)
    parts = given(model, data, loss)
    name = given_table(spec, overrides)[1]
    folder = place_of(name) if out is None else folder_of("out", out)
    resolving, prepare = kept_once(parts, folder, "tune")
    if resolving is not named:
        alone(many)
    search = asked_for(spec, overrides, space, trials=trials, sampler=sampler, pruner=pruner, resolving=resolving)
    found = carry_out(search, folder, workers=many, hear=hear, prepare=prepare)
    return replace(found, page=write_tuning(found))


def _hearing(on_trial: OnTrial | None) -> Hear:
    """A search waits for whoever listens, and no more: one that fails is named in a warning and not called again."""
    if on_trial is not None and not callable(on_trial):
        raise BadInput(f"on_trial: {on_trial!r} is not a function; give one that takes a Row")
    listening = [on_trial] if on_trial is not None else []

    def hear(row: Row) -> None:
        for one in tuple(listening):
            try:
                one(row)
            except Exception as wrong:
                listening.remove(one)
                name = getattr(one, "__name__", type(one).__name__)
                warnings.warn(
                    f"on_trial: {name} failed at trial {row.trial} ({type(wrong).__name__}: {wrong}); it is not called again, and "
                    "the search goes on",
                    stacklevel=2,
                )

    return hear
