"""Jobs trained and added up where they are trained: stacks become exact sums, and no report leaves the device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

import numpy as np
import torch

from fedfleet.core.aggregation import Fold, joint_parts
from fedfleet.core.decoders import StackDecoder
from fedfleet.core.errors import Refused
from fedfleet.core.parts import FoldResult, Job
from fedfleet.core.records import Context, Rejection, Report, ServerState, Slots
from fedfleet.executors.client_half import (
    PreparedJob,
    TrainedStack,
    apply_hooks_and_codec,
    reports,
    stack_update,
    stats_of,
    weight_of,
)
from fedfleet.executors.gather import Accept, fold_in_order, stat_columns
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.cohort import refusal_reason, train_stacks, use_stacks
from fedfleet.executors.stacked.device_sums import DeviceSums, changes, floating_names
from fedfleet.executors.stacked.early_start import Stacks
from fedfleet.executors.stacked.placement import Place
from fedfleet.executors.tensor_stacks import TORCH, Tensors, split_slots


@dataclass(frozen=True, slots=True)
class FoldedStack:
    """One stack after it was added up: statistics by task, who was refused, and what clients remember (task, client, slots)."""

    rows: list[tuple[int, Mapping[str, float]]]
    rejected: list[Rejection]
    memory: list[tuple[int, int, Slots]]


def fold_jobs(
    place: Place,
    jobs: Sequence[Job],
    contexts: Sequence[Context],
    fold: Fold,
    server: ServerState,
    decode: StackDecoder | None = None,
    stacks: Stacks | None = None,
) -> FoldResult:
    """Train and add up on the device: the same integers as folding the reports one by one, and no report leaves it.

    On a CPU every thread adds into sums of its own as soon as it has trained a stack. `stacks` have begun already.
    """
    like = fold.like(server)
    all_sums, spare = [DeviceSums(fold, like, place.device)], SimpleQueue[DeviceSums]()
    spare.put(all_sums[0])

    def fold_stack(places: list[int], group: list[PreparedJob], trained: TrainedStack) -> FoldedStack:
        try:
            sums = spare.get_nowait()
        except Empty:
            sums = DeviceSums(fold, like, place.device)
            all_sums.append(sums)
        try:
            return _add_stack(sums, fold, group, trained, [contexts[i] for i in places], server, decode)
        finally:
            spare.put(sums)

    if stacks is None and place.device.type == "cpu":
        folded = list(use_stacks(place, jobs, fold_stack))
    else:  # outside of the training, which begins a stack again where memory runs out
        folded = [fold_stack(*trained) for trained in (train_stacks(place, jobs) if stacks is None else stacks)]
    rejected = [rejection for stack in folded for rejection in stack.rejected]
    rows = [row for stack in folded for row in stack.rows]
    memory = [kept for stack in folded for kept in stack.memory]
    sums = all_sums[0]
    for other in all_sums[1:]:
        sums.absorb(other)
    accept = None if decode is None else _decode_alone(decode)
    if any(each.full for each in all_sums):  # who is refused then depends on the order of the tasks, which stacks do not keep
        return _fold_reports(place, jobs, contexts, fold, server, accept)
    literal_reports = train_unstackable(place, jobs)
    literal = (
        fold_in_order(fold, server, list(literal_reports.values()), [contexts[i] for i in literal_reports], accept)
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
        return _fold_reports(place, jobs, contexts, fold, server, accept)
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


def _add_stack(
    sums: DeviceSums,
    fold: Fold,
    group: list[PreparedJob],
    trained: TrainedStack,
    contexts: list[Context],
    server: ServerState,
    decode: StackDecoder | None,
) -> FoldedStack:
    """Check and add one stack."""
    result = FoldedStack([], [], [])
    try:
        uploads = _stack_uploads(group, trained, list(sums.scales), server, decode, contexts)
    except Refused as error:  # all of them sent the same names and shapes
        return FoldedStack([], [_rejection(begun.job, str(error)) for begun in group], [])
    update, start, (weights, slots, peaks), norms, parts = uploads
    tallies = trained.tallies.on_host()
    stats = [stats_of(begun, tallies, c, norms[c]) for c, begun in enumerate(group)]
    entries = [fold.enter(float(weights[c]), stats[c], context) for c, context in enumerate(contexts)]
    if parts is not None:
        entries = [entry._replace(parts=joint_parts(entry.parts, parts)) for entry in entries]
    reasons = sums.add(update, start, weights.tolist(), entries, peaks)
    for c, (prepared, why) in enumerate(zip(group, reasons, strict=True)):
        if why:
            result.rejected.append(_rejection(prepared.job, why))
            continue
        result.rows.append((prepared.job.task, stats[c]))
        if slots:
            result.memory.append((prepared.job.task, prepared.job.client, slots[c]))
    return result


def _rejection(job: Job, why: str) -> Rejection:
    return Rejection(job.task, job.client, f"client {job.client}: {why}")


def _decode_alone(decode: StackDecoder) -> Accept:
    """The same for one report, here."""

    def accept(server: ServerState, report: Report, context: Context) -> Report:
        stack = {n: torch.from_numpy(np.asarray(v)).unsqueeze(0) for n, v in report.update.items()}
        update, parts = decode(server, stack, [context])
        return replace(report, update={n: v[0].numpy() for n, v in update.items()}, parts=parts)

    return accept


def _fold_reports(
    place: Place, jobs: Sequence[Job], contexts: Sequence[Context], fold: Fold, server: ServerState, accept: Accept | None
) -> FoldResult:
    """The same by way of reports, in the order of the tasks."""
    ready = {i: r for p, g, e in train_stacks(place, jobs) for i, r in zip(p, reports(g, e), strict=True)}
    ready |= train_unstackable(place, jobs)
    return fold_in_order(fold, server, [ready[i] for i in range(len(jobs))], contexts, accept)


def _stack_uploads(
    group: list[PreparedJob],
    trained: TrainedStack,
    names: list[str],
    server: ServerState,
    decode: StackDecoder | None,
    contexts: Sequence[Context],
):
    """A stack's updates, with (weights, memory, peaks), norms and parts; without hooks the difference is never written down.

    Refused where nothing of this stack can be folded.
    """
    local = group[0].local
    with torch.no_grad():
        if not local.after and local.up is None and not local.remembers() and decode is None:
            _require_leaves(names, local.sent_names(trained.end if trained.update is None else trained.update))
            end, start = _update_in_place(trained, names)
            peaks, norms = changes(end, start, names, len(group)).read()
            weights = np.array([weight_of(prepared.job, local) for prepared in group])
            return end, start, (weights, [], peaks), norms, None
        before_hooks = stack_update(group, trained)
        floating = floating_names(before_hooks.update)
        moved = changes(before_hooks.update, None, floating, len(group))
        uploads = apply_hooks_and_codec(group, before_hooks, TORCH)
        update, parts = (uploads.update, None) if decode is None else decode(server, uploads.update, contexts)
        _require_leaves(names, update)
        same = not local.after and local.up is None and decode is None and floating == names
        arrived = moved if same else changes(update, None, names, len(group))
        slots = split_slots(uploads.memory, len(group)) if uploads.memory else []  # before anybody waits for the device
        _, norms = moved.read()
        peaks, _ = arrived.read()
        return update, None, (uploads.weight, slots, peaks), norms, parts


def _update_in_place(trained: TrainedStack, names: list[str]) -> tuple[Tensors, Tensors | None]:
    """Ends and starts of these leaves; on a CPU updates alone, written over the ends, which nobody needs any more.

    A processor would need several passes over memory of its own for the difference; an accelerator takes it on the way.
    """
    if trained.update is not None:
        return dict(trained.update), None
    end, start = trained.end, trained.start
    if any(end[n].device.type != "cpu" for n in names):
        return dict(end), dict(start)
    update: Tensors = {}
    for n in names:
        own = end[n].untyped_storage().data_ptr() != start[n].untyped_storage().data_ptr() and end[n].is_contiguous()
        update[n] = end[n].sub_(start[n]) if own else end[n] - start[n]
    return update, None


def _require_leaves(names: Sequence[str], sent: Collection[str]) -> None:
    missing = next((n for n in names if n not in sent), None)
    if missing is not None:
        raise Refused(f"leaf {missing!r} is missing")


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
