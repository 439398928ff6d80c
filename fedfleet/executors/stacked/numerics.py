"""What decides a client's arithmetic in a stack beside the client itself, and whether its neighbours do too.

On a CPU a product of small matrices may come out with other last bits when they lie elsewhere in memory: libraries choose
instructions by the alignment of what they are given, and a client's place in a stack decides that. Whether it does for these
shapes is not argued but tried, on clients that are equal: wherever they stand, in stacks of any size, they must end equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedfleet.core.parts import Job, Offer, Task
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream
from fedfleet.executors.client_half import PreparedJob, TrainedStack, prepare_job
from fedfleet.executors.stacked.cohort import train_stack
from fedfleet.executors.stacked.linear_layers import Linear, keeps_past
from fedfleet.executors.stacked.placement import Place, open_place
from fedfleet.executors.stacked.schedule import batch_width, step_counts
from fedfleet.executors.stacked.stacked_model import Twin
from fedfleet.executors.stacked.stage import trainable
from fedfleet.learn.optimisers import sgd

_TRIAL_SIZES = (1, 2, 5, 33)  # stacks that are tried beside the tallest
_TRIAL_BATCH = 10
_ALIGNED = 16  # single-precision numbers in the 64 bytes by which the widest instructions are aligned


@dataclass(frozen=True, slots=True)
class StageLayout:
    """One stage of a stack: samples a batch, the steps of everybody where nobody is padded, the rate where it is one."""

    width: int
    even: int | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class Layout:
    """What must agree before stacks are put on top of each other: their pass, their stages, what was offered beside the model."""

    local: LocalPass
    stages: tuple[StageLayout, ...]
    extra: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def kind(self) -> Hashable:
        """What a trial depends on: neither how fast clients learn nor how long."""
        return self.local, tuple((stage.width, stage.even is None) for stage in self.stages), self.extra


def is_size_independent(form: str, task: Task) -> bool:
    """Are a client's bits, on this CPU, the same whatever stands in the stack beside it? Yes only where a trial shows it.

    The loop trains everybody alone. Merged stacks of linear layers whose inputs are a multiple of 16 wide make each client's sums
    by themselves; at other widths the place in the stack decides last bits. Other leaves (convolutions are near a core's peak one
    client at a time), frozen weights and losses of a person's own are not tried.
    """
    if form == "loop":
        return True
    if form != "merged":
        return False
    place = open_place(task, device="cpu", threads=1, form=form, tf32=False, graphs=False)
    local = LocalPass(sgd(), BatchPlan(_TRIAL_BATCH, epochs=1), rate=0.1)
    rows = np.arange(2 * _TRIAL_BATCH + 1) % len(task.dataset.y)
    return can_join(place) and trial_passes(place, [prepare_job(Job(0, 0, 0, 0, Offer(task.init(0)), local, rows))], 50)


def can_join(place: Place) -> bool:
    """May stacks of this place stand beside those of others at all, and is anything gained by it?

    Every leaf must work on each client by itself, on rows that are aligned wherever the client stands.
    """
    plain = place.device.type == "cpu" and not place.streamed and not place.task.frozen and place.task.loss is None
    if not plain or place.form != "merged":
        return False
    twin = place.twins[0]
    weights = [shape for name, shape in twin.shapes.items() if len(shape) == 2 and trainable(twin, name)]
    dense = all(isinstance(leaf, Linear) for leaf, _ in twin.places.values())
    return dense and not twin.held_weights and all(shape[1] % _ALIGNED == 0 for shape in weights)


def layout_of(place: Place, group: Sequence[PreparedJob]) -> Layout | None:
    """What decides the arithmetic of a stack beside its clients; None: its size does, or nobody has shown that it does not."""
    local, twin = group[0].local, place.twins_at(group[0].local.width)[0]
    jobs, same_start = [begun.job for begun in group], all(begun.start is group[0].start for begun in group)
    works = [[*prepared.local.work()] for prepared in group]
    stages: list[StageLayout] = []
    for number, stage in enumerate(works[0]):
        steps, width = step_counts(stage.batches, jobs), batch_width(stage.batches, jobs)
        if stage.objective is not None or (
            same_start and len(group) > 1 and _shares_product(twin, stage, int(steps.max()) * width)
        ):
            return None
        rates = {begun.rate(work[number]) for begun, work in zip(group, works, strict=True)}
        even = int(steps[0]) if _no_padding(stage.batches, jobs, steps, width) else None
        stages.append(StageLayout(width, even, rates.pop() if len(rates) == 1 else None))
    return Layout(local, tuple(stages), tuple((n, np.shape(v)) for n, v in group[0].extra.items()))


def _shares_product(twin: Twin, stage: LocalPass, rank: int) -> bool:
    """Would clients that begin alike multiply with one tensor for all of them, in a product as large as the stack?"""
    for name, shape in twin.shapes.items():
        if len(shape) < 2 or not trainable(twin, name):
            continue
        if stage.train is not None and not stage.train(name):
            return True
        if name in twin.shareable and keeps_past(shape[0], shape[1], rank, on_cpu=True):
            return True
    return False


def _no_padding(plan: BatchPlan, jobs: Sequence[Job], steps: Ints, width: int) -> bool:
    """Does every client take equally many steps, with no padding in any of them?"""
    n = np.array([len(job.rows) for job in jobs], np.int64)
    last = np.where(steps >= -(-n // plan.size), (n - 1) % plan.size + 1, np.minimum(n, plan.size))
    return bool((steps == steps[0]).all() and (last == width).all())


def trial_passes(place: Place, group: Sequence[PreparedJob], max_clients: int) -> bool:
    """Do equal clients with the layout of this stack end equal, wherever they stand and however many they are?

    Two kinds stand mixed at random, padded unlike; where nobody in the stack is padded, neither are they.
    """
    twin, plan = place.twins_at(group[0].local.width)[0], group[0].local.batches
    jobs = [prepared.job for prepared in group]
    width = batch_width(plan, jobs)
    unpadded = _no_padding(plan, jobs, step_counts(plan, jobs), width)
    several = plan.size == width > 1  # batches in an epoch: even one alone can be padded
    sizes = (width, width) if unpadded else (width + 1, 2 * width - 1) if several else (width, max(1, width - 1))
    draw = stream(0, "stacks", width)
    rows = draw.integers(0, len(place.task.dataset.y), sum(sizes))
    first = _client_like(group[0], rows[: sizes[0]], 2)
    kinds = (first, _client_like(group[0], rows[sizes[0] :], 1 if width == 1 and not unpadded else 2))
    reference = train_stack(place, twin, [_copy_job(kind) for kind in kinds])
    for size in (
        (*_TRIAL_SIZES, max(max_clients, len(group))) if unpadded or several else (*_TRIAL_SIZES[1:], max(max_clients, len(group)))
    ):
        choices = [0, 1, *draw.integers(0, 2, size).tolist()][:size]
        trained = train_stack(place, twin, [_copy_job(kinds[k]) for k in choices])
        if not all(_ends_equal(trained, c, reference, k) for c, k in enumerate(choices)):
            return False
    return True


def _client_like(like: PreparedJob, rows: Ints, steps: int) -> PreparedJob:
    """A client like this one with these samples, which takes so many steps."""
    return replace(like, job=replace(like.job, rows=rows, steps=steps))


def _copy_job(prepared: PreparedJob) -> PreparedJob:
    return replace(prepared, start={n: np.array(v) for n, v in prepared.start.items()})


def _ends_equal(a: TrainedStack, c: int, b: TrainedStack, k: int) -> bool:
    """Did client c of one stack end as client k of the other?"""
    ends = all(torch.equal(a.end[n][c], b.end[n][k]) for n in a.end)
    seconds = all(torch.equal(a.second[n][c], b.second[n][k]) for n in a.second)
    counted = a.tallies.loss[c] == b.tallies.loss[k] and a.tallies.squared[c] == b.tallies.squared[k]
    return bool(ends and seconds and counted)
