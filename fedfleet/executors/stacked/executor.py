"""The executor itself: jobs become stacks, stacks become reports, or exact sums where they were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from fedfleet.core.aggregation import Fold
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.parts import Executor, FoldResult, Job, Task, Trial
from fedfleet.core.passes import SECOND, Carry, LocalPass
from fedfleet.core.records import Context, Rejection, Report, Score, ServerState, Slots
from fedfleet.executors.client_half import (
    PreparedJob,
    Tallies,
    TrainedStack,
    apply_hooks_and_codec,
    client_errors,
    group_by_pass,
    prepare_job,
    reports,
    second_model_stages,
    stack_update,
    stats_of,
    weight_of,
)
from fedfleet.executors.gather import fold_in_order, stat_columns
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.device_sums import DeviceSums, changes
from fedfleet.executors.stacked.evaluation import score_trials
from fedfleet.executors.stacked.lean_loop import train_in_loop, use_one_kernel_thread
from fedfleet.executors.stacked.placement import Place, open_place, stage_data
from fedfleet.executors.stacked.schedule import Schedule, chunks, plan_stage
from fedfleet.executors.stacked.stacked_model import Twin
from fedfleet.executors.stacked.stage import StageEnd, Work, train_stage
from fedfleet.executors.tensor_stacks import TORCH, Tensors, device_slots, stack_carry, stack_trees
from fedfleet.tasks.narrow_models import at_width


def stacked_executor(
    task: Task,
    *,
    device: str = "cpu",
    threads: int = 1,
    form: str = "merged",
    tf32: bool = False,
    graphs: bool = True,
    room: float | None = None,
) -> Executor:
    """An executor that trains the clients of a cohort together on one device.

    Forms: `merged` (a twin with all clients' batches in one), `loop` (one client after the other, lean, on CPU threads).
    A model that cannot be merged is trained by the loop. The data stay on the device if they fit into `room` bytes
    (default: half of what is free there); else every stack brings its own rows along.
    """
    return executor_at(open_place(task, device=device, threads=threads, form=form, tf32=tf32, graphs=graphs, room=room))


def executor_at(place: Place) -> Executor:
    """The executor of a task that has its place already."""

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        ready: dict[int, Report] = {}
        for places, group, trained in _train_stacks(place, jobs):
            ready |= zip(places, reports(group, trained), strict=True)
        ready |= train_unstackable(place, jobs)
        yield from (ready[i] for i in range(len(jobs)))

    def fold(jobs: Sequence[Job], contexts: Sequence[Context], rule: Fold, server: ServerState) -> FoldResult:
        return fold_jobs(place, jobs, contexts, rule, server)

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        return score_trials(place.eval_model, place.twins, place.x, place.y, trials, place.device, place.task.loss)

    def remarks() -> tuple[str, ...]:
        waste = 1.0 - place.real / place.computed if place.computed else 0.0
        padded = (f"{waste:.1%} of the samples that were computed in stacks were padding",) if place.computed else ()
        return padded + tuple(f"{n} tasks were trained one by one: {why}" for why, n in place.unstacked.items())

    # On a CPU reports cost less than the extra passes over a whole stack; elsewhere they would have to cross a bus.
    name = f"stacked-{place.form}"
    device_fold = fold if place.form == "merged" and place.device.type != "cpu" else None
    return Executor(name, train, evaluate, device_fold, notes=tuple(place.notes), warnings=remarks, together=True)


def refusal_reason(local: Any) -> str | None:
    """Why stacks cannot train this pass; None if they can."""
    return None if isinstance(local, LocalPass) else "their pass is an opaque function"


def train_unstackable(place: Place, jobs: Sequence[Job]) -> dict[int, Report]:
    """What stacks refuse is trained by inline, and remarked."""
    refused = [i for i, job in enumerate(jobs) if refusal_reason(job.local)]
    if not refused:
        return {}
    for i in refused:
        why = refusal_reason(jobs[i].local)
        assert why is not None
        place.unstacked[why] = place.unstacked.get(why, 0) + 1
    return dict(zip(refused, inline(place.task, threads=place.threads).train([jobs[i] for i in refused]), strict=True))


def _train_stacks(place: Place, jobs: Sequence[Job]) -> Iterator[tuple[list[int], list[PreparedJob], TrainedStack]]:
    """The jobs that can be stacked, in stacks, trained, in an order that depends on the jobs alone."""
    stackable = [i for i, job in enumerate(jobs) if not refusal_reason(job.local)]
    ready = []
    for i in stackable:
        with client_errors(jobs[i]):
            ready.append(prepare_job(jobs[i]))
    for local, members in group_by_pass(ready):
        if not place.twins:
            task = at_width(place.task, local.width)
            trained = train_in_loop(task, [ready[j] for j in members], place.x, place.y, place.threads)
            yield from (([stackable[j]], [ready[j]], one) for j, one in zip(members, trained, strict=True))
            continue
        stacks = _train_in_threads if place.device.type == "cpu" else _train_in_turn
        for places, trained in stacks(place, ready, members):
            yield [stackable[j] for j in places], [ready[j] for j in places], trained


def _train_in_threads(
    place: Place, ready: list[PreparedJob], members: list[int]
) -> Iterator[tuple[list[int], TrainedStack]]:
    """On a CPU: one stack per thread at a time, each thread with a twin of its own and one kernel thread."""
    most = max(1, min(place.max_clients, -(-len(members) // place.threads)))
    free: SimpleQueue[Twin] = SimpleQueue()
    for twin in place.twins_at(ready[members[0]].local.width):
        free.put(twin)

    def train_part(part: list[int]) -> tuple[list[int], TrainedStack]:
        twin = free.get()
        try:
            return part, train_stack(place, twin, [ready[j] for j in part])
        finally:
            free.put(twin)

    parts = list(chunks(ready, members, most))
    if place.threads == 1 or len(parts) == 1:
        yield from map(train_part, parts)
        return
    with ThreadPoolExecutor(place.threads, initializer=use_one_kernel_thread) as pool:
        yield from pool.map(train_part, parts)


def _train_in_turn(
    place: Place, ready: list[PreparedJob], members: list[int]
) -> Iterator[tuple[list[int], TrainedStack]]:
    """On an accelerator: one stack after the other, smaller ones when memory runs out."""
    waiting, twin = list(chunks(ready, members, place.max_clients)), place.twins_at(ready[members[0]].local.width)[0]
    while waiting:
        part = waiting.pop(0)
        try:
            yield part, train_stack(place, twin, [ready[j] for j in part])
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
    return TrainedStack(TORCH, start, current, tallies, carry, second if second_stages else side_model)


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
        smallest = _smallest_job(plan)
        raise RunFailed(f"client {smallest.client}, task {smallest.task}: local training failed: {error}") from error


def _smallest_job(plan: Schedule) -> Job:
    """Whose batch is the smallest."""
    large = np.iinfo(np.int64).max
    return plan.jobs[int(np.where(plan.sizes > 0, plan.sizes, large).min(0).argmin())]


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
    t = stage_end.tallies
    return StageEnd(
        move(stage_end.end),
        move(stage_end.second),
        Tallies(t.loss[inverse], t.squared[inverse], t.samples[inverse], t.steps[inverse]),
    )


def _start_stack(place: Place, group: Sequence[PreparedJob]) -> Tensors:
    """What each client begins with, [clients, ..]; a model that all share is uploaded once and seen by each."""
    first = group[0].start
    if any(prepared.start is not first for prepared in group):
        return stack_trees([begun.start for begun in group], place.device)
    uploaded = place.uploaded  # read once: other threads upload too
    if uploaded is None or uploaded[0] is not first:
        uploaded = first, {n: torch.from_numpy(np.asarray(v)).to(place.device, copy=True) for n, v in first.items()}
        place.uploaded = uploaded
    return {n: v.unsqueeze(0).expand(len(group), *v.shape) for n, v in uploaded[1].items()}


def fold_jobs(
    place: Place, jobs: Sequence[Job], contexts: Sequence[Context], fold: Fold, server: ServerState
) -> FoldResult:
    """Train and add up on the device: the same integers as folding the reports one by one, and no report leaves it."""
    sums = DeviceSums(fold, fold.like(server), place.device)
    rejected: list[Rejection] = []
    rows: list[tuple[int, Mapping[str, float]]] = []
    memory: list[tuple[int, int, Slots]] = []  # task, client, slots
    for places, group, trained in _train_stacks(place, jobs):
        missing = next((n for n in sums.scales if n not in group[0].local.sent_names(trained.end)), None)
        if missing is not None and not group[0].local.after:
            rejected += [_rejection(begun.job, f"leaf {missing!r} is missing") for begun in group]
            continue
        update, start, (weights, kept_slots, peaks), norms = _stack_uploads(group, trained, list(sums.scales))
        stats = [stats_of(begun, trained.tallies, c, norms[c]) for c, begun in enumerate(group)]
        entries = [fold.enter(float(weights[c]), stats[c], contexts[i]) for c, i in enumerate(places)]
        reasons = sums.add(update, start, weights.tolist(), entries, peaks)
        for c, (prepared, why) in enumerate(zip(group, reasons, strict=True)):
            if why:
                rejected.append(_rejection(prepared.job, why))
                continue
            rows.append((prepared.job.task, stats[c]))
            if kept_slots:
                memory.append((prepared.job.task, prepared.job.client, device_slots(kept_slots, c)))
    if sums.full:  # who is refused then depends on the order of the tasks, which stacks do not keep
        return _fold_reports(place, jobs, contexts, fold, server)
    literal_reports = train_unstackable(place, jobs)
    literal = (
        fold_in_order(fold, server, list(literal_reports.values()), [contexts[i] for i in literal_reports])
        if literal_reports
        else None
    )
    if literal is not None:
        rejected += literal.rejected
        rows += [(t, {n: float(v[k]) for n, v in literal.stats.items()}) for k, t in enumerate(literal.tasks.tolist())]
        folded_tasks = set(literal.tasks.tolist())
        memory += [
            (r.task, r.client, r.memory)
            for r in literal_reports.values()
            if r.task in folded_tasks and r.memory is not None
        ]
    rows.sort(key=lambda row: row[0])
    try:
        total = sums.close(None if literal is None else literal.accumulator)
    except Refused:  # both together are too much, and again the order of the tasks decides
        return _fold_reports(place, jobs, contexts, fold, server)
    new_memory: dict[int, Slots] = {}
    for _, client, slots in sorted(memory, key=lambda row: row[0]):
        new_memory[client] = {**new_memory.get(client, {}), **slots}
    return FoldResult(
        total,
        np.array([t for t, _ in rows], np.int64),
        stat_columns([row_stats for _, row_stats in rows]),
        tuple(sorted(rejected, key=lambda r: r.task)),
        new_memory,
    )


def _rejection(job: Job, why: str) -> Rejection:
    return Rejection(job.task, job.client, f"client {job.client}: {why}")


def _fold_reports(
    place: Place, jobs: Sequence[Job], contexts: Sequence[Context], fold: Fold, server: ServerState
) -> FoldResult:
    """The same by way of reports, in the order of the tasks."""
    ready = {i: r for p, g, e in _train_stacks(place, jobs) for i, r in zip(p, reports(g, e), strict=True)}
    ready |= train_unstackable(place, jobs)
    return fold_in_order(fold, server, [ready[i] for i in range(len(jobs))], contexts)


def _stack_uploads(group: list[PreparedJob], trained: TrainedStack, names: list[str]):
    """A stack's updates, with (weights, memory, peaks) and norms; without hooks the difference is never written down."""
    local = group[0].local
    with torch.no_grad():
        if not local.after and local.up is None and not local.remembers():
            peaks, norms = changes(trained.end, trained.start, names, len(group))
            weights = np.array([weight_of(prepared.job, local) for prepared in group])
            return trained.end, trained.start, (weights, {}, peaks), norms
        before_hooks = stack_update(group, trained)
        floating = [n for n, v in before_hooks.update.items() if v.is_floating_point()]
        peaks, norms = changes(before_hooks.update, None, floating, len(group))
        uploads = apply_hooks_and_codec(group, before_hooks, TORCH)
        if local.after or local.up is not None or floating != names:
            peaks, _ = changes(uploads.update, None, names, len(group))
        return uploads.update, None, (uploads.weight, uploads.memory, peaks), norms


def train_cohort(place: Place, jobs: Sequence[Job]) -> list[Tensors]:
    """Train jobs and leave each client's parameters where they are: what the benchmark times."""
    models: dict[int, Tensors] = {}
    for places, group, trained in _train_stacks(place, jobs):
        for c, (i, prepared) in enumerate(zip(places, group, strict=True)):
            if trained.update is None:
                models[i] = {n: v[c] for n, v in trained.end.items()}
            else:
                models[i] = {
                    n: torch.from_numpy(np.asarray(v)) + trained.update[n][c] for n, v in prepared.start.items()
                }
    return [models[i] for i in range(len(jobs))]
