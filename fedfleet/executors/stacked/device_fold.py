"""Jobs trained and added up where they are trained: stacks become exact sums, and no report leaves the device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

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
from fedfleet.executors.stacked.cohort import refusal_reason, train_stacks
from fedfleet.executors.stacked.device_sums import DeviceSums, changes
from fedfleet.executors.stacked.early_start import Stacks
from fedfleet.executors.stacked.placement import Place
from fedfleet.executors.tensor_stacks import TORCH, split_slots


def fold_jobs(
    place: Place,
    jobs: Sequence[Job],
    contexts: Sequence[Context],
    fold: Fold,
    server: ServerState,
    decode: StackDecoder | None = None,
    stacks: Stacks | None = None,
) -> FoldResult:
    """Train and add up on the device: the same integers as folding the reports one by one, and no report leaves it."""
    sums = DeviceSums(fold, fold.like(server), place.device)
    rejected: list[Rejection] = []
    rows: list[tuple[int, Mapping[str, float]]] = []
    memory: list[tuple[int, int, Slots]] = []  # task, client, slots
    for places, group, trained in train_stacks(place, jobs) if stacks is None else stacks:
        try:
            uploads = _stack_uploads(group, trained, list(sums.scales), server, decode, [contexts[i] for i in places])
        except Refused as error:  # all of them sent the same names and shapes
            rejected += [_rejection(begun.job, str(error)) for begun in group]
            continue
        update, start, (weights, slots, peaks), norms, parts = uploads
        tallies = trained.tallies.on_host()
        stats = [stats_of(begun, tallies, c, norms[c]) for c, begun in enumerate(group)]
        entries = [fold.enter(float(weights[c]), stats[c], contexts[i]) for c, i in enumerate(places)]
        if parts is not None:
            entries = [entry._replace(parts=joint_parts(entry.parts, parts)) for entry in entries]
        reasons = sums.add(update, start, weights.tolist(), entries, peaks)
        for c, (prepared, why) in enumerate(zip(group, reasons, strict=True)):
            if why:
                rejected.append(_rejection(prepared.job, why))
                continue
            rows.append((prepared.job.task, stats[c]))
            if slots:
                memory.append((prepared.job.task, prepared.job.client, slots[c]))
    accept = None if decode is None else _decode_alone(decode)
    if sums.full:  # who is refused then depends on the order of the tasks, which stacks do not keep
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
            _require_leaves(names, local.sent_names(trained.end))
            peaks, norms = changes(trained.end, trained.start, names, len(group)).read()
            weights = np.array([weight_of(prepared.job, local) for prepared in group])
            return trained.end, trained.start, (weights, [], peaks), norms, None
        before_hooks = stack_update(group, trained)
        floating = [n for n, v in before_hooks.update.items() if v.is_floating_point()]
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
