"""The executor itself: jobs become stacks, stacks become reports, or exact sums where they were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch

from fedfleet.core.aggregation import Fold
from fedfleet.core.errors import Refused
from fedfleet.core.parts import Executor, FoldResult, Job, Task, Trial
from fedfleet.core.records import Context, Rejection, Report, Score, ServerState, Slots
from fedfleet.executors.client_half import (
    PreparedJob,
    TrainedStack,
    apply_hooks_and_codec,
    reports,
    stack_update,
    stats_of,
    weight_of,
)
from fedfleet.executors.gather import fold_in_order, stat_columns
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.cohort import refusal_reason, train_stacks
from fedfleet.executors.stacked.device_sums import DeviceSums, changes
from fedfleet.executors.stacked.evaluation import score_trials
from fedfleet.executors.stacked.placement import Place, open_place
from fedfleet.executors.tensor_stacks import TORCH, device_slots


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
        for places, group, trained in train_stacks(place, jobs):
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


def fold_jobs(place: Place, jobs: Sequence[Job], contexts: Sequence[Context], fold: Fold, server: ServerState) -> FoldResult:
    """Train and add up on the device: the same integers as folding the reports one by one, and no report leaves it."""
    sums = DeviceSums(fold, fold.like(server), place.device)
    rejected: list[Rejection] = []
    rows: list[tuple[int, Mapping[str, float]]] = []
    memory: list[tuple[int, int, Slots]] = []  # task, client, slots
    for places, group, trained in train_stacks(place, jobs):
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
            (r.task, r.client, r.memory) for r in literal_reports.values() if r.task in folded_tasks and r.memory is not None
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


def _fold_reports(place: Place, jobs: Sequence[Job], contexts: Sequence[Context], fold: Fold, server: ServerState) -> FoldResult:
    """The same by way of reports, in the order of the tasks."""
    ready = {i: r for p, g, e in train_stacks(place, jobs) for i, r in zip(p, reports(g, e), strict=True)}
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
