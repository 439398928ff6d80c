"""Where a search is kept: an Optuna study in OUT/tune.db, which a later call goes on with; what is not ours is refused."""

from __future__ import annotations

import json
import logging
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fedfleet.app.studies.tune.search_file import Axis, Search, grid_points
from fedfleet.core.errors import BadInput
from fedfleet.core.rng import stream

DATABASE = "tune.db"
PROGRESS_MARKS = 20  # how often on the way of a run it is asked whether to go on
_STUDY = "fedfleet tune"
_SEARCH = "search"
_OTHER_SPEC = {
    False: "of the spec",
    True: "of the spec, of the data, or of the model's initial weights, which differ each time that it is made; "
    "call torch.manual_seed before, or give a function that makes it",
}
_WAIT = 120.0  # seconds that a worker waits for another to have written


def import_optuna() -> Any:
    """The library, quiet; where it is missing, the extra is named that brings it."""
    try:
        import optuna as library
    except ImportError:
        raise BadInput("a search needs optuna; install it with: pip install 'fedfleet[app]'") from None
    library.logging.set_verbosity(logging.ERROR)
    return library


@contextmanager
def silence_warnings() -> Iterator[None]:
    """Without what the library warns of: values that are reported again after a kill, features that may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def open_study(out: Path, search: Search) -> Any:
    """The study of this search in this folder, begun if there is none; its first trial is the spec as it stands."""
    path = out / DATABASE
    if path.exists():
        _check_database(path, search)
    else:
        _create_database(path, search)
    with silence_warnings():
        return _load_study(path, search)


def _create_database(path: Path, search: Search) -> None:
    """A new database, whole or not at all: a process that is killed here leaves nothing in the way of the next one."""
    draft = path.with_name(f"{path.name}.part")
    for leftover in draft.parent.glob(f"{draft.name}*"):
        leftover.unlink()
    with silence_warnings():
        study = _load_study(draft, search)
        try:
            _enqueue_default(study, search)
            enqueue_grid(study, search)
            study.set_user_attr(_SEARCH, json.dumps(search.identity(), sort_keys=True))
        finally:
            close_study(study)
    with closing(sqlite3.connect(draft, timeout=_WAIT)) as db:
        db.execute("pragma journal_mode=wal")  # readers do not wait for writers
    draft.replace(path)


def _load_study(path: Path, search: Search) -> Any:
    library = import_optuna()
    return library.create_study(
        storage=_storage(library, path), study_name=_STUDY, load_if_exists=True,
        direction="minimize" if search.aim.minimise else "maximize", pruner=_pruner(library, search),
    )  # fmt: skip


def close_study(study: Any) -> None:
    """Close the database of a study; what is left is one file."""
    storage = getattr(study._storage, "_backend", study._storage)
    storage.remove_session()
    storage.engine.dispose()


def seed_sampler(study: Any, search: Search, turn: int) -> None:
    """Give the study a sampler whose draws belong to this turn, so that a search that was killed goes on as if it had not been."""
    library = import_optuna()
    seed = int(stream(search.seeds[0], "tune", turn).integers(2**31))
    with silence_warnings():
        if search.sampler == "tpe":
            study.sampler = library.samplers.TPESampler(seed=seed, n_startup_trials=8)
        else:
            study.sampler = library.samplers.RandomSampler(seed)


def suggest_value(trial: Any, axis: Axis) -> Any:
    """The value that a trial has for a key."""
    if axis.values:
        return json.loads(trial.suggest_categorical(axis.key, [_encode(value) for value in axis.values]))
    if axis.whole:
        return trial.suggest_int(axis.key, int(axis.low), int(axis.high), log=axis.log, step=int(axis.step or 1))
    return trial.suggest_float(axis.key, axis.low, axis.high, log=axis.log, step=axis.step)


def _encode(value: Any) -> str:
    """A value of a list as text, under which the search keeps it: lists and tables are values too."""
    return json.dumps(value, sort_keys=True)


def _enqueue_default(study: Any, search: Search) -> None:
    """The spec as it stands comes first."""
    defaults = search.defaults()
    inside = all(axis.key in defaults and axis.contains(defaults[axis.key]) for axis in search.space)
    fixed = _fixed_params(search, defaults) if inside else {}
    study.enqueue_trial(fixed, user_attrs={"default": True, "inside": inside}, skip_if_exists=False)


def enqueue_grid(study: Any, search: Search) -> None:
    """See that a grid has a trial at each of its points, also where the search was begun with another sampler."""
    if search.sampler != "grid":
        return
    known = [t.system_attrs.get("fixed_params") or t.params for t in study.get_trials(deepcopy=False)]
    with silence_warnings():
        for point in grid_points(search.space):
            fixed = _fixed_params(search, point)
            if fixed not in known:
                study.enqueue_trial(fixed)


def _fixed_params(search: Search, values: Mapping[str, Any]) -> dict[str, Any]:
    return {a.key: _encode(values[a.key]) if a.values else values[a.key] for a in search.space}


def _pruner(library: Any, search: Search) -> Any:
    """By the median, no trial is stopped in the first tenth of a run, nor against fewer than four others."""
    if search.pruner == "none" or not search.aim.known_early:
        return library.pruners.NopPruner()
    if search.pruner == "halving":
        return library.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3)
    return library.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=PROGRESS_MARKS // 10)


def _storage(library: Any, path: Path) -> Any:
    from sqlalchemy.engine import URL

    address = URL.create("sqlite", database=str(path.resolve())).render_as_string()
    try:
        return library.storages.RDBStorage(address, engine_kwargs={"connect_args": {"timeout": _WAIT}})
    except Exception as error:  # of SQLAlchemy, of Alembic, of the library itself
        raise BadInput(f"{path} cannot be used ({_first_line(error)}); choose another folder with --out") from None


def _check_database(path: Path, search: Search) -> None:
    """Refuse a file that is no database, is damaged, or is of another program or search."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=_WAIT)) as db:
            sound = db.execute("pragma quick_check(1)").fetchone()[0]
            names = [row[0] for row in db.execute("select study_name from studies")]
            saved = db.execute("select value_json from study_user_attributes where key = ?", (_SEARCH,)).fetchone()
    except sqlite3.Error as error:
        raise BadInput(f"{path} is damaged or not the database of a search ({error}); choose another folder with --out") from None
    if sound != "ok":
        raise BadInput(f"{path} is damaged ({sound}); choose another folder with --out, or move it away to start again")
    if names and names != [_STUDY]:
        raise BadInput(f"{path} is a database of another program's search ({names[0]!r}); choose another folder with --out")
    if saved is not None:
        _check_same(path, json.loads(json.loads(saved[0])), json.loads(json.dumps(search.identity())), search.own)


def _check_same(path: Path, saved: Mapping[str, Any], current: Mapping[str, Any], own: bool) -> None:
    for key in ("space", "metric", "minimise", "seeds", "spec"):
        if saved.get(key) == current[key]:
            continue
        if key == "space":
            odd = next(k for k in {**saved[key], **current[key]} if saved[key].get(k) != current[key].get(k))
            difference = f'of "{odd}": {saved[key].get(odd, "none")} there, {current[key].get(odd, "none")} here'
        else:
            difference = _OTHER_SPEC[own] if key == "spec" else f"of {key}: {saved.get(key)} there, {current[key]} here"
        raise BadInput(f"{path} holds a search with different settings ({difference}); choose another folder with --out")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
