"""The clients of a cohort in stacks: which go together, how each stack is trained, and where its clients end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import torch

from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Job
from fedfleet.core.passes import SECOND, Carry, LocalPass
from fedfleet.core.trees import Tree
from fedfleet.executors.client_half import (
    PreparedJob,
    Tallies,
    TrainedStack,
    client_errors,
    group_by_pass,
    prepare_job,
    second_model_stages,
)
from fedfleet.executors.stacked.device_sums import changes, floating_names
from fedfleet.executors.stacked.lean_loop import train_in_loop, use_one_kernel_thread
from fedfleet.executors.stacked.placement import Place, stage_data
from fedfleet.executors.stacked.schedule import Schedule, chunks, plan_stage
from fedfleet.executors.stacked.stacked_model import Twin
from fedfleet.executors.stacked.stage import StageEnd, Work, train_stage
from fedfleet.executors.tensor_stacks import TORCH, Tensors, is_accelerator, stack_carry, stack_trees
from fedfleet.tasks.narrow_models import at_width

T = TypeVar("T")


def refusal_reason(local: Any) -> str | None:
    """Why stacks cannot train this pass; None if they can."""
    return None if isinstance(local, LocalPass) else "their pass is an opaque function"


def prepare_jobs(jobs: Sequence[Job]) -> tuple[list[int], list[PreparedJob]]:
    """The jobs that can be stacked, as places in the input and prepared."""
    stackable = [i for i, job in enumerate(jobs) if not refusal_reason(job.local)]
    ready: list[PreparedJob] = []
    for i in stackable:
        with client_errors(jobs[i]):
            ready.append(prepare_job(jobs[i]))
    return stackable, ready


# Where updates are added up in place their norms are found on the way; reports of the same clients must say the same.
SUMMED = replace(TORCH, norms=lambda update, clients: changes(update, None, floating_names(update), clients).read()[1])

Trained = tuple[list[int], list[PreparedJob], TrainedStack]  # places in the cohort, the clients that stand there, their stack


def train_stacks(place: Place, jobs: Sequence[Job]) -> Iterator[Trained]:
    """The jobs that can be stacked, in stacks, trained, in an order that depends on the jobs alone."""
    return use_stacks(place, jobs, lambda *trained: trained)


def use_stacks(place: Place, jobs: Sequence[Job], use: Callable[[list[int], list[PreparedJob], TrainedStack], T]) -> Iterator[T]:
    """The same, with every stack given to `use` by the thread that has trained it: what comes of it, in the order of the stacks."""
    stackable, ready = prepare_jobs(jobs)
    for local, members in group_by_pass(ready):
        if not place.twins:
            task, group = at_width(place.task, local.width), [ready[j] for j in members]

            def use_one(k: int, one: TrainedStack, members: list[int] = members) -> T:
                return use([stackable[members[k]]], [ready[members[k]]], one)

            yield from train_in_loop(task, group, place.x, place.y, place.threads, use_one)
            continue

        def use_part(part: list[int], trained: TrainedStack) -> T:
            return use([stackable[j] for j in part], [ready[j] for j in part], trained)

        stacks = _train_in_threads if place.device.type == "cpu" else _train_in_turn
        yield from stacks(place, ready, members, use_part)


def _train_in_threads(
    place: Place, ready: list[PreparedJob], members: list[int], use: Callable[[list[int], TrainedStack], T]
) -> Iterator[T]:
    """On a CPU: one stack per thread at a time, each thread with a twin of its own and one kernel thread."""
    most = max(1, min(place.max_clients, -(-len(members) // place.threads)))
    free: SimpleQueue[Twin] = SimpleQueue()
    for twin in place.twins_at(ready[members[0]].local.width):
        free.put(twin)

    def train_part(part: list[int]) -> T:
        twin = free.get()
        try:
            return use(part, train_stack(place, twin, [ready[j] for j in part]))
        finally:
            free.put(twin)

    parts = list(chunks(ready, members, most))
    if place.threads == 1 or len(parts) == 1:
        yield from map(train_part, parts)
        return
    with ThreadPoolExecutor(place.threads, initializer=use_one_kernel_thread) as pool:
        yield from pool.map(train_part, parts)


def _train_in_turn(
    place: Place, ready: list[PreparedJob], members: list[int], use: Callable[[list[int], TrainedStack], T]
) -> Iterator[T]:
    """On an accelerator: one stack after the other, smaller ones when memory runs out."""
    waiting, twin = list(chunks(ready, members, place.max_clients)), place.twins_at(ready[members[0]].local.width)[0]
    while waiting:
        part = waiting.pop(0)
        try:
            yield use(part, train_stack(place, twin, [ready[j] for j in part]))
        except torch.OutOfMemoryError:
            if len(part) == 1:
                client = ready[part[0]].job.client
                raise RunFailed(f"client {client} alone does not fit into the memory of {place.device}") from None
            torch.cuda.empty_cache()
            place.max_clients = max(1, len(part) // 2)
            waiting = [part[: place.max_clients], part[place.max_clients :], *waiting]


def train_stack(place: Place, twin: Twin, group: list[PreparedJob]) -> TrainedStack:
    """All stages of a stack, each from where the one before ended."""
    start = _start_stack(place, group)
    carry = stack_carry(group, place.device)
    second, second_stages = dict(carry.memory.get(SECOND, {})), second_model_stages(group[0].local)
    others = {slot: tree for slot, tree in carry.memory.items() if slot != SECOND}
    visible_carry = Carry(others if second_stages else carry.memory, carry.given)
    current, side_model = start, {} if second_stages else second
    tallies: Tallies | None = None
    for number, _ in enumerate(group[0].local.stages()):
        stage_end = _train_one_stage(place, twin, group, number, (current, start, visible_carry, side_model))
        current, side_model = stage_end.end, stage_end.second
        tallies = stage_end.tallies if tallies is None else tallies.add(stage_end.tallies)
    for number, _ in second_stages:
        second = _train_one_stage(place, twin, group, number, (second, start, visible_carry, {})).end
    assert tallies is not None
    arrays = SUMMED if place.adds_up and place.device.type == "cpu" else TORCH
    return TrainedStack(arrays, start, current, tallies, carry, second if second_stages else side_model)


def _train_one_stage(
    place: Place, twin: Twin, group: list[PreparedJob], number: int, position: tuple[Tensors, Tensors, Carry, Tensors]
) -> StageEnd:
    """One stage of a stack, numbered in the whole work of its clients, from where they stand."""
    stages = [next(islice(prepared.local.work(), number, None)) for prepared in group]
    rates = np.array([begun.rate(stage) for begun, stage in zip(group, stages, strict=True)])
    plan = plan_stage([begun.job for begun in group], stages[0].batches, number)
    place.real += int(plan.sizes.sum())
    place.computed += plan.sample_slots
    stage_plan, x, y = stage_data(place, plan)
    work = _sort_clients(Work(stages[0], stage_plan, *position, rates), plan)
    try:
        replayed = place.graphs.train(twin, work, x, y) if place.graphs is not None else None
        return _restore_order(replayed or train_stage(twin, work, x, y), plan)
    except ValueError as error:  # a batch that a layer cannot take
        smallest = plan.jobs[int(np.where(plan.sizes > 0, plan.sizes, np.iinfo(np.int64).max).min(0).argmin())]
        raise RunFailed(f"client {smallest.client}, task {smallest.task}: local training failed: {error}") from error


def _sort_clients(work: Work, plan: Schedule) -> Work:
    """The work with its clients in the order of the schedule."""
    if plan.sorted_already:
        return work
    order = torch.from_numpy(plan.order).to(next(iter(work.begin.values())).device)
    move = lambda tree: {n: v if v.stride(0) == 0 else v[order] for n, v in tree.items()}  # noqa: E731
    carry = Carry({slot: move(tree) for slot, tree in work.carried.memory.items()}, move(work.carried.given))
    begin = move(work.begin)
    anchor = begin if work.anchor is work.begin else move(work.anchor)
    return Work(work.stage, work.schedule, begin, anchor, carry, move(work.second), work.rates[plan.order])


def _restore_order(stage_end: StageEnd, plan: Schedule) -> StageEnd:
    """The clients in the order in which they were given."""
    if plan.sorted_already:
        return stage_end
    inverse = np.argsort(plan.order)
    index = torch.from_numpy(inverse).to(next(iter(stage_end.end.values())).device)
    move = lambda tree: {n: v if v.stride(0) == 0 else v[index] for n, v in tree.items()}  # noqa: E731
    t, places = stage_end.tallies, index if isinstance(stage_end.tallies.loss, torch.Tensor) else inverse
    return StageEnd(
        move(stage_end.end),
        move(stage_end.second),
        Tallies(t.loss[places], t.squared[places], t.samples[inverse], t.steps[inverse]),
    )


def _start_stack(place: Place, group: Sequence[PreparedJob]) -> Tensors:
    """What each client begins with, [clients, ..]; a model that all share is uploaded once and seen by each.

    On an accelerator that holds leaf by leaf, for clients that have some leaves of their own.
    """
    first = group[0].start
    if all(prepared.start is first for prepared in group):
        return {n: v.unsqueeze(0).expand(len(group), *v.shape) for n, v in _upload(place, first).items()}
    offered = group[0].job.offer.params
    common: list[str] = []
    if is_accelerator(place.device):
        common = [n for n in first if n in offered and all(prepared.start[n] is offered[n] for prepared in group)]
    own = stack_trees([{n: v for n, v in begun.start.items() if n not in common} for begun in group], place.device)
    uploaded = _upload(place, offered) if common else {}
    shared = {n: uploaded[n].unsqueeze(0).expand(len(group), *uploaded[n].shape) for n in common}
    return {n: shared[n] if n in shared else own[n] for n in first}


def _upload(place: Place, tree: Tree) -> Tensors:
    """These tensors on the device; those of the newest model are kept there."""
    uploaded = place.uploaded  # read once: other threads upload too
    if uploaded is None or uploaded[0] is not tree:
        uploaded = tree, {n: torch.from_numpy(np.asarray(v)).to(place.device, copy=True) for n, v in tree.items()}
        place.uploaded = uploaded
    return uploaded[1]


def train_cohort(place: Place, jobs: Sequence[Job]) -> list[Tensors]:
    """Train jobs and leave each client's parameters where they are: what the benchmark times."""
    models: dict[int, Tensors] = {}
    for places, group, trained in train_stacks(place, jobs):
        for c, (i, prepared) in enumerate(zip(places, group, strict=True)):
            if trained.update is None:
                models[i] = {n: v[c] for n, v in trained.end.items()}
            else:
                models[i] = {n: torch.from_numpy(np.asarray(v)) + trained.update[n][c] for n, v in prepared.start.items()}
    return [models[i] for i in range(len(jobs))]
