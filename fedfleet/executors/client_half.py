"""The client's half, once: what a job begins with, and what it reports at the end. Kernels only train in between.

Everything that a pass asks for beside training happens here, for every kernel alike: hooks before and after, what was kept at
home, fresh memory, the learning rate, what goes up and in which code, the weight, the statistics. A kernel gets clients with equal
passes and gives back where they ended, as stacks; inline is a stack of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from fedfleet.core.codec import Codec
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Job
from fedfleet.core.passes import FEEDBACK, KEPT, NO_MEMORY, SECOND, Carried, LocalPass, Passed
from fedfleet.core.records import Report, Slots
from fedfleet.core.trees import Tree
from fedfleet.learn.codecs.messages import addresses, nbytes, sent, through

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Begun:
    """A job that is ready for a kernel: its pass, the model it begins with, and its memory, fresh where it is new."""

    job: Job
    local: LocalPass
    start: Tree
    memory: Slots

    @property
    def given(self) -> Tree:
        """What was offered beside the model."""
        return self.job.offer.extra

    def rate(self, stage: LocalPass) -> float:
        """This client's learning rate in one stage of its pass."""
        return self.job.settings.get("rate", stage.rate)


@dataclass(slots=True)
class Tallies:
    """What a kernel counted, one entry per client: summed losses, summed squares of single losses, samples, steps."""

    loss: np.ndarray
    squared: np.ndarray
    seen: np.ndarray
    steps: np.ndarray

    def add(self, other: Tallies) -> Tallies:
        """The counts of two stages together."""
        return Tallies(
            self.loss + other.loss, self.squared + other.squared, self.seen + other.seen, self.steps + other.steps
        )


@dataclass(slots=True)
class StackEnd:
    """A stack after training: start and end of every leaf, [clients, ..], the second model's end, and what was counted."""

    start: Tensors
    end: Tensors
    tallies: Tallies
    carried: Carried = field(default_factory=lambda: Carried({}, {}))
    second: Tensors = field(default_factory=dict)
    update: Tensors | None = None  # from a kernel that has the difference itself, and perhaps no end


def begin(job: Job) -> Begun:
    """Run the hooks, and lay out what this client begins with."""
    assert isinstance(job.local, LocalPass)
    for hook in job.local.before:
        job = hook(job)
    local, offered = job.local, job.offer.params
    assert isinstance(local, LocalPass)
    if not len(job.rows):
        raise RunFailed(f"client {job.client}, task {job.task}: local training failed: its training shard is empty")
    start = offered
    kept = job.memory.get(KEPT)
    if local.keep is not None and kept:
        start = {n: kept.get(n, v) if local.keep(n) else v for n, v in offered.items()}
    if not local.slots and local.second is None:
        return Begun(job, local, start, NO_MEMORY)
    memory = {s.name: job.memory[s.name] if s.name in job.memory else s.fresh(offered) for s in local.slots}
    if local.second is not None:
        memory[SECOND] = job.memory[SECOND] if SECOND in job.memory else local.second.fresh(offered)
    return Begun(job, local, start, memory)


def passed(group: Sequence[Begun], ended: StackEnd) -> Passed:
    """The stack as its hooks see it, before the first of them: updates of what goes up, memory as far as it is known."""
    local, end, start = group[0].local, ended.end, ended.start
    whole = end if ended.update is None else ended.update
    update = {n: difference(ended, n) for n in local.sent(whole)}
    memory: dict[str, Any] = {slot: tree for slot, tree in ended.carried.memory.items() if slot != SECOND}
    if local.keep is not None:
        memory[KEPT] = {n: v for n, v in end.items() if local.keep(n)}
    if local.second is not None:
        memory[SECOND] = ended.second
    jobs = [begun.job for begun in group]
    return Passed(
        update=update,
        start=start,
        memory=memory,
        given=ended.carried.given,
        weight=np.array([weight_of(job, local) for job in jobs]),
        steps=ended.tallies.steps,
        rates=np.array([begun.rate(local) for begun in group]),
        keys=np.array([job.key for job in jobs], np.uint64),
        tasks=np.array([job.task for job in jobs], np.int64),
        seed=jobs[0].seed,
    )


def difference(ended: StackEnd, name: str) -> torch.Tensor:
    """What a leaf has changed by; counters and other integers travel as they are."""
    if ended.update is not None:
        return ended.update[name]
    end = ended.end[name]
    return end - ended.start[name] if end.is_floating_point() else end


def reports(group: Sequence[Begun], ended: StackEnd) -> Iterator[Report]:
    """The reports of a stack, in its order, here in this process's memory."""
    with torch.no_grad():
        found = passed(group, ended)
        norms = norms_of(found.update, len(group))
        found = finished(group, found)
    update = {n: v.detach().cpu().numpy() for n, v in found.update.items()}
    memory = {slot: {n: _here(v) for n, v in tree.items()} for slot, tree in found.memory.items()}
    for c, begun in enumerate(group):
        # Copies of what is kept: a view would keep the whole stack alive.
        own = {slot: {n: np.array(v[c]) for n, v in tree.items()} for slot, tree in memory.items()} or None
        mine = {n: v[c] for n, v in update.items()}
        stats, nbytes = (
            stats_of(begun, ended.tallies, c, norms[c]),
            None if found.bytes_up is None else float(found.bytes_up[c]),
        )
        yield Report(begun.job.task, begun.job.client, mine, float(found.weight[c]), stats, own, nbytes)


def finished(group: Sequence[Begun], found: Passed) -> Passed:
    """The stack after its hooks, innermost first, and after its codec: what arrives at the other end."""
    for hook in group[0].local.after:
        found = hook(found)
    codec = group[0].local.up
    if codec is None:
        return found
    wanted, owing = dict(found.update), group[0].local.feedback
    if owing:
        owed = _owed([begun.job for begun in group], wanted)
        wanted |= {n: wanted[n] + v for n, v in owed.items()}
    where = addresses(found.seed, found.keys, found.tasks)
    update = through(codec, wanted, where)
    left = {FEEDBACK: _still_owed([begun.job for begun in group], wanted, update)} if owing else {}
    lengths = _lengths(codec, wanted, where)
    return replace(found, update=update, memory={**found.memory, **left}, bytes_up=lengths)


def _owed(jobs: Sequence[Job], update: Mapping[str, torch.Tensor]) -> Tensors:
    """What each client's codec lost the last time; nothing for those who never took part."""
    found: Tensors = {}
    for name, leaf in update.items():
        if leaf.is_floating_point():
            none = np.zeros(tuple(leaf.shape[1:]), np.float32)
            kept = [job.memory.get(FEEDBACK, {}).get(name, none) for job in jobs]
            odd = next((job for job, v in zip(jobs, kept, strict=True) if v.shape != none.shape), None)
            if odd is not None:
                raise RunFailed(
                    f"client {odd.client}, task {odd.task}: leaf {name!r} has another shape than what its codec lost before; leave "
                    "feedback out where a client's updates change their shape"
                )
            found[name] = _stacked(kept, leaf.device)
    return found


def _still_owed(jobs: Sequence[Job], wanted: Tensors, update: Mapping[str, torch.Tensor]) -> Tensors:
    """What the codec lost now, and what it lost before of leaves that do not go up this time."""
    lost = {n: v - update[n] for n, v in wanted.items() if v.is_floating_point()}
    before = [job.memory.get(FEEDBACK, {}) for job in jobs]
    for name, like in {n: v for kept in before for n, v in kept.items() if n not in wanted}.items():
        none = np.zeros(like.shape, np.float32)
        lost[name] = _stacked([kept.get(name, none) for kept in before], next(iter(wanted.values())).device)
    return lost


def _lengths(codec: Codec, update: Mapping[str, torch.Tensor], where: np.ndarray) -> np.ndarray:
    """How many bytes each client sends; only where values decide must they really be encoded."""
    like = {n: np.empty(v.shape[1:], _numpy_kind(v)) for n, v in update.items()}
    known = nbytes(codec, like)
    if known is not None:
        return np.full(len(where), known)
    here = {n: _here(v) for n, v in update.items()}
    return np.array([len(sent(codec, {n: v[c] for n, v in here.items()}, int(a))) for c, a in enumerate(where)], float)


def stats_of(begun: Begun, tallies: Tallies, c: int, norm: float) -> dict[str, float]:
    """What is reported beside the update: samples really trained on, steps, mean loss, mean squared loss, how far it went."""
    seen = max(float(tallies.seen[c]), 1.0)
    return {
        "loss": float(tallies.loss[c]) / seen,
        "samples": float(min(len(begun.job.rows), tallies.seen[c])),
        "steps": float(tallies.steps[c]),
        "squared_loss": float(tallies.squared[c]) / seen,
        "update_norm": float(norm),
    }


_SPAN = 4096  # elements whose squares are summed in single precision before double takes over


def norms_of(update: Mapping[str, torch.Tensor], clients: int) -> np.ndarray:
    """How far each client moved what goes up, as a Euclidean norm; leaves in the order of their names, whoever made them."""
    total = np.zeros(clients)
    for leaf in (update[name] for name in sorted(update)):
        if leaf.is_floating_point() and leaf.numel():
            flat = leaf.reshape(clients, -1)
            whole = flat.shape[1] // _SPAN * _SPAN
            spans = [flat[:, :whole].unflatten(1, (-1, _SPAN))] if whole else []
            spans += [flat[:, whole:].unsqueeze(1)] if whole < flat.shape[1] else []
            for span in spans:
                total += torch.linalg.vector_norm(span, dim=2).double().square_().sum(1).cpu().numpy()
    return np.sqrt(total)


def weight_of(job: Job, local: LocalPass) -> float:
    """What a report of this job weighs in the mean."""
    return float(len(job.rows)) if local.weigh == "samples" else 1.0


def stack_trees(trees: Sequence[Tree], device: torch.device) -> Tensors:
    """Clients' trees as one stack; a tree that all share is not copied, but seen by each."""
    first = trees[0]
    if all(tree is first for tree in trees):
        return {n: _tensor(v, device).unsqueeze(0).expand(len(trees), *np.shape(v)) for n, v in first.items()}
    return {n: _stacked([tree[n] for tree in trees], device) for n in first}


def stacked_slots(group: Sequence[Begun], device: torch.device) -> Carried:
    """Memory and what else was offered, as stacks."""
    slots = group[0].memory
    memory = {slot: stack_trees([begun.memory[slot] for begun in group], device) for slot in slots}
    return Carried(memory, stack_trees([begun.given for begun in group], device))


def _tensor(value: Any, device: torch.device) -> torch.Tensor:
    resident = getattr(value, "tensor", None)
    if resident is not None and resident.device == device:
        return resident
    return torch.from_numpy(np.array(value)).to(device)


def _stacked(values: list[Any], device: torch.device) -> torch.Tensor:
    if all(getattr(v, "tensor", None) is not None for v in values):
        return torch.stack([v.tensor.to(device) for v in values])
    return torch.from_numpy(np.stack([np.asarray(v) for v in values])).to(device)


def _numpy_kind(value: torch.Tensor) -> np.dtype[Any]:
    return np.asarray(torch.empty(0, dtype=value.dtype)).dtype


def _here(value: torch.Tensor) -> np.ndarray:
    return value.detach().cpu().numpy()


def grouped(jobs: Sequence[Begun]) -> Iterator[tuple[LocalPass, list[int]]]:
    """Jobs with equal passes, as places in the input, in the order in which the passes first appear."""
    found: dict[LocalPass, list[int]] = {}
    same: dict[int, list[int]] = {}  # most clients have the very same pass: a number is found faster than a value
    for i, begun in enumerate(jobs):
        mine = same.get(id(begun.local))
        if mine is None:
            mine = same[id(begun.local)] = found.setdefault(begun.local, [])
        mine.append(i)
    yield from found.items()


class Resident:
    """A leaf of a client's memory that still lies on an accelerator; whoever wants it here gets it by asking for an array."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        found = self.tensor.detach().cpu().numpy()
        return found if dtype is None else found.astype(dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the leaf."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its type, as numpy says it."""
        return _numpy_kind(self.tensor)


def resident(memory: Mapping[str, Mapping[str, torch.Tensor]], c: int) -> Slots:
    """One client's memory, left on the device."""
    return {slot: {n: Resident(v[c].clone()) for n, v in tree.items()} for slot, tree in memory.items()}  # type: ignore[misc]
