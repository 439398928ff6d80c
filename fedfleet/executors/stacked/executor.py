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
from fedfleet.core.parts import Executor, Folded, Job, Task, Trial
from fedfleet.core.passes import SECOND, Carried, LocalPass
from fedfleet.core.records import Context, Rejected, Report, Score, ServerState, Slots
from fedfleet.executors.client_half import (
    Begun,
    StackEnd,
    Tallies,
    Tensors,
    begin,
    finished,
    grouped,
    passed,
    reports,
    resident,
    stack_trees,
    stacked_slots,
    stats_of,
    weight_of,
)
from fedfleet.executors.gather import fold_in_order, stat_columns
from fedfleet.executors.inline import inline, naming, own_stages
from fedfleet.executors.stacked.device_sums import DeviceSums, changes
from fedfleet.executors.stacked.evaluation import score_trials
from fedfleet.executors.stacked.lean_loop import alone_on_its_core, loop_ended
from fedfleet.executors.stacked.placement import Place, at_hand, open_place
from fedfleet.executors.stacked.schedule import Schedule, chunks, plan_stage
from fedfleet.executors.stacked.stage import Trained, Work, train_stage
from fedfleet.executors.stacked.twin import Twin
from fedfleet.tasks.narrow_models import at_width


def stacked(
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


def executor_at(where: Place) -> Executor:
    """The executor of a task that has its place already."""

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        ready: dict[int, Report] = {}
        for places, group, ended in _trained(where, jobs):
            ready |= zip(places, reports(group, ended), strict=True)
        ready |= trained_literally(where, jobs)
        yield from (ready[i] for i in range(len(jobs)))

    def fold(jobs: Sequence[Job], contexts: Sequence[Context], rule: Fold, server: ServerState) -> Folded:
        return fold_jobs(where, jobs, contexts, rule, server)

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        return score_trials(where.judge, where.twins, where.x, where.y, trials, where.device, where.task.loss)

    def remarks() -> tuple[str, ...]:
        waste = 1.0 - where.real / where.computed if where.computed else 0.0
        padded = (f"{waste:.1%} of the samples that were computed in stacks were padding",) if where.computed else ()
        return padded + tuple(f"{n} tasks were trained one by one: {why}" for why, n in where.literal.items())

    # On a CPU reports cost less than the extra passes over a whole stack; elsewhere they would have to cross a bus.
    name = f"stacked-{where.form}"
    own_fold = fold if where.form == "merged" and where.device.type != "cpu" else None
    return Executor(name, train, evaluate, own_fold, notes=tuple(where.notes), remarks=remarks, together=True)


def refuses(local: Any) -> str | None:
    """Why stacks cannot train this pass; None if they can."""
    return None if isinstance(local, LocalPass) else "their pass is an opaque function"


def trained_literally(where: Place, jobs: Sequence[Job]) -> dict[int, Report]:
    """What stacks refuse is trained by inline, and remarked."""
    mine = [i for i, job in enumerate(jobs) if refuses(job.local)]
    if not mine:
        return {}
    for i in mine:
        why = refuses(jobs[i].local)
        assert why is not None
        where.literal[why] = where.literal.get(why, 0) + 1
    return dict(zip(mine, inline(where.task, threads=where.threads).train([jobs[i] for i in mine]), strict=True))


def _trained(where: Place, jobs: Sequence[Job]) -> Iterator[tuple[list[int], list[Begun], StackEnd]]:
    """The jobs that can be stacked, in stacks, trained, in an order that depends on the jobs alone."""
    stackable = [i for i, job in enumerate(jobs) if not refuses(job.local)]
    ready = []
    for i in stackable:
        with naming(jobs[i]):
            ready.append(begin(jobs[i]))
    for local, inside in grouped(ready):
        if not where.twins:
            task = at_width(where.task, local.width)
            ended = loop_ended(task, [ready[j] for j in inside], where.x, where.y, where.threads)
            yield from (([stackable[j]], [ready[j]], one) for j, one in zip(inside, ended, strict=True))
            continue
        stacks = _side_by_side if where.device.type == "cpu" else _one_by_one
        for places, ended in stacks(where, ready, inside):
            yield [stackable[j] for j in places], [ready[j] for j in places], ended


def _side_by_side(where: Place, ready: list[Begun], inside: list[int]) -> Iterator[tuple[list[int], StackEnd]]:
    """On a CPU: one stack per thread at a time, each thread with a twin of its own and one kernel thread."""
    most = max(1, min(where.most, -(-len(inside) // where.threads)))
    free: SimpleQueue[Twin] = SimpleQueue()
    for twin in where.twins_at(ready[inside[0]].local.width):
        free.put(twin)

    def one(part: list[int]) -> tuple[list[int], StackEnd]:
        twin = free.get()
        try:
            return part, train_stack(where, twin, [ready[j] for j in part])
        finally:
            free.put(twin)

    parts = list(chunks(ready, inside, most))
    if where.threads == 1 or len(parts) == 1:
        yield from map(one, parts)
        return
    with ThreadPoolExecutor(where.threads, initializer=alone_on_its_core) as pool:
        yield from pool.map(one, parts)


def _one_by_one(where: Place, ready: list[Begun], inside: list[int]) -> Iterator[tuple[list[int], StackEnd]]:
    """On an accelerator: one stack after the other, smaller ones when memory runs out."""
    waiting, twin = list(chunks(ready, inside, where.most)), where.twins_at(ready[inside[0]].local.width)[0]
    while waiting:
        part = waiting.pop(0)
        try:
            yield part, train_stack(where, twin, [ready[j] for j in part])
        except torch.OutOfMemoryError:
            if len(part) == 1:
                client = ready[part[0]].job.client
                raise RunFailed(f"client {client} alone does not fit into the memory of {where.device}") from None
            torch.cuda.empty_cache()
            where.most = max(1, len(part) // 2)
            waiting = [part[: where.most], part[where.most :], *waiting]


def train_stack(where: Place, twin: Twin, group: list[Begun]) -> StackEnd:
    """All stages of a stack, each from where the one before ended."""
    start = _starts(where, group)
    carried = stacked_slots(group, where.device)
    second, apart = dict(carried.memory.get(SECOND, {})), own_stages(group[0].local)
    others = {slot: tree for slot, tree in carried.memory.items() if slot != SECOND}
    seen = Carried(others if apart else carried.memory, carried.given)
    now, beside = start, {} if apart else second
    tallies: Tallies | None = None
    for number, _ in enumerate(group[0].local.stages()):
        done = _train_one_stage(where, twin, group, number, (now, start, seen, beside))
        now, beside = done.end, done.second
        tallies = done.tallies if tallies is None else tallies.add(done.tallies)
    for number, _ in apart:
        second = _train_one_stage(where, twin, group, number, (second, start, seen, {})).end
    assert tallies is not None
    return StackEnd(start, now, tallies, carried, second if apart else beside)


def _train_one_stage(
    where: Place, twin: Twin, group: list[Begun], number: int, stand: tuple[Tensors, Tensors, Carried, Tensors]
) -> Trained:
    """One stage of a stack, numbered in the whole work of its clients, from where they stand."""
    stages = [next(islice(begun.local.work(), number, None)) for begun in group]
    rates = np.array([begun.rate(stage) for begun, stage in zip(group, stages, strict=True)])
    plan = plan_stage([begun.job for begun in group], stages[0].batches, number)
    where.real += int(plan.sizes.sum())
    where.computed += plan.computed
    laid, x, y = at_hand(where, plan)
    work = _in_order(Work(stages[0], laid, *stand, rates), plan)
    try:
        done = where.graphs.train(twin, work, x, y) if where.graphs is not None else None
        return _put_back(done or train_stage(twin, work, x, y), plan)
    except ValueError as wrong:  # a batch that a layer cannot take
        small = _smallest(plan)
        raise RunFailed(f"client {small.client}, task {small.task}: local training failed: {wrong}") from wrong


def _smallest(plan: Schedule) -> Job:
    """Whose batch is the smallest."""
    large = np.iinfo(np.int64).max
    return plan.jobs[int(np.where(plan.sizes > 0, plan.sizes, large).min(0).argmin())]


def _in_order(work: Work, plan: Schedule) -> Work:
    """The work with its clients in the order of the schedule."""
    if plan.sorted_already:
        return work
    order = torch.from_numpy(plan.order).to(next(iter(work.begin.values())).device)
    move = lambda tree: {n: v if v.stride(0) == 0 else v[order] for n, v in tree.items()}  # noqa: E731
    carried = Carried({slot: move(tree) for slot, tree in work.carried.memory.items()}, move(work.carried.given))
    begin = move(work.begin)
    anchor = begin if work.anchor is work.begin else move(work.anchor)
    return Work(work.stage, work.schedule, begin, anchor, carried, move(work.second), work.rates[plan.order])


def _put_back(done: Trained, plan: Schedule) -> Trained:
    """The clients in the order in which they were given."""
    if plan.sorted_already:
        return done
    back = np.argsort(plan.order)
    at = torch.from_numpy(back).to(next(iter(done.end.values())).device)
    move = lambda tree: {n: v if v.stride(0) == 0 else v[at] for n, v in tree.items()}  # noqa: E731
    t = done.tallies
    return Trained(
        move(done.end), move(done.second), Tallies(t.loss[back], t.squared[back], t.seen[back], t.steps[back])
    )


def _starts(where: Place, group: Sequence[Begun]) -> Tensors:
    """What each client begins with, [clients, ..]; a model that all share is uploaded once and seen by each."""
    first = group[0].start
    if any(begun.start is not first for begun in group):
        return stack_trees([begun.start for begun in group], where.device)
    known = where.uploaded  # read once: other threads upload too
    if known is None or known[0] is not first:
        known = first, {n: torch.from_numpy(np.asarray(v)).to(where.device, copy=True) for n, v in first.items()}
        where.uploaded = known
    return {n: v.unsqueeze(0).expand(len(group), *v.shape) for n, v in known[1].items()}


def fold_jobs(
    where: Place, jobs: Sequence[Job], contexts: Sequence[Context], fold: Fold, server: ServerState
) -> Folded:
    """Train and add up on the device: the same integers as folding the reports one by one, and no report leaves it."""
    sums = DeviceSums(fold, fold.like(server), where.device)
    rejected: list[Rejected] = []
    rows: list[tuple[int, Mapping[str, float]]] = []
    memory: list[tuple[int, int, Slots]] = []  # task, client, slots
    for places, group, ended in _trained(where, jobs):
        lost = next((n for n in sums.scales if n not in group[0].local.sent(ended.end)), None)
        if lost is not None and not group[0].local.after:
            rejected += [_rejected(begun.job, f"leaf {lost!r} is missing") for begun in group]
            continue
        update, start, (weights, kept, peaks), norms = _what_goes_up(group, ended, list(sums.scales))
        stats = [stats_of(begun, ended.tallies, c, norms[c]) for c, begun in enumerate(group)]
        entries = [fold.enter(float(weights[c]), stats[c], contexts[i]) for c, i in enumerate(places)]
        reasons = sums.add(update, start, weights.tolist(), entries, peaks)
        for c, (begun, why) in enumerate(zip(group, reasons, strict=True)):
            if why:
                rejected.append(_rejected(begun.job, why))
                continue
            rows.append((begun.job.task, stats[c]))
            if kept:
                memory.append((begun.job.task, begun.job.client, resident(kept, c)))
    if sums.full:  # who is refused then depends on the order of the tasks, which stacks do not keep
        return _fold_reports(where, jobs, contexts, fold, server)
    other = trained_literally(where, jobs)
    literal = fold_in_order(fold, server, list(other.values()), [contexts[i] for i in other]) if other else None
    if literal is not None:
        rejected += literal.rejected
        rows += [(t, {n: float(v[k]) for n, v in literal.stats.items()}) for k, t in enumerate(literal.tasks.tolist())]
        taken = set(literal.tasks.tolist())
        memory += [(r.task, r.client, r.memory) for r in other.values() if r.task in taken and r.memory is not None]
    rows.sort(key=lambda row: row[0])
    try:
        whole = sums.close(None if literal is None else literal.accumulator)
    except Refused:  # both together are too much, and again the order of the tasks decides
        return _fold_reports(where, jobs, contexts, fold, server)
    remembered: dict[int, Slots] = {}
    for _, client, slots in sorted(memory, key=lambda row: row[0]):
        remembered[client] = {**remembered.get(client, {}), **slots}
    return Folded(
        whole,
        np.array([t for t, _ in rows], np.int64),
        stat_columns([found for _, found in rows]),
        tuple(sorted(rejected, key=lambda r: r.task)),
        remembered,
    )


def _rejected(job: Job, why: str) -> Rejected:
    return Rejected(job.task, job.client, f"client {job.client}: {why}")


def _fold_reports(
    where: Place, jobs: Sequence[Job], contexts: Sequence[Context], fold: Fold, server: ServerState
) -> Folded:
    """The same by way of reports, in the order of the tasks."""
    ready = {i: r for p, g, e in _trained(where, jobs) for i, r in zip(p, reports(g, e), strict=True)}
    ready |= trained_literally(where, jobs)
    return fold_in_order(fold, server, [ready[i] for i in range(len(jobs))], contexts)


def _what_goes_up(group: list[Begun], ended: StackEnd, names: list[str]):
    """A stack's updates, with (weights, memory, peaks) and norms; without hooks the difference is never written down."""
    local = group[0].local
    with torch.no_grad():
        if not local.after and local.up is None and not local.remembers():
            peaks, norms = changes(ended.end, ended.start, names, len(group))
            weights = np.array([weight_of(begun.job, local) for begun in group])
            return ended.end, ended.start, (weights, {}, peaks), norms
        plain = passed(group, ended)
        floating = [n for n, v in plain.update.items() if v.is_floating_point()]
        peaks, norms = changes(plain.update, None, floating, len(group))
        found = finished(group, plain)
        if local.after or local.up is not None or floating != names:
            peaks, _ = changes(found.update, None, names, len(group))
        return found.update, None, (found.weight, found.memory, peaks), norms


def train_cohort(where: Place, jobs: Sequence[Job]) -> list[Tensors]:
    """Train jobs and leave each client's parameters where they are: what the benchmark times."""
    found: dict[int, Tensors] = {}
    for places, group, ended in _trained(where, jobs):
        for c, (i, begun) in enumerate(zip(places, group, strict=True)):
            if ended.update is None:
                found[i] = {n: v[c] for n, v in ended.end.items()}
            else:
                found[i] = {n: torch.from_numpy(np.asarray(v)) + ended.update[n][c] for n, v in begun.start.items()}
    return [found[i] for i in range(len(jobs))]
