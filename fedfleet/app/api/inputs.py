"""What a person gives to a Python call: a spec by its path or as a table, words that override it, a model and data of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedfleet.app.api.run_result import Result
from fedfleet.app.datasets.user_data import opened
from fedfleet.app.runs.custom_task import Given, Own, Resolving, brought, content, is_own, maker, named, reopened
from fedfleet.app.runs.custom_task_folder import arrays_file, laid_out, read_arrays, write_arrays
from fedfleet.app.spec import Spec, given_table, load_spec, resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task
from fedfleet.store.seals import SEAL
from fedfleet.tasks.task import make_task
from fedfleet.tasks.task_checks import check_fit, checked_build, checked_data

Recipe = Callable[[int], Task]  # a task for a seed


def given(
    model: Any, data: Any, loss: Callable[[Any, Any], Any] | None, metrics: Mapping[str, Any] | None = None
) -> Given:
    """A model, data, a loss and metrics as they were given; data that is no file of arrays is read."""
    if metrics is not None and not isinstance(metrics, Mapping):
        raise BadInput(
            f"metrics: {metrics!r} is not a dictionary; give functions by name: metrics={{'name': function}}"
        )
    return Given(model, opened(data), loss, dict(metrics or {}))


def asked(
    spec: str | Path | Mapping[str, Any],
    overrides: Sequence[str],
    given: Given,
    *,
    resumed: Path | None = None,
    trust: str | None = None,
    copied: bool = True,
) -> tuple[Spec, Own | None]:
    """The resolved spec, and the own task where there is one: as it was given, or with what the folder has of it."""
    table, name = given_table(spec, overrides)
    there = _own_in(resumed)
    if there is None or (given.model is not None and given.data is not None):
        resolved, own = resolving_of(given, "train", copied=copied)(table, name)
        if there is not None and there.task["content"] != resolved.task["content"]:
            raise BadInput(
                f"model or data are not those of the run in {resumed}: its data or its first weights are others; give the same "
                "again, or leave out what the folder keeps"
            )
        return resolved, own
    assert resumed is not None
    _refuse_named_task(table)
    resolved = resolve({**table, "task": there.task}, name)
    if (resumed / SEAL).is_file():
        return resolved, None  # it is finished, and needs nothing any more
    return resolved, reopened(resumed, resolved, trust, replace(given, data=arrays(given.data)))


def resolving_of(given: Given, verb: str, *, copied: bool = False, file: str = "") -> Resolving:
    """How tables become specs with what was given, which is looked at once; `verb` says in a refusal what is done with it.

    The task of the spec where nothing was given; `file` is where the data lie, `copied` whether each run's folder holds them.
    """
    if given.model is None and given.data is None:
        if given.loss is not None or given.metrics:
            raise BadInput("loss and metrics go with a model and data of your own; give these too, or leave them out")
        return named
    if given.model is None or given.data is None:
        raise BadInput(
            f"give both model and data to {verb} your own model, or neither to {verb} the task that the spec names"
        )
    file = file or (str(Path(given.data).resolve()) if isinstance(given.data, str | Path) else "")
    made = dict[tuple[int, int], tuple[str, Own]]()  # hashing the data takes longer than all else
    recipe = list[Recipe]()

    def begun(table: dict[str, Any], name: str) -> tuple[Spec, Own]:
        _refuse_named_task(table)
        if not recipe:
            recipe.append(own_task(given.model, arrays(given.data), scores=given.loss is None))
        resolved = resolve({k: v for k, v in table.items() if k != "task"}, name, own_task="?")
        seeds = resolved.data_seed, resolved.training_seed
        if seeds not in made:
            task = recipe[0](resolved.data_seed)
            made[seeds] = content(task, resolved.training_seed), brought(task, given, file=file, copied=copied)
        known, own = made[seeds]
        loss = {} if given.loss is None else {"loss": getattr(given.loss, "__name__", type(given.loss).__name__)}
        return replace(resolved, task={"use": "own", "content": known, **loss}), own

    return begun


def kept_once(given: Given, folder: Path, verb: str) -> tuple[Resolving, Callable[[], None]]:
    """How many runs of one folder share what was given: data that came as arrays lie in it once, written by the second answer."""
    if given.model is None or given.data is None:
        return resolving_of(given, verb), lambda: None
    held = replace(given, data=arrays(given.data))
    own_task(held.model, held.data, scores=held.loss is None)  # before anything is made of data that cannot be used
    if isinstance(given.data, str | Path):
        return resolving_of(held, verb, file=str(Path(given.data).resolve())), lambda: None
    file = arrays_file(folder, laid_out(held.data))

    def prepare() -> None:
        write_arrays(folder, held.data)

    return resolving_of(held, verb, file=str(file.resolve())), prepare


def own_task(model: Any, data: Sequence[Any], *, scores: bool = True) -> Recipe:
    """A task made of a PyTorch model and arrays; `scores`: the model gives a score for each class, as cross-entropy needs."""
    dataset = checked_data(data)
    check_fit(checked_build(model), dataset, scores=scores)
    return make_task("own", lambda: dataset, maker(model))


def arrays(data: Any) -> Any:
    """Data as arrays, read if they were given as a file."""
    return read_arrays(data) if isinstance(data, str | Path) else data


def folder_of(name: str, value: Any) -> Path:
    """A folder or a file that a person named."""
    if not isinstance(value, str | Path) or not str(value):
        raise BadInput(f"{name} = {value!r}: give a path, as text or as a pathlib.Path")
    return Path(value).expanduser()


def kept_in(one: Any, verb: str) -> Path:
    """The folder of what a call gave, or of what a person names by its path."""
    if isinstance(one, Result) and one.out is None:
        raise BadInput(f"a result was kept in no folder; run it with out=.., then {verb} it")
    where = getattr(one, "out", one)
    if not isinstance(where, str | Path) or not str(where):
        raise BadInput(f"{verb}: {one!r} is no folder; give its path, or what a call with out=.. gave")
    return Path(where).expanduser()


def _refuse_named_task(table: Mapping[str, Any]) -> None:
    task = table.get("task")
    if task is not None and not (isinstance(task, Mapping) and task.get("use") == "own"):
        raise BadInput(
            "the spec names a task, and model and data are of your own; leave [task] out, or the model and the data"
        )


def _own_in(folder: Path | None) -> Spec | None:
    """The spec of the run in this folder, if it is one of an own model."""
    if folder is None or not (folder / "spec.toml").is_file():
        return None
    found = load_spec(folder / "spec.toml")
    return found if is_own(found) else None
