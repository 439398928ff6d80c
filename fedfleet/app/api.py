"""The Python call: run a spec, or your own PyTorch model on your own arrays."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.assemble import assemble, executing
from fedfleet.app.runs import finished, perform
from fedfleet.app.spec import Spec, load_spec, resolve, with_words
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event, without_sums
from fedfleet.core.parts import Task
from fedfleet.core.trees import Tree, content_hash
from fedfleet.measure.summary import summary
from fedfleet.runtime import journal as journals
from fedfleet.runtime.folder import load_tree
from fedfleet.runtime.simulate import simulate
from fedfleet.tasks.checking import check_fit, checked_build, checked_data
from fedfleet.tasks.task import make_task


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run: its measures by name, the trained parameters, the events, and its folder if it has one."""

    metrics: dict[str, Any]
    params: Tree
    events: list[Event]
    out: Path | None


def run(
    spec: str | Path | Mapping[str, Any],
    *overrides: str,
    model: Any = None,
    data: Sequence[Any] | None = None,
    out: str | Path | None = None,
) -> Result:
    """Train by a spec (a path or a nested dictionary), with `key=value` overrides.

    `model` is your own PyTorch module, or a function that makes one; `data` is (inputs, integer labels) or (inputs,
    labels, owners) as arrays. Without `out` nothing is written.

    >>> result = run({"task": {"use": "digits_logreg"}, "stop": {"rounds": 2}})
    >>> result.metrics["rounds"]
    2
    """
    if (model is None) != (data is None):
        raise BadInput(
            "give both model and data to train your own model, or neither to train the task that the spec names"
        )
    task = None if model is None or data is None else own_task(model, data)
    resolved = _resolved(spec, overrides, task)
    if out is not None and task is None:
        done = perform(resolved, Path(out))
        for warning in done.metrics["warnings"]:
            warnings.warn(warning, stacklevel=2)
        return Result(done.metrics, load_tree(done.out / "model.safetensors")[0], done.events, done.out)
    if out is not None:
        raise BadInput(
            "a run with your own model cannot be kept in a folder, because the spec cannot rebuild the model; do not give `out`"
        )
    setup = assemble(resolved, task(resolved.seed) if task else None)
    journal, events = journals.in_memory(), list[Event]()
    with executing(setup) as execute:
        done = simulate(
            setup.plan, setup.world, execute, journal=journal, watch=lambda more: events.extend(without_sums(more))
        )
    metrics = {**summary(events), "digest": journal.digest, "spec_digest": resolved.digest}
    for warning in metrics["warnings"]:
        warnings.warn(warning, stacklevel=2)
    return Result(metrics, done.state.server.params, events, None)


def load(out: str | Path) -> Result:
    """A finished run, from its folder."""
    done = finished(Path(out))
    return Result(done.metrics, load_tree(done.out / "model.safetensors")[0], done.events, done.out)


def own_task(model: Any, data: Sequence[Any]) -> Callable[[int], Task]:
    """A task made of a PyTorch model and arrays."""
    dataset, build = checked_data(data), checked_build(model)
    check_fit(build, dataset)
    return make_task("own", lambda: dataset, build)


def _resolved(
    spec: str | Path | Mapping[str, Any], overrides: Sequence[str], task: Callable[[int], Task] | None
) -> Spec:
    if not isinstance(spec, Mapping):
        if task is not None:
            raise BadInput("to train your own model, give the spec as a dictionary instead of a file")
        return load_spec(spec, overrides)
    table = with_words(dict(spec), overrides)
    return resolve(table, own_task=_content(task(0)) if task else None)


def _content(task: Task) -> str:
    """The name of a task that was given as objects: a hash of its data and its initial parameters."""
    arrays = {"x": task.dataset.x, "y": task.dataset.y}
    return hashlib.sha256((content_hash(arrays) + content_hash(task.init(0))).encode()).hexdigest()[:16]
