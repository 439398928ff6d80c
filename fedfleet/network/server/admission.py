"""Admission of reports: a whole report is at a frontend and claims to be of a task; what becomes of it is decided here.

A grant is the arrival. What is known of a report until its commit (weight, statistics, reported cost, why it was rejected) is kept
here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedfleet.core import exact
from fedfleet.core.aggregation import Entry, entry_refusal
from fedfleet.core.commands import Account, Gather
from fedfleet.core.cost import ReportedCost, tasks_spent
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.events import ReportsGathered, ReportUnwanted, TaskArrived, TaskLost, TasksSpent
from fedfleet.core.parts import Plan
from fedfleet.core.records import Context, Floats, Ints, Wave
from fedfleet.engine.state import Ending, Phase, RunState, in_order_of_arrival, uncommitted_arrivals
from fedfleet.network.frontend.report_log import LogEntry, entry_from_bytes
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules import task_table
from fedfleet.network.rules.task_table import NO_FRONTEND, TaskTable, VerdictKind
from fedfleet.network.server.recovery import Rejections
from fedfleet.network.server.sample_limits import SampleLimits
from fedfleet.network.server.strikes import Fault, Strikes
from fedfleet.network.server.turns import Effects, Note, React, ReportMeta, Tell, TellNow, tell_withdrawn

_STATUS = {
    VerdictKind.GRANT: pb.Receipt.SAFE,
    VerdictKind.REGRANT: pb.Receipt.SAFE,
    VerdictKind.SAFE: pb.Receipt.SAFE,
    VerdictKind.RETRY: pb.Receipt.RETRY,
    VerdictKind.REFUSE: pb.Receipt.REFUSED,
    VerdictKind.BUSY: pb.Receipt.BUSY,
    VerdictKind.LATE: pb.Receipt.UNWANTED,
    VerdictKind.DUPLICATE: pb.Receipt.UNWANTED,
    VerdictKind.DECLINED: pb.Receipt.UNWANTED,
    VerdictKind.STRANGER: pb.Receipt.REFUSED,
}


_NO_SECONDS: Mapping[str, float] = {}  # one for all reports without any: a fleet's are many


class Admission:
    """The table of tasks, and what is known of the reports that came. Sums are added up on arrival if the run `streams`."""

    def __init__(self, plan: Plan, folder: Path, limits: SampleLimits, *, streams: bool, lease: float) -> None:
        self._plan, self._limits, self._lease, self.streams = plan, limits, lease, streams
        self.tasks = TaskTable()
        self.rejections = Rejections(folder / "refusals.jsonl")
        self.metas: dict[int, ReportMeta] = {}  # of arrived tasks that are not gathered
        self.costs: dict[int, ReportedCost] = {}  # of arrived tasks that are not accounted for
        self.weights: dict[tuple[int, int, str], int] = {}  # by frontend, bucket and sum, in units
        self._order = 0  # of the next grant in the run
        self.strike_count = 0  # since the start
        self.strikes = Strikes(folder / "strikes.jsonl")
        self.clipped = 0  # reports that count less than they claim

    # ---- what frontends report ---------------------------------------------------------------------------------------

    def on_claim(self, index: int, claim: inside.Claim, state: RunState, gathering: Gather | None, now: float) -> Effects:
        """Decide what becomes of a report that is at frontend `index`."""
        task = claim.task
        verdict = self.tasks.decide(
            task_table.Claim(task, claim.client, claim.crc32c, claim.nbytes, claim.weight, claim.fault, claim.declined, index), now
        )
        grant = inside.Grant(number=claim.number, status=_STATUS[verdict.kind], reason=verdict.reason, seconds=verdict.seconds)
        effects: Effects = []
        match verdict.kind:
            case VerdictKind.GRANT | VerdictKind.REGRANT:
                effects = self._grant(index, claim, grant, state, gathering, now, arrived=verdict.arrived)
            case VerdictKind.REFUSE:
                effects = [*self._reject(task, verdict.reason, claim.nbytes, state, now), tell_withdrawn([task])]
            case VerdictKind.DECLINED:
                if task in state.running:
                    effects.append(self._lost(task, state, f"its device declined: {verdict.reason}", now))
                effects.append(tell_withdrawn([task]))
            case VerdictKind.LATE | VerdictKind.DUPLICATE if state.phase is Phase.DONE:
                # The journal has ended: nothing may follow its last event.
                pass
            case VerdictKind.LATE | VerdictKind.DUPLICATE:
                lateness = "late" if verdict.kind is VerdictKind.LATE else "again"
                size = claim.nbytes * self._plan.byte_scale
                # That frontend may still hand the task out.
                effects.append(tell_withdrawn([task], frontend=index))
                effects.append(React(ReportUnwanted(now, task, claim.client, size, lateness)))
            case VerdictKind.STRANGER:
                self.strike_count += 1
            case VerdictKind.SAFE:
                effects.append(tell_withdrawn([task], frontend=index))
            case VerdictKind.RETRY:
                reason = claim.fault or f"its weight is {claim.weight:g}"
                self.strikes.on_fault(Fault(task, claim.crc32c, claim.nbytes, reason))
            case VerdictKind.BUSY:
                pass
        effects.append(Tell(inside.ToTransmitter(grants=[grant]), index))
        return effects

    def on_strikes(self, clients: list[int], now: float) -> None:
        """Frontends refused uploads of these clients, which no honest device sends."""
        self.strike_count += len(clients)
        self.strikes.on_strikes(clients, now)

    def on_safe(self, index: int, tasks: list[int]) -> Effects:
        """The reports of these tasks are on the disk of a frontend: the others must not hand the tasks out again."""
        self.tasks.mark_safe(tasks)
        return [tell_withdrawn(tasks, but=index)]

    def on_frontend_start(self, index: int, ready: inside.Ready, state: RunState, now: float) -> Effects:
        """A frontend says what its disk holds: that is safe, and what it lacks may be granted again."""
        effects: Effects = [Note(damage) for damage in ready.damages]
        open_buckets = {current_bucket(state), state.book.round}
        stored: list[int] = []
        stale_buckets: list[int] = []
        # What it lost weighs nothing.
        self.weights = {key: units for key, units in self.weights.items() if key[0] != index}
        arrived_waves = {ending.task: ending.wave for ending in uncommitted_arrivals(state)}
        for part in ready.found:
            entries = [entry_from_bytes(data) for data in part.entries] if part.bucket in open_buckets else []
            arrivals = self._adopt(index, entries, state, now) if part.bucket in open_buckets else None
            if arrivals is None:
                stale_buckets.append(part.bucket)
                if entries:
                    effects.append(
                        Note(
                            f"frontend {index} held {len(entries)} reports of a round that is missing in the journal; they are lost"
                        )
                    )
                continue
            effects += arrivals
            for entry in entries:
                stored.append(entry.task)
                self._order = max(self._order, entry.order + 1)
                names, values = entry.names[entry.stats :], entry.values[entry.stats :]
                cost = ReportedCost(entry.nbytes * self._plan.byte_scale, dict(zip(names, values, strict=True)))
                wave = state.running[entry.task] if entry.task in state.running else arrived_waves[entry.task]
                meta = self._meta(wave, entry.task, entry.weight, entry.names[: entry.stats], entry.values[: entry.stats])
                self.metas.setdefault(entry.task, meta)
                self.costs.setdefault(entry.task, cost)
                self._add_weight((index, part.bucket, entry.sum), entry.weight)
        self.tasks.release(index, stored)
        if stale_buckets:
            # At once: what is granted in this turn may go to a bucket of the same number.
            effects.append(TellNow(inside.ToTransmitter(discard=stale_buckets), index))
        return [*effects, tell_withdrawn(stored, but=index)]

    def on_all_frontends_ready(self) -> None:
        """What no frontend found on its disk was lost, and may be granted again."""
        self.tasks.release(NO_FRONTEND, ())

    def on_time(self, state: RunState, now: float) -> Effects:
        """Leases that are over: a task of which nothing came is lost, a faulty report counts as arrived and is rejected."""
        due = self.tasks.next_expiry()
        if due is None or due > now:
            return []
        lost, rejected = self.tasks.expire(now)
        why = f"no report came within its lease of {self._lease:g} s"
        effects: Effects = [self._lost(task, state, why, now) for task in lost if task in state.running]
        for end in rejected:
            effects += self._reject(end.task, end.reason, end.nbytes, state, now)
        return [*effects, tell_withdrawn([*lost, *(end.task for end in rejected)])]

    # ---- what the coordinator decided --------------------------------------------------------------------------------

    def on_send(self, wave: Wave) -> None:
        """A wave goes out."""
        self.tasks.send(wave.first, wave.assignments.clients, self._limits.of(wave).heaviest, wave.time + self._lease)

    def on_forget(self, tasks: list[int]) -> None:
        """These tasks were given up."""
        self.tasks.withdraw(tasks)
        self.rejections.forget(tasks)
        self.strikes.forget(tasks)
        for task in tasks:
            self.metas.pop(task, None)

    def on_bucket_end(self, bucket: int) -> None:
        """The commit of a bucket is made, or will never be."""
        self.weights = {key: units for key, units in self.weights.items() if key[1] != bucket}

    def on_commit_start(self, tasks: list[int]) -> None:
        """The sums with these were handed in: whatever becomes of their frontends, they will be settled."""
        self.tasks.hand_in(tasks)

    def on_commit_end(self, command: Gather, fact: ReportsGathered) -> None:
        """A gathering is over."""
        self.tasks.settle(fact.tasks.tolist(), folded=True)
        self.tasks.settle([r.task for r in fact.rejected], folded=False)
        for task in command.tasks:
            self.metas.pop(task, None)
        self.rejections.forget(command.tasks)
        self.strikes.forget(command.tasks)

    def account(self, command: Account, now: float) -> TasksSpent:
        """What devices reported that these tasks cost them."""
        return tasks_spent(command, [self.costs.pop(task, None) for task in command.tasks], now)

    # ---- after a kill ------------------------------------------------------------------------------------------------

    def restore_running(self, tasks: Ints, clients: Ints, heaviest: Floats, now: float) -> None:
        """These tasks ran when the server was killed; their leases begin anew."""
        self.tasks.reopen(task_table.Phase.OPEN, tasks, clients, heaviest, now + self._lease)

    def restore_strikes(self, state: RunState, now: float) -> None:
        """What devices had sent wrongly holds on: a task has the tries that were left, a client its strikes."""
        for fault in self.strikes.restore(lambda task: task in state.running, now):
            self.tasks.strike_again(fault.task, fault.crc32c, fault.nbytes, fault.reason)

    def restore_arrived(self, endings: Iterable[Ending], next_task: int, now: float) -> None:
        """The reports of these tasks had arrived: they were rejected, or must be found on a frontend's disk."""
        endings = list(endings)
        self.tasks.set_next_task(next_task)
        self.rejections.keep_only(e.task for e in endings)
        for phase in (task_table.Phase.GRANTED, task_table.Phase.REFUSED):
            is_rejected = phase is task_table.Phase.REFUSED
            group = [e for e in endings if (e.task in self.rejections.reasons) is is_rejected]
            if group:
                tasks = np.array([e.task for e in group], np.int64)
                clients = np.array([e.wave.assignments.clients[e.task - e.wave.first] for e in group], np.int64)
                heaviest = np.array([self._limits.of(e.wave).heaviest[e.task - e.wave.first] for e in group])
                self.tasks.reopen(phase, tasks, clients, heaviest, now + self._lease)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _grant(
        self, index: int, claim: inside.Claim, grant: inside.Grant, state: RunState, gathering: Gather | None, now: float,
        *, arrived: bool,
    ) -> Effects:  # fmt: skip
        task, effects = claim.task, Effects()
        if arrived:  # what was journalled of its arrival holds
            ending, bucket = _find_ending(state, task)
            wave, seconds = ending.wave, ending.seconds
        else:
            wave, bucket = state.running[task], current_bucket(state)
            seconds = now - wave.time
        counted = float(self._limits.of(wave).counted[task - wave.first])
        self.clipped += claim.weight > counted
        meta = self._meta(wave, task, min(claim.weight, counted), claim.names[: claim.stats], claim.values[: claim.stats])
        entry, refusal = Entry(meta.weight), None
        if self.streams:
            context = self._context(task, wave, bucket, seconds, state, gathering)
            entry, refusal = self._fold_entry(meta, context, bucket)
        if refusal is None:
            grant.granted, grant.bucket, grant.weight, grant.factor = True, bucket, entry.weight, entry.factor
            grant.sum, grant.time, grant.order = entry.sum, now, self._order
            self._order += 1
            self._add_weight((index, bucket, entry.sum), entry.weight)
        else:
            self.tasks.settle([task], folded=False)
            self.rejections.add(task, f"client {claim.client}: {refusal}")
            grant.status, grant.reason = pb.Receipt.REFUSED, refusal
            effects.append(tell_withdrawn([task]))
        self.metas[task] = meta
        names, stage_seconds = _interned_names(tuple(claim.names[claim.stats :])), claim.values[claim.stats :]
        size = (claim.decoded_nbytes or claim.nbytes) * self._plan.byte_scale
        self.costs[task] = ReportedCost(size, dict(zip(names, stage_seconds, strict=True)) if names else _NO_SECONDS)
        if not arrived:
            effects.append(_arrival(task, wave, size, now))
        return effects

    def _meta(self, wave: Wave, task: int, weight: float, names: Sequence[str], values: Sequence[float]) -> ReportMeta:
        """What is known of a report: it trained on no more samples than its client holds."""
        most = float(self._limits.of(wave).samples[task - wave.first])
        bounded = (min(value, most) if name == "samples" else value for name, value in zip(names, values, strict=True))
        return ReportMeta(weight, _interned_names(tuple(names)), tuple(bounded))

    def _fold_entry(self, meta: ReportMeta, context: Context, bucket: int) -> tuple[Entry, str | None]:
        """How a report enters the sums, or why it may not."""
        fold = self._plan.algorithm.fold
        try:
            entry = fold.enter(meta.weight, meta.stats(), context)
        except Refused as error:
            return Entry(meta.weight), str(error)
        fault = entry_refusal(fold, entry)
        if fault:
            return entry, fault
        # Together with what was granted before, in all frontends.
        total_units = exact.weight_units(entry.weight) + sum(
            units for (_, b, name), units in self.weights.items() if b == bucket and name == entry.sum
        )
        limit = fold.total_weight
        if total_units <= limit * 2.0**60:
            return entry, None
        return entry, (
            f"with its weight {entry.weight:g} those of one commit would exceed {limit:g}; raise the fold's total_weight"
        )

    def _context(self, task: int, wave: Wave, bucket: int, seconds: float, state: RunState, gathering: Gather | None) -> Context:
        """What its commit will know of a report: also of one that comes while the commit before is still being made."""
        version = state.book.version
        if gathering is not None and bucket > state.book.round:
            version += will_commit(self._plan, gathering, self.rejections.reasons)
        slot = task - wave.first
        settings = {name: float(column[slot]) for name, column in wave.assignments.settings.items()}
        return Context(version - wave.version, seconds, int(wave.assignments.clients[slot]), settings, task)

    def _adopt(self, index: int, entries: list[LogEntry], state: RunState, now: float) -> Effects | None:
        """Does the journal know of these reports (else None)? If its end was lost, those that it still waits for arrive now."""
        arrived_tasks = {ending.task for ending in uncommitted_arrivals(state)}
        if any(entry.task not in state.running and entry.task not in arrived_tasks for entry in entries):
            return None
        effects: Effects = []
        for entry in entries:
            if entry.task in state.running:
                self.tasks.decide(
                    task_table.Claim(entry.task, entry.client, entry.crc32c, entry.nbytes, entry.weight, frontend=index), now
                )
                size = entry.nbytes * self._plan.byte_scale
                effects.append(_arrival(entry.task, state.running[entry.task], size, now))
        return effects

    def _add_weight(self, key: tuple[int, int, str], weight: float) -> None:
        self.weights[key] = self.weights.get(key, 0) + exact.weight_units(weight)

    def _reject(self, task: int, why: str, nbytes: int, state: RunState, now: float) -> Effects:
        """A report that counts as arrived, and weighs nothing."""
        self.rejections.add(task, f"client {self.tasks.client(task)}: {why}")
        wave = state.running.get(task)
        return [] if wave is None else [_arrival(task, wave, nbytes * self._plan.byte_scale, now)]

    def _lost(self, task: int, state: RunState, why: str, now: float) -> React:
        wave = state.running[task]
        client = int(wave.assignments.clients[task - wave.first])
        return React(TaskLost(now, task, client, now - wave.time, why))


@lru_cache(maxsize=256)
def _interned_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same names as one object for all reports: each message brings strings of its own, and a fleet's reports are many."""
    return names


def _arrival(task: int, wave: Wave, nbytes: float, now: float) -> React:
    client = int(wave.assignments.clients[task - wave.first])
    return React(TaskArrived(now, task, client, now - wave.time, nbytes))


def current_bucket(state: RunState) -> int:
    """The bucket that a report goes to that arrives now: one for each round, and while one is gathered, the next."""
    return state.book.round + (state.phase is Phase.GATHERING)


def _find_ending(state: RunState, task: int) -> tuple[Ending, int]:
    """How a task ended whose report arrived, and the bucket that it belongs to."""
    for chain, bucket in ((state.gathering, state.book.round), (state.ended, current_bucket(state))):
        for ending in in_order_of_arrival(chain):
            if ending.task == task:
                return ending, bucket
    raise RunFailed(f"internal error: the report of task {task} was accepted twice; please report this")


def will_commit(plan: Plan, command: Gather, refusals: Mapping[int, str]) -> bool:
    """Is it certain that this gathering makes a model? Only for folds that stream: what they refuse is known beforehand."""
    remaining = sum(task not in refusals for task in command.tasks)
    return remaining >= max(1, plan.algorithm.fold.least)
