"""Passes of every kind, for conformance: the whole matrix of what a client's half may ask of an executor.

Each choice below is one that a method really makes: terms of the gradient, memory, layers kept at home, frozen layers, opaque
functions among the passes, ragged shards, unlike offers, hooks before and after, second passes, second models, own objectives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from fedfleet.core.parts import Dataset, Job, Offer, Pass, Task
from fedfleet.core.passes import Batch, Carry, ConstantTerm, LocalPass, Passed, ProximalTerm, SecondModel, Slot, Tensors, zeros_like
from fedfleet.core.records import Report, Slots
from fedfleet.core.rng import stream
from fedfleet.core.trees import Tree
from fedfleet.learn.leaves import column, is_floating
from fedfleet.learn.zoo import fedavg

AXES: dict[str, tuple[Any, ...]] = {"terms": ("none", "pull", "drift")}
AXES |= dict.fromkeys(("memory", "keep", "frozen", "opaque", "ragged", "unlike", "hooks"), (False, True))
# What is not crossed with everything else: one case each, on ragged shards.
SINGLES = ("decay", "momentum", "adam", "adamw", "rates", "sends", "then")
SINGLES += ("second", "second apart", "objective", "plain_weight", "few_steps")
CLIENTS = 4


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the matrix: its name, and the work of a small cohort."""

    name: str
    jobs: tuple[Job, ...]


def cases(task: Task) -> Iterator[Case]:
    """Every cell, on the first rows of a task whose last layer is its last two leaves."""
    names = list(task.init(0))
    cells = list(product(*AXES.values()))
    for number, cell in enumerate(cells):
        chosen = dict(zip(AXES, cell, strict=True))
        shown = [f"{axis}={value}" if axis == "terms" else axis for axis, value in chosen.items() if value not in (False, "none")]
        yield Case("+".join(shown) or "plain", _jobs(task, number, chosen, names))
    for number, single in enumerate(SINGLES, start=len(cells)):
        yield Case(single, _jobs(task, number, {"single": single, "ragged": True}, names))


def pass_of(number: int, client: int, names: list[str]) -> Pass:
    """The pass of one client in one cell: a function of numbers alone, so that a worker elsewhere can make it again."""
    cells = list(product(*AXES.values()))
    if number >= len(cells):
        return _single(SINGLES[number - len(cells)], client, names)
    chosen = dict(zip(AXES, cells[number], strict=True))
    if chosen["opaque"] and client == 1:
        return _opaque
    local = _BASE
    if chosen["terms"] == "pull":
        local = replace(local, terms=(ProximalTerm(0.5),))
    if chosen["terms"] == "drift":
        local = replace(local, terms=(_LEAN,) if not chosen["memory"] else (_DRIFT,))
    if chosen["memory"]:
        local = replace(local, slots=(_CONTROL,), after=(_remember,))
    if chosen["keep"]:
        local = replace(local, keep=_in_layer_of(names[-1]))
    if chosen["frozen"]:
        local = replace(local, train=_in_layer_of(names[0], inside=False))
    if chosen["hooks"]:
        local = replace(local, before=(_halve_the_model,), after=(*local.after, _double_the_update, _count))
        local = replace(local, slots=(*local.slots, _COUNTER))
    return local


def memory_of(client: int, params: Tree) -> Slots:
    """What some clients remember already; others take part for the first time."""
    if client % 2 == 0:
        return {}
    floating = {n: v for n, v in params.items() if np.issubdtype(v.dtype, np.floating)}
    noise = {n: (stream(3, "memory", client).standard_normal(v.shape) * 0.02).astype(v.dtype) for n, v in floating.items()}
    return {
        "control": noise,
        "counter": {"n": np.array([3.0], np.float32)},
        "kept": {n: v + noise[n] if n in noise else v for n, v in params.items()},
    }


def _jobs(task: Task, number: int, chosen: dict[str, Any], names: list[str]) -> tuple[Job, ...]:
    params = task.init(0)
    shared, jobs, first = Offer(params), list[Job](), 0
    for client in range(CLIENTS):
        size = (11, 4, 17, 8)[client] if chosen["ragged"] else 8
        rows = (np.arange(size) + first) % len(task.dataset.y)
        first += size
        halved_offer = Offer({n: (v * np.float32(0.5)).astype(v.dtype) for n, v in params.items()})
        offer = halved_offer if chosen.get("unlike") and client == 2 else shared
        steps = 2 if chosen.get("single") == "few_steps" and client == 2 else 0
        local, memory = pass_of(number, client, names), memory_of(client, params)
        settings = {"case": float(number)}
        jobs.append(Job(client, client, 1000 + client, 7, offer, local, rows, steps, memory, settings))
    return tuple(jobs)


def _single(kind: str, client: int, names: list[str]) -> LocalPass:
    if kind in _FEDAVG:
        return _FEDAVG[kind]
    last = _in_layer_of(names[-1])
    changes: dict[str, dict[str, Any]] = {
        "rates": {"rate": 0.01 * (client + 1)}, "sends": {"sends": last}, "then": {"train": last, "then": _THEN},
        "second": {"second": _SECOND, "objective": distillation_loss}, "second apart": {"second": _SECOND_OWN},
        "objective": {"objective": smoothed_loss}, "plain_weight": {"weigh": "one"}, "few_steps": {},
    }  # fmt: skip
    return replace(_BASE, **changes[kind])


def _pass(**settings: Any) -> LocalPass:
    local = fedavg(batch=4, **settings).local(0, {})
    assert isinstance(local, LocalPass)
    return local


_BASE = _pass(lr=0.05)
_THEN = _pass(lr=0.02, epochs=1)
_FEDAVG = {
    "decay": _pass(lr=0.05, weight_decay=0.1),
    "momentum": _pass(lr=0.02, momentum=0.9, weight_decay=0.01),
    "adam": _pass(lr=0.01, optimiser="adam"),
    "adamw": _pass(lr=0.01, optimiser="adamw", weight_decay=0.1),
}
_CONTROL, _COUNTER = Slot("control", zeros_like), Slot("counter", lambda model: {"n": np.zeros(1, np.float32)})
_SECOND = SecondModel(lambda model: {n: v.copy() for n, v in model.items()})
_SECOND_OWN = SecondModel(_SECOND.fresh, replace(_THEN, terms=(ProximalTerm(0.3),), then=_BASE))
_DRIFT = ConstantTerm(lambda start, carried: carried.memory["control"])
_LEAN = ConstantTerm(lambda start, carried: {n: 0.1 * v for n, v in start.items()})


@cache
def _in_layer_of(leaf: str, inside: bool = True) -> Any:
    """The names in the layer of this leaf, or outside, as one function for all clients: passes are compared by value."""
    layer = leaf.rpartition(".")[0]
    return lambda name: name.startswith(f"{layer}.") == inside


def _halve_the_model(job: Job) -> Job:
    """A decoder that all jobs with the same offer share, as a codec's would."""
    known = _HALVED.get(id(job.offer.params))
    if known is None or known[0] is not job.offer.params:
        known = job.offer.params, Offer({n: (v * np.float32(0.5)).astype(v.dtype) for n, v in job.offer.params.items()})
        _HALVED.clear()
        _HALVED[id(job.offer.params)] = known
    return replace(job, offer=known[1])


_HALVED: dict[int, tuple[Tree, Offer]] = {}


def _double_the_update(passed: Passed) -> Passed:
    return replace(passed, update={n: 2.0 * v if is_floating(v) else v for n, v in passed.update.items()})


def _count(passed: Passed) -> Passed:
    counter = {n: v + 1.0 for n, v in passed.memory["counter"].items()}
    return replace(passed, memory={**passed.memory, "counter": counter}, weight=passed.weight * 0.5)


def _remember(passed: Passed) -> Passed:
    """A control variate moves with what was trained, by how long it took: SCAFFOLD's shape."""
    scale = passed.rates * passed.steps
    control: dict[str, Any] = {}
    for name, value in passed.memory["control"].items():
        if name not in passed.update:
            control[name] = value
            continue
        control[name] = 0.5 * value - 0.01 * passed.update[name] * column(1.0 / scale, value)
    return replace(passed, memory={**passed.memory, "control": control})


def _opaque(job: Job, dataset: Dataset) -> Report:
    """A client that only knows how to nudge the model, and says what every pass says."""
    del dataset
    update = {n: (0.01 * v).astype(v.dtype) if np.issubdtype(v.dtype, np.floating) else v for n, v in job.offer.params.items()}
    stats = {"loss": 1.0, "samples": float(len(job.rows)), "steps": 1.0, "squared_loss": 1.0, "update_norm": 0.0}
    return Report(job.task, job.client, update, float(len(job.rows)), stats)


def smoothed_loss(forward: Any, params: Tensors, second: Tensors, carried: Carry, batch: Batch) -> Any:
    """Cross entropy with smoothed labels."""
    del second, carried
    logs = forward(params, batch.x).log_softmax(1)
    return batch.mean(-0.9 * logs.gather(1, batch.y.unsqueeze(1)).squeeze(1) - 0.1 * logs.mean(1))


def distillation_loss(forward: Any, params: Tensors, second: Tensors, carried: Carry, batch: Batch) -> Any:
    """Two models that learn from the labels and from each other."""
    del carried
    student, teacher = forward(params, batch.x).log_softmax(1), forward(second, batch.x).log_softmax(1)
    labels = batch.y.unsqueeze(1)
    label_loss = -student.gather(1, labels).squeeze(1) - teacher.gather(1, labels).squeeze(1)
    return batch.mean(label_loss + 0.3 * (student.exp() * (student - teacher)).sum(1))
