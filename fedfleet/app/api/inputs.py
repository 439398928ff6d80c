"""What a person gives to a Python call: a spec by its path or as a table, words that override it, a model and data of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.api.own_task import (
    NO_COLUMNS,
    Columns,
    SpecSource,
    dealt_by_owner,
    names_task,
    read_user_data,
    refuse_columns,
    refuse_nothing,
    take_task,
    with_named_task,
)
from fedfleet.app.api.run_result import Result
from fedfleet.app.runs.custom_task import (
    CustomTask,
    Resolver,
    UserInputs,
    is_custom_task,
    load_custom_task,
    new_custom_task,
    resolve_named_task,
    task_content_id,
)
from fedfleet.app.runs.custom_task_folder import (
    arrays_file,
    first_weights_file,
    load_manifest,
    read_arrays,
    task_arrays,
    write_arrays,
)
from fedfleet.app.spec import Spec, load_spec, resolve, set_values, spec_table
from fedfleet.app.spec.people import deals_by_owner, people_in
from fedfleet.app.studies.grid.ready_studies import with_cohorts_for
from fedfleet.app.studies.grid.study_file import Study
from fedfleet.app.terminal.answers import option_name
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task
from fedfleet.store.seals import SEAL
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.model_weights import WeightsFile
from fedfleet.tasks.own_model import model_recipe

Recipe = Callable[[int], Task]  # a task for a seed


def take_inputs(
    spec: SpecSource,
    overrides: Sequence[str],
    inputs: UserInputs,
    columns: Columns = NO_COLUMNS,
    *,
    as_objects: bool = False,
) -> tuple[dict[str, Any], str, UserInputs]:
    """The spec as a table, the name of its runs, and what is given as objects: data and code that are given by their places have
    become the table's own task, unless an own run that goes on needs them `as_objects`."""
    if not as_objects:
        refuse_nothing(spec, inputs.data)
    if as_objects or not names_task(inputs.model, inputs.data):
        refuse_columns(columns, inputs.data)
        table, name = spec_table({} if spec is None else spec, overrides)
        return table, name, replace(inputs, data=read_user_data(inputs.data, columns))
    if inputs.loss is not None or inputs.metrics:
        raise BadInput(
            "loss and metrics are objects of Python and need a model that is one too; give model= as a class or a function"
        )
    _refuse_weights(inputs)
    table, name = take_task(spec, overrides, inputs.model, inputs.data, columns)
    return table, name, UserInputs()


def take_study_inputs(
    study: Study, inputs: UserInputs, columns: Columns, *, small_fleets: bool = False
) -> tuple[Study, UserInputs]:
    """The study on the task that places of data and code name, if they do; otherwise what is given as objects, with its data read.

    With `small_fleets` its cohorts become smaller where the data have few owners.
    """
    refuse_columns(columns, inputs.data)
    if names_task(inputs.model, inputs.data):
        _refuse_weights(inputs)
    else:
        inputs = replace(inputs, data=read_user_data(inputs.data, columns))
        return (_with_given_task(study, inputs) if small_fleets and inputs.data is not None else study), inputs
    changing = [arm.name for arm in study.arms if any(key.startswith("task.") for key in arm.settings)]
    if changing:
        raise BadInput(
            f"the arm {changing[0]!r} of the study has a task of its own; leave {option_name('data')} out, or the task of the arm"
        )
    name = study.name if inputs.data is None else f"{study.name}-{Path(inputs.data).stem}"
    base = dealt_by_owner(with_named_task(study.base, inputs.model, inputs.data, columns))
    study = replace(study, base=base, name=name)
    study = with_cohorts_for(study, resolve(base).world["clients"]) if small_fleets else study
    return study, replace(inputs, model=None, data=None)


def _with_given_task(study: Study, inputs: UserInputs) -> Study:
    """A study that ships, on a model and data that were given as objects: without its own task, with cohorts for the people."""
    base = {key: value for key, value in study.base.items() if key != "task"}
    study = replace(study, base=base)
    if inputs.model is None:
        return study  # refused with the reason by whoever resolves it
    resolved, _ = resolver_for(inputs, "study")(base, study.name)
    return with_cohorts_for(study, resolved.world["clients"])


def _refuse_weights(inputs: UserInputs) -> None:
    """Refuse weights for a model that is no object of Python: nothing in a spec says yet that they are part of the run."""
    if inputs.weights is not None:
        raise BadInput(
            "weights are those of a model that is an object of Python; give model= as a module, a class or a function, and data as "
            "arrays or a file"
        )


def user_inputs(
    model: Any,
    data: Any,
    loss: Callable[[Any, Any], Any] | None,
    metrics: Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    *,
    partial_weights: bool = False,
) -> UserInputs:
    """A model, data, a loss, metrics and first weights as they were given."""
    if metrics is not None and not isinstance(metrics, Mapping):
        functions = metrics if isinstance(metrics, list | tuple) else [metrics]
        named = [str(getattr(one, "__name__", "")) for one in functions]
        example = next((f"{{{name!r}: {name}}}" for name in named if name.isidentifier()), "{'name': function}")
        raise BadInput(f"metrics: a {type(metrics).__name__} is not a dictionary; give functions by name: metrics={example}")
    if weights is None and partial_weights:
        raise BadInput("partial_weights = True says how weights may fit, and there are none; give weights too, or leave it out")
    source = None if weights is None else WeightsFile(as_path("weights", weights), partial_weights)
    return UserInputs(model, data, loss, dict(metrics or {}), source)


def resolve_inputs(
    table: dict[str, Any],
    name: str,
    inputs: UserInputs,
    *,
    resume_folder: Path | None = None,
    trust: str | None = None,
    copy_data: bool = True,
) -> tuple[Spec, CustomTask | None]:
    """The resolved spec, and the own task where there is one: as it was given, or with what the folder has of it."""
    stored_spec = _custom_task_spec(resume_folder)
    if stored_spec is not None and resume_folder is not None:
        inputs = _with_stored_weights(inputs, resume_folder)
        table = _with_stored_deal(table, stored_spec)
    if stored_spec is None or (inputs.model is not None and inputs.data is not None):
        resolved, custom_task = resolver_for(inputs, "train", copy_data=copy_data)(table, name)
        if stored_spec is not None and stored_spec.task["content"] != resolved.task["content"]:
            raise BadInput(
                f"model or data differ from those of the run in {resume_folder}: the samples or the initial weights "
                "are different; give the same model and data, or leave out those that the folder stores"
            )
        return resolved, custom_task
    assert resume_folder is not None
    _refuse_named_task(table)
    resolved = resolve({**table, "task": stored_spec.task, "world": _with_counted_people(table, stored_spec)}, name)
    if (resume_folder / SEAL).is_file():
        return resolved, None  # it is finished, and needs nothing any more
    return resolved, load_custom_task(resume_folder, resolved, trust, replace(inputs, data=arrays(inputs.data)))


def _with_stored_weights(inputs: UserInputs, folder: Path) -> UserInputs:
    """What was given, with the first weights of the folder where these came from a file, which may be gone by now."""
    given = inputs.model is None or inputs.weights is not None or not first_weights_file(folder).is_file()
    if given or load_manifest(folder).first_weights != "file":
        return inputs
    return replace(inputs, weights=WeightsFile(first_weights_file(folder)))


def resolver_for(inputs: UserInputs, verb: str, *, copy_data: bool = False, file: str = "") -> Resolver:
    """How tables become specs with what was given, which is looked at once; `verb` says in a refusal what is done with it.

    The task of the spec where nothing was given; `file` is where the data lie, `copied` whether each run's folder holds them.
    """
    if inputs.model is None:
        _refuse_weights(inputs)
    if inputs.model is None and inputs.data is None:
        if inputs.loss is not None or inputs.metrics:
            raise BadInput(
                "loss and metrics need a model and data of your own; give model and data too, or leave out loss and metrics"
            )
        return resolve_named_task
    if inputs.model is None or inputs.data is None:
        raise BadInput(f"to {verb} your own model, give both model and data; to {verb} the task that the spec names, give neither")
    file = file or (str(Path(inputs.data).resolve()) if isinstance(inputs.data, str | Path) else "")
    tasks_by_seeds = dict[tuple[int, int], tuple[str, CustomTask]]()  # hashing the data takes longer than all else
    recipe, data_owners = list[Recipe](), list[Any]()

    def resolve_with_task(table: dict[str, Any], name: str) -> tuple[Spec, CustomTask]:
        _refuse_named_task(table)
        if not recipe:
            recipe.append(_recipe_of(inputs, arrays(inputs.data)))
        if not data_owners:
            data_owners.append(_owners_of(inputs.data))
        without_task, unused = _dealt_by_given_owners({k: v for k, v in table.items() if k != "task"}, data_owners[0])
        resolved = resolve(without_task, name, content_id="?", count=lambda spec: people_in(recipe[0](spec.data_seed), spec))
        seeds = resolved.data_seed, resolved.training_seed
        if seeds not in tasks_by_seeds:
            task = recipe[0](resolved.data_seed)
            task = replace(task, warnings=(*task.warnings, *unused))
            tasks_by_seeds[seeds] = (
                task_content_id(task, resolved.training_seed),
                new_custom_task(task, inputs, file=file, copy_data=copy_data),
            )
        content_id, custom_task = tasks_by_seeds[seeds]
        loss = {} if inputs.loss is None else {"loss": getattr(inputs.loss, "__name__", type(inputs.loss).__name__)}
        return replace(resolved, task={"use": "own", "content": content_id, **loss}), custom_task

    return resolve_with_task


def _owners_of(data: Any) -> Any:
    """Who made each sample of data that were given, None where they do not say."""
    given = arrays(data)
    if hasattr(given, "owner"):
        return given.owner
    return given[2] if isinstance(given, list | tuple) and len(given) == 3 else None


def _dealt_by_given_owners(table: dict[str, Any], owners: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The table with data dealt by owner, where they say who made each sample and the table does not say how they are dealt.

    Where it asks for another number of clients than there are people, a warning says that the owners are not used.
    """
    world = table.get("world", {})
    if owners is None or not isinstance(world, Mapping) or "data" in world or "world.data" in table:
        return table, ()
    people, clients = len(np.unique(np.asarray(owners))), world.get("clients")
    if clients is None or clients == people:
        return set_values(table, {"world.data": {"use": "by_owner"}}), ()
    return table, (
        f"the owners in data are not used: world.clients = {clients}, and the data are of {people:,} people; leave world.clients "
        'out for one client for each person, or write world.data = "iid" to deal samples at random',
    )


def shared_resolver(inputs: UserInputs, folder: Path, verb: str) -> tuple[Resolver, Callable[[], None]]:
    """How many runs of one folder share what was given: data that came as arrays lie in it once, written by the second answer."""
    if inputs.model is None or inputs.data is None:
        return resolver_for(inputs, verb), lambda: None
    array_inputs = replace(inputs, data=arrays(inputs.data))
    _recipe_of(array_inputs, array_inputs.data)  # before anything is made of data that cannot be used
    if isinstance(inputs.data, str | Path):
        return resolver_for(array_inputs, verb, file=str(Path(inputs.data).resolve())), lambda: None
    file = arrays_file(folder, task_arrays(array_inputs.data))

    def prepare() -> None:
        write_arrays(folder, array_inputs.data)

    return resolver_for(array_inputs, verb, file=str(file.resolve())), prepare


def custom_task_recipe(
    model: Any, data: Sequence[Any], *, scores: bool = True, loss: Any = None, weights: WeightsFile | None = None
) -> Recipe:
    """A task made of a PyTorch model and arrays; `scores`: the model gives a score for each class, as cross-entropy needs."""
    return model_recipe(model, checked_data(data), scores=scores, loss=loss, weights=weights)


def _recipe_of(inputs: UserInputs, data: Sequence[Any]) -> Recipe:
    return custom_task_recipe(inputs.model, data, scores=inputs.loss is None, loss=inputs.loss, weights=inputs.weights)


def arrays(data: Any) -> Any:
    """Data as arrays, read if they were given as a file."""
    return read_arrays(data) if isinstance(data, str | Path) else data


def as_path(name: str, value: Any) -> Path:
    """A folder or a file that a person named."""
    if not isinstance(value, str | Path) or not str(value):
        raise BadInput(f"{name} = {value!r}: give a path, as text or as a pathlib.Path")
    return Path(value).expanduser()


def result_folder(source: Any, verb: str) -> Path:
    """The folder of what a call gave, or of what a person names by its path."""
    if isinstance(source, Result) and source.out is None:
        raise BadInput(f"this result was not saved in a folder; run it with out=.., then {verb} it")
    path = getattr(source, "out", source)
    if not isinstance(path, str | Path) or not str(path):
        raise BadInput(f"{verb}: {source!r} is not a folder; give the path of one, or the result of a call with out=..")
    return Path(path).expanduser()


def _refuse_named_task(table: Mapping[str, Any]) -> None:
    task = table.get("task")
    if task is not None and not (isinstance(task, Mapping) and task.get("use") == "own"):
        raise BadInput("the spec names a task, but model and data were given too; leave out [task], or leave out model and data")


def has_custom_task(folder: Path) -> bool:
    """Is there a run of a model that was given as an object?"""
    return _custom_task_spec(folder) is not None


def _with_counted_people(table: Mapping[str, Any], stored: Spec) -> Any:
    """The [world] of a run that continues: the people in its data were counted when it began."""
    world = table.get("world", {})
    if not isinstance(world, Mapping) or not deals_by_owner(stored.world["data"]):
        return world
    return {"clients": stored.world["clients"], **world}


def _with_stored_deal(table: dict[str, Any], stored: Spec) -> dict[str, Any]:
    """The table of a run that continues: its data are dealt as when it began, where the table does not say how."""
    world = table.get("world", {})
    return table if not isinstance(world, Mapping) or "data" in world else set_values(table, {"world.data": stored.world["data"]})


def _custom_task_spec(folder: Path | None) -> Spec | None:
    """The spec of the run in this folder, if it is one of an own model."""
    if folder is None or not (folder / "spec.toml").is_file():
        return None
    spec = load_spec(folder / "spec.toml")
    return spec if is_custom_task(spec) else None
