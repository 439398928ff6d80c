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
from fedfleet.core.passes import FEEDBACK, KEPT, NO_MEMORY, SECOND, Carry, LocalPass, Passed
from fedfleet.core.records import Report, Slots
from fedfleet.core.trees import Tree
from fedfleet.learn.codecs.messages import addresses, encode_bytes, nbytes, round_trip

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job that is ready for a kernel: its pass, the model it begins with, and its memory, fresh where it is new."""

    job: Job
    local: LocalPass
    start: Tree
    memory: Slots

    @property
    def extra(self) -> Tree:
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
    samples: np.ndarray
    steps: np.ndarray

    def add(self, other: Tallies) -> Tallies:
        """The counts of two stages together."""
        return Tallies(
            self.loss + other.loss, self.squared + other.squared, self.samples + other.samples, self.steps + other.steps
        )


@dataclass(slots=True)
class TrainedStack:
    """A stack after training: start and end of every leaf, [clients, ..], the second model's end, and what was counted."""

    start: Tensors
    end: Tensors
    tallies: Tallies
    carry: Carry = field(default_factory=lambda: Carry({}, {}))
    second: Tensors = field(default_factory=dict)
    update: Tensors | None = None  # from a kernel that has the difference itself, and perhaps no end


def prepare_job(job: Job) -> PreparedJob:
    """Run the hooks, and lay out what this client begins with."""
    assert isinstance(job.local, LocalPass)
    for hook in job.local.before:
        job = hook(job)
    local, params = job.local, job.offer.params
    assert isinstance(local, LocalPass)
    if not len(job.rows):
        raise RunFailed(f"client {job.client}, task {job.task}: local training failed: its training shard is empty")
    start = params
    personal = job.memory.get(KEPT)
    if local.keep is not None and personal:
        start = {n: personal.get(n, v) if local.keep(n) else v for n, v in params.items()}
    if not local.slots and local.second is None:
        return PreparedJob(job, local, start, NO_MEMORY)
    memory = {s.name: job.memory[s.name] if s.name in job.memory else s.fresh(params) for s in local.slots}
    if local.second is not None:
        memory[SECOND] = job.memory[SECOND] if SECOND in job.memory else local.second.fresh(params)
    return PreparedJob(job, local, start, memory)


def stack_update(group: Sequence[PreparedJob], trained: TrainedStack) -> Passed:
    """The stack as its hooks see it, before the first of them: updates of what goes up, memory as far as it is known."""
    local, end, start = group[0].local, trained.end, trained.start
    tensors = end if trained.update is None else trained.update
    update = {n: difference(trained, n) for n in local.sent_names(tensors)}
    memory: dict[str, Any] = {slot: tree for slot, tree in trained.carry.memory.items() if slot != SECOND}
    if local.keep is not None:
        memory[KEPT] = {n: v for n, v in end.items() if local.keep(n)}
    if local.second is not None:
        memory[SECOND] = trained.second
    jobs = [prepared.job for prepared in group]
    return Passed(
        update=update,
        start=start,
        memory=memory,
        given=trained.carry.given,
        weight=np.array([weight_of(job, local) for job in jobs]),
        steps=trained.tallies.steps,
        rates=np.array([begun.rate(local) for begun in group]),
        keys=np.array([job.key for job in jobs], np.uint64),
        tasks=np.array([job.task for job in jobs], np.int64),
        seed=jobs[0].seed,
    )


def difference(trained: TrainedStack, name: str) -> torch.Tensor:
    """What a leaf has changed by; counters and other integers travel as they are."""
    if trained.update is not None:
        return trained.update[name]
    end = trained.end[name]
    return end - trained.start[name] if end.is_floating_point() else end


def reports(group: Sequence[PreparedJob], trained: TrainedStack) -> Iterator[Report]:
    """The reports of a stack, in its order, here in this process's memory."""
    with torch.no_grad():
        result = stack_update(group, trained)
        norms = norms_of(result.update, len(group))
        result = apply_hooks_and_codec(group, result)
    update = {n: v.detach().cpu().numpy() for n, v in result.update.items()}
    memory = {slot: {n: _to_numpy(v) for n, v in tree.items()} for slot, tree in result.memory.items()}
    for c, prepared in enumerate(group):
        # Copies of what is kept: a view would keep the whole stack alive.
        kept_memory = {slot: {n: np.array(v[c]) for n, v in tree.items()} for slot, tree in memory.items()} or None
        own_update = {n: v[c] for n, v in update.items()}
        stats, nbytes = (
            stats_of(prepared, trained.tallies, c, norms[c]),
            None if result.bytes_up is None else float(result.bytes_up[c]),
        )
        yield Report(
            prepared.job.task, prepared.job.client, own_update, float(result.weight[c]), stats, kept_memory, nbytes
        )


def apply_hooks_and_codec(group: Sequence[PreparedJob], result: Passed) -> Passed:
    """The stack after its hooks, innermost first, and after its codec: what arrives at the other end."""
    for hook in group[0].local.after:
        result = hook(result)
    codec = group[0].local.up
    if codec is None:
        return result
    target, feedback = dict(result.update), group[0].local.feedback
    if feedback:
        lost_before = _error_feedback([prepared.job for prepared in group], target)
        target |= {n: target[n] + v for n, v in lost_before.items()}
    codec_addresses = addresses(result.seed, result.keys, result.tasks)
    update = round_trip(codec, target, codec_addresses)
    new_feedback = {FEEDBACK: _next_error_feedback([begun.job for begun in group], target, update)} if feedback else {}
    lengths = _upload_bytes(codec, target, codec_addresses)
    return replace(result, update=update, memory={**result.memory, **new_feedback}, bytes_up=lengths)


def _error_feedback(jobs: Sequence[Job], update: Mapping[str, torch.Tensor]) -> Tensors:
    """What each client's codec lost the last time; nothing for those who never took part."""
    result: Tensors = {}
    for name, leaf in update.items():
        if leaf.is_floating_point():
            zeros = np.zeros(tuple(leaf.shape[1:]), np.float32)
            lost = [job.memory.get(FEEDBACK, {}).get(name, zeros) for job in jobs]
            odd_job = next((job for job, v in zip(jobs, lost, strict=True) if v.shape != zeros.shape), None)
            if odd_job is not None:
                raise RunFailed(
                    f"client {odd_job.client}, task {odd_job.task}: leaf {name!r} has another shape than what "
                    f"its codec lost before; leave "
                    "feedback out where a client's updates change their shape"
                )
            result[name] = _stack_leaves(lost, leaf.device)
    return result


def _next_error_feedback(jobs: Sequence[Job], target: Tensors, update: Mapping[str, torch.Tensor]) -> Tensors:
    """What the codec lost now, and what it lost before of leaves that do not go up this time."""
    lost = {n: v - update[n] for n, v in target.items() if v.is_floating_point()}
    before = [job.memory.get(FEEDBACK, {}) for job in jobs]
    for name, like in {n: v for slots in before for n, v in slots.items() if n not in target}.items():
        zeros = np.zeros(like.shape, np.float32)
        lost[name] = _stack_leaves([kept.get(name, zeros) for kept in before], next(iter(target.values())).device)
    return lost


def _upload_bytes(codec: Codec, update: Mapping[str, torch.Tensor], codec_addresses: np.ndarray) -> np.ndarray:
    """How many bytes each client sends; only where values decide must they really be encoded."""
    like = {n: np.empty(v.shape[1:], _numpy_dtype(v)) for n, v in update.items()}
    fixed_size = nbytes(codec, like)
    if fixed_size is not None:
        return np.full(len(codec_addresses), fixed_size)
    arrays = {n: _to_numpy(v) for n, v in update.items()}
    return np.array(
        [len(encode_bytes(codec, {n: v[c] for n, v in arrays.items()}, int(a))) for c, a in enumerate(codec_addresses)],
        float,
    )


def stats_of(prepared: PreparedJob, tallies: Tallies, c: int, norm: float) -> dict[str, float]:
    """What is reported beside the update: samples really trained on, steps, mean loss, mean squared loss, how far it went."""
    sample_count = max(float(tallies.samples[c]), 1.0)
    return {
        "loss": float(tallies.loss[c]) / sample_count,
        "samples": float(min(len(prepared.job.rows), tallies.samples[c])),
        "steps": float(tallies.steps[c]),
        "squared_loss": float(tallies.squared[c]) / sample_count,
        "update_norm": float(norm),
    }


_SPAN = 4096  # elements whose squares are summed in single precision before double takes over


def norms_of(update: Mapping[str, torch.Tensor], clients: int) -> np.ndarray:
    """How far each client moved what goes up, as a Euclidean norm; leaves in the order of their names, whoever made them."""
    total = np.zeros(clients)
    for leaf in (update[name] for name in sorted(update)):
        if leaf.is_floating_point() and leaf.numel():
            flat = leaf.reshape(clients, -1)
            full = flat.shape[1] // _SPAN * _SPAN
            spans = [flat[:, :full].unflatten(1, (-1, _SPAN))] if full else []
            spans += [flat[:, full:].unsqueeze(1)] if full < flat.shape[1] else []
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
        return {n: _to_tensor(v, device).unsqueeze(0).expand(len(trees), *np.shape(v)) for n, v in first.items()}
    return {n: _stack_leaves([tree[n] for tree in trees], device) for n in first}


def stack_carry(group: Sequence[PreparedJob], device: torch.device) -> Carry:
    """Memory and what else was offered, as stacks."""
    slots = group[0].memory
    memory = {slot: stack_trees([prepared.memory[slot] for prepared in group], device) for slot in slots}
    return Carry(memory, stack_trees([begun.extra for begun in group], device))


def _to_tensor(value: Any, device: torch.device) -> torch.Tensor:
    tensor = getattr(value, "tensor", None)
    if tensor is not None and tensor.device == device:
        return tensor
    return torch.from_numpy(np.array(value)).to(device)


def _stack_leaves(values: list[Any], device: torch.device) -> torch.Tensor:
    if all(getattr(v, "tensor", None) is not None for v in values):
        return torch.stack([v.tensor.to(device) for v in values])
    return torch.from_numpy(np.stack([np.asarray(v) for v in values])).to(device)


def _numpy_dtype(value: torch.Tensor) -> np.dtype[Any]:
    return np.asarray(torch.empty(0, dtype=value.dtype)).dtype


def _to_numpy(value: torch.Tensor) -> np.ndarray:
    return value.detach().cpu().numpy()


def group_by_pass(jobs: Sequence[PreparedJob]) -> Iterator[tuple[LocalPass, list[int]]]:
    """Jobs with equal passes, as places in the input, in the order in which the passes first appear."""
    groups: dict[LocalPass, list[int]] = {}
    group_by_id: dict[
        int, list[int]
    ] = {}  # most clients have the very same pass: a number is found faster than a value
    for i, prepared in enumerate(jobs):
        places = group_by_id.get(id(prepared.local))
        if places is None:
            places = group_by_id[id(prepared.local)] = groups.setdefault(prepared.local, [])
        places.append(i)
    yield from groups.items()


class DeviceLeaf:
    """A leaf of a client's memory that still lies on an accelerator; whoever wants it here gets it by asking for an array."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        array = self.tensor.detach().cpu().numpy()
        return array if dtype is None else array.astype(dtype)

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
        return _numpy_dtype(self.tensor)


def device_slots(memory: Mapping[str, Mapping[str, torch.Tensor]], c: int) -> Slots:
    """One client's memory, left on the device."""
    return {slot: {n: DeviceLeaf(v[c].clone()) for n, v in tree.items()} for slot, tree in memory.items()}  # type: ignore[misc]
