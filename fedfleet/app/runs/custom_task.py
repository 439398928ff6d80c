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
    Kept,
    content_of,
    hashes_of,
    load_arrays,
    load_kept,
    load_source,
    load_weights,
    save,
)
from fedfleet.app.runs.user_code import Entry, found_again, sha256
from fedfleet.app.runs.user_objects import function_entry, made_again, maker, model_entry, same_thing
from fedfleet.app.spec import Spec, resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Loss, Task
from fedfleet.core.trees import Tree, content_hash

Metric = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Given:
    """What a person gave in Python: any of these may be missing where a folder has it."""

    model: Any = None
    data: Any = None
    loss: Any = None
    metrics: Mapping[str, Metric] = field(default_factory=dict[str, Metric])


@dataclass(frozen=True, slots=True)
class Own:
    """An own task, ready to be assembled. `lacking` says in one sentence why its model cannot be used here; "": it can."""

    task: Task
    given: Given
    metrics: Mapping[str, Metric]
    file: str = ""  # the file that the data came from
    copied: bool = True  # shall the folder hold the inputs?
    lacking: str = ""


# How a table becomes a spec, and the own task where there is one.
Resolving = Callable[[dict[str, Any], str], tuple[Spec, Own | None]]


def named(table: dict[str, Any], name: str) -> tuple[Spec, Own | None]:
    """The spec of a table that says itself what is trained."""
    return resolve(table, name), None


def fingerprint(own: Own) -> str | None:
    """A hash of the text and the layers of an own model and its loss, which their first weights do not tell; None: only the
    person knows what they are, as of a lambda."""
    entries = [model_entry(own.given.model, own.task.dataset.x[:2])[0]]
    entries += [] if own.given.loss is None else [function_entry(own.given.loss)[0]]
    if any(entry.by == "hand" for entry in entries):
        return None
    return sha256(json.dumps([asdict(entry) for entry in entries], sort_keys=True))


def is_own(spec: Spec) -> bool:
    """Does this spec train a model that a person gave as an object?"""
    return spec.task["use"] == "own" and "content" in spec.task


def brought(task: Task, given: Given, *, file: str = "", copied: bool = True) -> Own:
    """The task of a new run, with the person's own loss and metrics; both are looked at before anything is trained."""
    for name, metric in given.metrics.items():
        if not callable(metric):
            raise BadInput(f"metrics: {name!r} is not a function; give one that takes (outputs, labels)")
    return Own(_with_loss(task, given.loss), given, given.metrics, file, copied)


def content(task: Task, seed: int) -> str:
    """The name of a task that was given as objects: a hash of its data and its first weights."""
    return content_of(hashes_of(_arrays(task.dataset)), task.dataset.classes, content_hash(task.init(seed)))


def keep(own: Own, out: Path, seed: int) -> None:
    """Write what was given into a new run's folder; where it lies there already, it must be the same."""
    if (out / FOLDER).is_dir():
        _check_same(own.given, load_kept(out), out)
        return
    data, weights, sources = own.task.dataset, own.task.init(seed), list[str]()

    def noted(found: tuple[Entry, str]) -> Entry:
        sources.extend([found[1]] if found[1] else [])
        return found[0]

    arrays = _arrays(data)
    kept = Kept(
        arrays={n: (list(arrays[n].shape), known) for n, known in hashes_of(arrays).items()},
        classes=data.classes,
        weights=content_hash(weights),
        data="folder" if own.copied else "file" if own.file else "hand",
        file=own.file,
        model=noted(model_entry(own.given.model, data.x[:2])),
        loss=None if own.given.loss is None else noted(function_entry(own.given.loss)),
        metrics={name: noted(function_entry(metric)) for name, metric in own.given.metrics.items()},
    )
    save(out, kept, arrays, weights, sources)


def reopened(
    out: Path, spec: Spec, trust: str | None = None, given: Given | None = None, *, judging: bool = True
) -> Own | None:
    """The own task of a run's folder; None if the run has none.

    What is `given` is taken as it is, the rest from the folder: data and PyTorch's own layers always, code only if `trust` is its
    hash. All that is there is checked against its hash, trusted or not. The metrics are needed only for `judging`.
    """
    if not is_own(spec):
        return None
    kept, given = load_kept(out), given or Given()
    if kept.content() != spec.task["content"]:
        raise BadInput(f"{out / FOLDER} belongs to another run than {out / 'spec.toml'}; restore one of them")
    weights, (arrays, missing) = load_weights(out, kept), load_arrays(out, kept, given.data)
    sources = {role: load_source(out, entry) for role, entry in kept.entries().items()}
    _check_same(given, kept, out)
    if trust is not None and trust != kept.code():
        raise BadInput(f"--trust-code: the code of {out} is {kept.code() or 'none at all'}, not {trust}")
    needed = {role: entry for role, entry in kept.entries().items() if judging or role in ("model", "loss")}
    lacking = _lacking(out, kept, given, needed, trusted=trust is not None) or missing
    dataset = Dataset(arrays["x"], arrays["y"], kept.classes, arrays.get("owner"))
    task = _task(dataset, spec.data_seed, weights, _maker(kept, given, weights, sources["model"], lacking))
    if lacking:
        refuse = partial(_refuse, lacking)
        return Own(replace(task, loss=Loss(refuse) if kept.loss else None), given, {}, lacking=lacking)
    made = {
        role: made_again(entry, sources[role])
        for role, entry in needed.items()
        if role != "model" and not _has(given, role)
    }
    metrics = {n: given.metrics.get(n) or made[f"metric {n!r}"] for n in (kept.metrics if judging else ())}
    loss = None if kept.loss is None else given.loss or made["loss"]
    return Own(_with_loss(task, loss), given, metrics)


def judged(own: Own | None, params: Tree, measures: dict[str, Any]) -> dict[str, Any]:
    """The measures with what the person's own metrics say about the last model on the central test set.

    A metric that fails loses nothing: it is None, and a warning says why.
    """
    if own is None or not own.metrics:
        return measures
    from fedfleet.tasks.output_checks import outputs_of

    outputs, labels = outputs_of(own.task, params, own.task.holdout), own.task.dataset.y[own.task.holdout]
    found: dict[str, float | None] = {}
    failed: list[str] = []
    for name, metric in own.metrics.items():
        try:
            value = float(metric(outputs.copy(), labels.copy()))
            found[name] = value if math.isfinite(value) else None
            failed += [] if math.isfinite(value) else [f"your metric {name!r} gave {value}"]
        except Exception as wrong:
            found[name] = None
            failed.append(f"your metric {name!r} failed: {type(wrong).__name__}: {wrong}")
    return {**measures, "own": found, "warnings": [*measures["warnings"], *failed]}


# ---- what is there, and what is lacking --------------------------------------------------------------------------


def _maker(kept: Kept, given: Given, weights: Tree, text: str, lacking: str) -> Callable[[], Any]:
    from fedfleet.tasks import layers

    if lacking:
        return partial(_refuse, lacking)
    if given.model is not None:
        return maker(given.model)
    if kept.model.by == "layers":
        return partial(layers.made_like, kept.model.layers, weights)
    return partial(found_again, kept.model, text)


def _lacking(out: Path, kept: Kept, given: Given, needed: Mapping[str, Entry], *, trusted: bool) -> str:
    """One sentence about what a person must do before the code of this folder can be used; "": nothing."""
    for role, entry in needed.items():
        if _has(given, role) or entry.by == "layers":
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
                f"read it, then say --trust-code {kept.code()} (in Python: trust_code=)"
            )
    return ""


def _has(given: Given, role: str) -> bool:
    """Did the person give this one again?"""
    if role.startswith("metric "):
        return any(role == f"metric {name!r}" for name in given.metrics)
    return getattr(given, role) is not None


def _check_same(given: Given, kept: Kept, out: Path) -> None:
    """Refuse things that are given again and are not those of the run, as far as their text can tell."""
    found = {"model": given.model, "loss": given.loss} | {f"metric {n!r}": m for n, m in given.metrics.items()}
    for role, thing in found.items():
        if thing is None:
            continue
        known = kept.entries().get(role)
        if known is None:
            raise BadInput(f"the run in {out} was begun without a {role}; leave it out, or choose another folder")
        if not same_thing(known, thing):
            raise BadInput(
                f"the {role} is not that of the run in {out}: it has changed since; restore it, or choose another folder"
            )


def _with_loss(task: Task, loss: Any) -> Task:
    if loss is None:
        return task
    from fedfleet.tasks.output_checks import tried_loss

    return replace(task, loss=tried_loss(loss, task))


def _task(dataset: Dataset, seed: int, weights: Tree, build: Callable[[], Any]) -> Task:
    from fedfleet.tasks.task import hold_out

    return Task("own", dataset, hold_out(dataset, seed, 0), build, lambda seed: weights)


def _arrays(data: Dataset) -> Tree:
    return {"x": data.x, "y": data.y} | ({} if data.owner is None else {"owner": data.owner})


def _refuse(why: str, *_: object) -> NoReturn:
    raise BadInput(why)
