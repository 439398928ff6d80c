"""A person's own task: made from what was given, kept in a run's folder, and taken up from there again.

Code that came with a folder is never run unless the person names its hash. Without that the task is a stand-in: its data, labels
and first weights are there, so that decisions can be derived, and whatever needs the model says why there is none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from fedfleet.app.runs.custom_task_folder import (
    FOLDER,
    TaskManifest,
    content_id_of,
    hashes_of,
    load_arrays,
    load_manifest,
    load_source,
    load_weights,
    stored_dataset,
    write_task_folder,
)
from fedfleet.app.runs.model_trust import trust_model
from fedfleet.app.runs.user_code import (
    Entry,
    function_entry,
    load_object,
    matches_entry,
    model_entry,
    rebuild_object,
    sha256,
)
from fedfleet.app.spec import Spec, resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Loss, Task
from fedfleet.core.trees import Array, Tree, content_hash
from fedfleet.tasks.model_weights import WeightsFile

Metric = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class UserInputs:
    """What a person gave in Python: any of these may be missing where a folder has it."""

    model: Any = None
    data: Any = None
    loss: Any = None
    metrics: Mapping[str, Metric] = field(default_factory=dict[str, Metric])
    weights: WeightsFile | None = None


@dataclass(frozen=True, slots=True)
class CustomTask:
    """An own task, ready to be assembled. `lacking` says in one sentence why its model cannot be used here; "": it can."""

    task: Task
    inputs: UserInputs
    metrics: Mapping[str, Metric]
    file: str = ""  # the file that the data came from
    copy_data: bool = True  # shall the folder hold the inputs?
    unusable_reason: str = ""


# How a table becomes a spec, and the own task where there is one.
Resolver = Callable[[dict[str, Any], str], tuple[Spec, CustomTask | None]]


def resolve_named_task(table: dict[str, Any], name: str) -> tuple[Spec, CustomTask | None]:
    """The spec of a table that says itself what is trained."""
    return resolve(table, name), None


def fingerprint(custom_task: CustomTask) -> str | None:
    """A hash of the text and the layers of an own model and its loss, which their first weights do not tell; None: only the
    person knows what they are, as of a lambda."""
    entries = [model_entry(custom_task.inputs.model, custom_task.task.dataset.x[:2])[0]]
    entries += [] if custom_task.inputs.loss is None else [function_entry(custom_task.inputs.loss)[0]]
    if any(entry.by == "hand" for entry in entries):
        return None
    return sha256(json.dumps([asdict(entry) for entry in entries], sort_keys=True))


def is_custom_task(spec: Spec) -> bool:
    """Does this spec train a model that a person gave as an object?"""
    return spec.task["use"] == "own" and "content" in spec.task


def new_custom_task(task: Task, inputs: UserInputs, *, file: str = "", copy_data: bool = True) -> CustomTask:
    """The task of a new run, with the person's own loss and metrics; both are looked at before anything is trained."""
    for name, metric in inputs.metrics.items():
        if not callable(metric):
            raise BadInput(f"metrics: {name!r} is not a function; give one that takes (outputs, labels)")
    task = replace(_with_loss(task, inputs.loss), metrics=inputs.metrics)
    return CustomTask(task, inputs, inputs.metrics, file, copy_data)


def task_content_id(task: Task, seed: int) -> str:
    """The name of a task that was given as objects: a hash of its data and its first weights."""
    return content_id_of(hashes_of(_arrays(task.dataset)), task.dataset.classes, content_hash(task.init(seed)))


def save_custom_task(custom_task: CustomTask, out: Path, seed: int) -> None:
    """Write what was given into a new run's folder; where it lies there already, it must be the same."""
    if (out / FOLDER).is_dir():
        _check_same(custom_task.inputs, load_manifest(out), out)
        return
    data, weights, sources = custom_task.task.dataset, custom_task.task.init(seed), list[str]()

    def add_source(entry_and_source: tuple[Entry, str]) -> Entry:
        sources.extend([entry_and_source[1]] if entry_and_source[1] else [])
        return entry_and_source[0]

    arrays = _arrays(data)
    manifest = TaskManifest(
        arrays={n: (list(arrays[n].shape), array_hash) for n, array_hash in hashes_of(arrays).items()},
        classes=data.classes,
        label_names=list(data.label_names),
        owner_names=list(data.owner_names),
        target_scale=list(data.target_scale),
        weights=content_hash(weights),
        data="folder" if custom_task.copy_data else "file" if custom_task.file else "hand",
        file=custom_task.file,
        model=add_source(model_entry(custom_task.inputs.model, data.x[:2])),
        loss=None if custom_task.inputs.loss is None else add_source(function_entry(custom_task.inputs.loss)),
        metrics={name: add_source(function_entry(metric)) for name, metric in custom_task.inputs.metrics.items()},
        kind=data.kind.name,
        first_weights=custom_task.task.first_weights,
        warnings=list(custom_task.task.warnings),
    )
    write_task_folder(out, manifest, arrays, weights, sources)


def load_custom_task(
    out: Path, spec: Spec, trust: str | None = None, inputs: UserInputs | None = None, *, need_metrics: bool = True
) -> CustomTask | None:
    """The own task of a run's folder; None if the run has none.

    What is `given` is taken as it is, the rest from the folder: data and PyTorch's own layers always, code only if `trust` is its
    hash. All that is there is checked against its hash, trusted or not. The metrics are needed only with `need_metrics`.
    """
    if not is_custom_task(spec):
        trust_model(spec, trust, out)
        return None
    manifest, inputs = load_manifest(out), inputs or UserInputs()
    if manifest.content_id() != spec.task["content"]:
        raise BadInput(f"{out / FOLDER} belongs to another run than {out / 'spec.toml'}; restore one of them")
    weights, (arrays, missing) = load_weights(out, manifest), load_arrays(out, manifest, inputs.data)
    sources = {role: load_source(out, entry) for role, entry in manifest.entries().items()}
    _check_same(inputs, manifest, out)
    if trust is not None and trust != manifest.code_hash():
        raise BadInput(f"--trust-code: the code of {out} has the hash {manifest.code_hash() or '(none)'}, not {trust}")
    needed = {role: entry for role, entry in manifest.entries().items() if need_metrics or role in ("model", "loss")}
    reason = _unusable_reason(out, manifest, inputs, needed, trusted=trust is not None) or missing
    dataset = stored_dataset(arrays, manifest)
    task = _task(dataset, spec.data_seed, weights, _model_builder(manifest, inputs, weights, sources["model"], dataset.x, reason))
    # A stopping rule may name a metric whose code does not run here: then its recorded values count.
    unknown = dict.fromkeys(manifest.metrics, partial(_refuse, "its function is not here"))
    task = replace(task, metrics=unknown, first_weights=manifest.first_weights, warnings=tuple(manifest.warnings))
    if reason:
        refuse = partial(_refuse, reason)
        return CustomTask(replace(task, loss=Loss(refuse) if manifest.loss else None), inputs, {}, unusable_reason=reason)
    objects = {
        role: rebuild_object(entry, sources[role])
        for role, entry in needed.items()
        if role != "model" and not _has_role(inputs, role)
    }
    metrics = {n: inputs.metrics.get(n) or objects[f"metric {n!r}"] for n in (manifest.metrics if need_metrics else ())}
    loss = None if manifest.loss is None else inputs.loss or objects["loss"]
    return CustomTask(replace(_with_loss(task, loss), metrics={**unknown, **metrics}), inputs, metrics)


def with_stored_notes(custom_task: CustomTask | None, out: Path) -> CustomTask | None:
    """The task with what the folder says about its model, which a later check may say in other words."""
    if custom_task is None or not (out / FOLDER / "own.json").is_file():
        return custom_task
    manifest = load_manifest(out)
    task = replace(custom_task.task, first_weights=manifest.first_weights, warnings=tuple(manifest.warnings))
    return replace(custom_task, task=task)


def with_user_metrics(custom_task: CustomTask | None, params: Tree, measures: dict[str, Any]) -> dict[str, Any]:
    """The measures with what the person's own metrics say about the last model on the central test set.

    A metric that fails loses nothing: it is None, and a warning says why.
    """
    if custom_task is None or not custom_task.metrics:
        return measures
    from fedfleet.tasks.task_checks import outputs_of

    outputs, labels = (
        outputs_of(custom_task.task, params, custom_task.task.holdout),
        custom_task.task.dataset.y[custom_task.task.holdout],
    )
    user_metrics: dict[str, float | None] = {}
    failed: list[str] = []
    for name, metric in custom_task.metrics.items():
        try:
            value = float(metric(outputs.copy(), labels.copy()))
            user_metrics[name] = value if math.isfinite(value) else None
            failed += [] if math.isfinite(value) else [f"your metric {name!r} gave {value}"]
        except Exception as error:
            user_metrics[name] = None
            failed.append(f"your metric {name!r} failed: {type(error).__name__}: {error}")
    return {**measures, "own": user_metrics, "warnings": [*measures["warnings"], *failed]}


# ---- what is there, and what is lacking --------------------------------------------------------------------------


def _model_builder(
    manifest: TaskManifest, inputs: UserInputs, weights: Tree, text: str, x: Array, reason: str
) -> Callable[[], Any]:
    from fedfleet.tasks import layers
    from fedfleet.tasks.own_model import trainable_build

    if reason:
        return partial(_refuse, reason)
    if inputs.model is not None:
        return trainable_build(inputs.model, x)
    if manifest.model.by == "layers":
        return trainable_build(partial(layers.build_matching, manifest.model.layers, weights), x)
    return trainable_build(partial(load_object, manifest.model, text), x)


def _unusable_reason(out: Path, manifest: TaskManifest, inputs: UserInputs, needed: Mapping[str, Entry], *, trusted: bool) -> str:
    """One sentence about what a person must do before the code of this folder can be used; "": nothing."""
    for role, entry in needed.items():
        if _has_role(inputs, role) or entry.by == "layers":
            continue
        if entry.by == "hand":
            word = role.partition(" ")[0] + ("s" if role.startswith("metric") else "")
            return (
                f"the {role} of the run in {out} was given as {entry.what}, so that only you can give it again, in Python: "
                f"fedfleet.run('{out}/spec.toml', {word}=.., out='{out}', resume=True), or fedfleet.replay('{out}', {word}=..)"
            )
        if not trusted:
            path = out / FOLDER / "code" / f"{entry.sha256}.py"
            source = f"kept in {path}" if entry.sha256 else "from a package of this machine"
            return (
                f"the {role} of the run in {out} is code ({entry.what}, {source}), which is not run unless you trust it; "
                f"read it, then give --trust-code {manifest.code_hash()} (in Python: trust_code=)"
            )
    return ""


def _has_role(inputs: UserInputs, role: str) -> bool:
    """Did the person give this one again?"""
    if role.startswith("metric "):
        return any(role == f"metric {name!r}" for name in inputs.metrics)
    return getattr(inputs, role) is not None


def _check_same(inputs: UserInputs, manifest: TaskManifest, out: Path) -> None:
    """Refuse things that are given again and are not those of the run, as far as their text can tell."""
    things = {"model": inputs.model, "loss": inputs.loss} | {f"metric {n!r}": m for n, m in inputs.metrics.items()}
    for role, thing in things.items():
        if thing is None:
            continue
        entry = manifest.entries().get(role)
        if entry is None:
            raise BadInput(f"the run in {out} was started without a {role}; leave the {role} out, or choose another folder")
        if not matches_entry(entry, thing):
            raise BadInput(
                f"the {role} has changed since the run in {out} was started; restore the {role}, or choose another folder"
            )


def _with_loss(task: Task, loss: Any) -> Task:
    if loss is None:
        return task
    from fedfleet.tasks.task_checks import check_loss

    return replace(task, loss=check_loss(loss, task))


def _task(dataset: Dataset, seed: int, weights: Tree, build: Callable[[], Any]) -> Task:
    from fedfleet.tasks.task import hold_out

    return Task("own", dataset, hold_out(dataset, seed, 0), build, lambda seed: weights)


def _arrays(data: Dataset) -> Tree:
    return {"x": data.x, "y": data.y} | ({} if data.owner is None else {"owner": data.owner})


def _refuse(why: str, *_: object) -> NoReturn:
    raise BadInput(why)
