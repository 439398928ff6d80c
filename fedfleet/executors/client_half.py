"""The client's half, once: what a job begins with, and what it reports at the end. Kernels only train in between.

Everything that a pass asks for besides training happens here, for every kernel alike: hooks before and after, parts kept at
home, fresh memory, the learning rate, batches, what goes up and in which codec, error feedback, the weight, the statistics. A
kernel gets clients with equal passes and returns where they ended, as stacks; inline is a stack of one, and so is a device.

Nothing here imports torch. A kernel says with its stacks which array library made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from fedfleet.core.codec import Codec
from fedfleet.core.errors import FedFleetError, RunFailed
from fedfleet.core.parts import Job
from fedfleet.core.passes import FEEDBACK, KEPT, NO_MEMORY, SECOND, BatchPlan, Carry, LocalPass, Passed
from fedfleet.core.records import Ints, Report, Slots
from fedfleet.core.rng import orders
from fedfleet.core.trees import Tree
from fedfleet.executors.array_library import NUMPY, ArrayLibrary, Stack
from fedfleet.learn.codecs.messages import addresses, decode_bytes, encode_bytes, nbytes

# The epochs of one stage of a pass; later stages walk through orders of their own.
STAGE_STRIDE = 1 << 20


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
    """What a kernel counted, one entry per client: summed losses, summed squares of single losses, samples, steps.

    The sums may still be on an accelerator, whose work nobody waits for until they are asked for (`on_host`).
    """

    loss: Any
    squared: Any
    samples: np.ndarray
    steps: np.ndarray

    def on_host(self) -> Tallies:
        """The same with all of it here."""
        loss, squared = (v if isinstance(v, np.ndarray) else v.cpu().numpy() for v in (self.loss, self.squared))
        return Tallies(loss, squared, self.samples, self.steps)

    def add(self, other: Tallies) -> Tallies:
        """The counts of two stages together."""
        return Tallies(self.loss + other.loss, self.squared + other.squared, self.samples + other.samples, self.steps + other.steps)


@dataclass(slots=True)
class TrainedStack:
    """A stack after training: start and end of every leaf, [clients, ..], the second model's end, and what was counted.

    `update` comes from a kernel that computes the difference itself, and perhaps has no end.
    """

    arrays: ArrayLibrary
    start: Stack
    end: Stack
    tallies: Tallies
    carry: Carry = field(default_factory=lambda: Carry({}, {}))
    second: Stack = field(default_factory=dict[str, Any])
    update: Stack | None = None


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
        noise_key=jobs[0].noise_key,
    )


def difference(trained: TrainedStack, name: str) -> Any:
    """What a leaf has changed by; counters and other integers travel as they are."""
    if trained.update is not None:
        return trained.update[name]
    end = trained.end[name]
    return end - trained.start[name] if trained.arrays.is_floating(end) else end


def reports(group: Sequence[PreparedJob], trained: TrainedStack) -> Iterator[Report]:
    """The reports of a stack, in its order, here in this process's memory."""
    arrays = trained.arrays
    with arrays.no_grad():
        result = stack_update(group, trained)
        norms = arrays.norms(result.update, len(group))
        result = apply_hooks_and_codec(group, result, arrays)
    update = {n: arrays.to_numpy(v) for n, v in result.update.items()}
    tallies = trained.tallies.on_host()
    memory = arrays.split_slots(result.memory, len(group))
    for c, prepared in enumerate(group):
        yield Report(
            prepared.job.task,
            prepared.job.client,
            {n: v[c] for n, v in update.items()},
            float(result.weight[c]),
            stats_of(prepared, tallies, c, norms[c]),
            memory[c] or None,
            None if result.bytes_up is None else float(result.bytes_up[c]),
        )


# ---- hooks and the codec ------------------------------------------------------------------------------------------


def apply_hooks_and_codec(group: Sequence[PreparedJob], result: Passed, arrays: ArrayLibrary) -> Passed:
    """The stack after its hooks, innermost first, and after its codec: what arrives at the other end."""
    for hook in group[0].local.after:
        result = hook(result)
    codec = group[0].local.up
    if codec is None:
        return result
    jobs = [prepared.job for prepared in group]
    codec_addresses = addresses(result.seed, result.keys, result.tasks)
    owed = owed_before(jobs, result.update, arrays) if group[0].local.feedback else {}
    target = add_owed(result.update, owed)
    update = arrays.round_trip(codec, target, codec_addresses)
    new_memory = {FEEDBACK: owed_next(owed, target, update, arrays)} if group[0].local.feedback else {}
    lengths = _upload_bytes(codec, target, codec_addresses, arrays)
    return replace(result, update=update, memory={**result.memory, **new_memory}, bytes_up=lengths)


def encode_update(local: LocalPass, job: Job, report: Report) -> tuple[bytes, Slots | None]:
    """The bytes that a report sends up, and what its client remembers then: the codec's part of the client's half where the
    bytes themselves are needed, as on a device. The report is that of the same pass without codec and error feedback."""
    codec = local.up
    assert codec is not None
    stack = {n: np.asarray(v)[None] for n, v in report.update.items()}
    owed = owed_before([job], stack, NUMPY) if local.feedback else {}
    stack = add_owed(stack, owed)
    target = {n: v[0] for n, v in stack.items()}
    address = addresses(job.seed, np.array([job.key], np.uint64), np.array([job.task]))
    payload = encode_bytes(codec, target, int(address[0]))
    if not local.feedback:
        return payload, report.memory
    arrived = {n: v[None] for n, v in decode_bytes(codec, payload, target).items()}
    new_owed = {n: v[0] for n, v in owed_next(owed, stack, arrived, NUMPY).items()}
    return payload, {**(report.memory or {}), FEEDBACK: new_owed}


def owed_before(jobs: Sequence[Job], update: Stack, arrays: ArrayLibrary) -> dict[str, Any]:
    """Error feedback: what each client's codec lost until now, of leaves that go up and of others; zeros for new clients."""
    before = [job.memory.get(FEEDBACK, {}) for job in jobs]
    others = {n: v for slots in before for n, v in slots.items() if n not in update}
    shapes = {n: tuple(v.shape[1:]) for n, v in update.items() if arrays.is_floating(v)}
    result: dict[str, Any] = {}
    for name, shape in {**shapes, **{n: v.shape for n, v in others.items()}}.items():
        zeros = np.zeros(shape, np.float32)
        owed = [slots.get(name, zeros) for slots in before]
        odd_job = next((job for job, v in zip(jobs, owed, strict=True) if v.shape != shape), None)
        if odd_job is not None:
            raise RunFailed(
                f"client {odd_job.client}, task {odd_job.task}: leaf {name!r} does not have the shape of the error that its codec "
                "kept; leave feedback out where the updates of a client change their shape"
            )
        result[name] = arrays.stack_leaf(owed, next(iter(update.values())))
    return result


def add_owed(update: Stack, owed: Stack) -> dict[str, Any]:
    """What clients with error feedback would like to send: their update and what is owed from before."""
    return {n: v + owed[n] if n in owed else v for n, v in update.items()}


def owed_next(owed: Stack, target: Stack, arrived: Stack, arrays: ArrayLibrary) -> dict[str, Any]:
    """What the codec lost now, and what it lost before of leaves that do not go up this time."""
    lost = {n: v - arrived[n] for n, v in target.items() if arrays.is_floating(v)}
    return {**lost, **{n: v for n, v in owed.items() if n not in target}}


def _upload_bytes(codec: Codec, update: Stack, codec_addresses: np.ndarray, arrays: ArrayLibrary) -> np.ndarray:
    """How many bytes each client sends; only where values decide must they really be encoded."""
    fixed_size = nbytes(codec, {n: np.empty(v.shape[1:], arrays.dtype(v)) for n, v in update.items()})
    if fixed_size is not None:
        return np.full(len(codec_addresses), fixed_size)
    host = {n: arrays.to_numpy(v) for n, v in update.items()}
    messages = ({n: v[c] for n, v in host.items()} for c in range(len(codec_addresses)))
    return np.array([len(encode_bytes(codec, m, int(a))) for m, a in zip(messages, codec_addresses, strict=True)], float)


# ---- statistics ---------------------------------------------------------------------------------------------------


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


def weight_of(job: Job, local: LocalPass) -> float:
    """What a report of this job weighs in the mean."""
    return local.weight_of(len(job.rows))


# ---- how jobs are trained -----------------------------------------------------------------------------------------


def group_by_pass(jobs: Sequence[PreparedJob]) -> Iterator[tuple[LocalPass, list[int]]]:
    """Jobs with equal passes, as places in the input, in the order in which the passes first appear."""
    groups: dict[LocalPass, list[int]] = {}
    # Most clients have the same pass object: its number is found faster than its value.
    group_by_id: dict[int, list[int]] = {}
    for i, prepared in enumerate(jobs):
        places = group_by_id.get(id(prepared.local))
        if places is None:
            places = group_by_id[id(prepared.local)] = groups.setdefault(prepared.local, [])
        places.append(i)
    yield from groups.items()


def second_model_stages(local: LocalPass) -> list[tuple[int, LocalPass]]:
    """The stages of a second model that has a pass of its own, numbered after those of the first; none if it has not."""
    if local.second is None or local.second.own is None:
        return []
    return list(enumerate(local.second.own.stages(), start=sum(1 for _ in local.stages())))


def batches(plan: BatchPlan, job: Job, stage: int = 0) -> Iterator[Ints]:
    """The rows of each step: a fresh order in every epoch, addressed by client and task."""
    n = len(job.rows)
    if n == 0:
        return
    key, task = np.array([job.key], np.uint64), np.array([job.task])
    limit = job.steps or plan.steps
    done = 0
    for epoch in count():
        order = orders(job.seed, key, task, epoch + STAGE_STRIDE * stage, n)[0]
        for a in range(0, n, plan.size):
            if limit is not None and done == limit:
                return
            yield job.rows[order[a : a + plan.size]]
            done += 1
        if limit is None and done >= plan.epochs * -(-n // plan.size):
            return


class client_errors:  # noqa: N801 - reads as a word of the language
    """Errors inside a client's training name the client and the task; errors of FedFleet's own pass unchanged."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, FedFleetError):
            text = str(error) if isinstance(error, RuntimeError | ValueError) else f"{type(error).__name__}: {error}"
            raise RunFailed(f"client {self.job.client}, task {self.job.task}: local training failed: {text}") from error
