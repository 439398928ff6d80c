"""The processor: the very coordinator of the simulation, fed by devices. One thread, one loop, short turns.

In a turn everything that came is judged and stepped; then the journal is flushed, and only then does anything leave: whatever a
transmitter does, its cause is on the disk. Slow work (making a model, judging it, writing checkpoints) is done beside the loop.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.core import exact
from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Event,
    Fact,
    ReportsGathered,
    ReportUnwanted,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TimerFired,
)
from fedfleet.core.folding import Entry, entry_refusal
from fedfleet.core.records import FOLDED, Context, Wave
from fedfleet.engine.asking import asked_in_this_round
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.pending import pending
from fedfleet.engine.state import Ending, Phase, RunState, in_order_of_arrival
from fedfleet.runtime.acting import carry_out
from fedfleet.runtime.foreseen import roster_of
from fedfleet.runtime.waiting import engaged
from fedfleet.runtime.wire import fleet_pb2 as pb
from fedfleet.runtime.wire import inside_pb2 as inside
from fedfleet.runtime.wire.costs import Said, spent_as_said
from fedfleet.runtime.wire.desk.presence import Presence, ask_ready, askable, look_again
from fedfleet.runtime.wire.desk.tasks import NOBODY, Claimed, Kind, Tasks
from fedfleet.runtime.wire.desk.tasks import Phase as TaskPhase
from fedfleet.runtime.wire.entries import Entered, entry_from
from fedfleet.runtime.wire.gathering import Bucket, Told, gathered, will_commit
from fedfleet.runtime.wire.judgement import Judgement
from fedfleet.runtime.wire.judging.asking import judges
from fedfleet.runtime.wire.offering import Offering
from fedfleet.runtime.wire.options import Serve
from fedfleet.runtime.wire.refusals import Refusals
from fedfleet.runtime.wire.saving import Saving
from fedfleet.runtime.wire.security.enrolment import Admitted
from fedfleet.runtime.wire.security.secrets import secret_of, signed
from fedfleet.runtime.wire.served import Served, codecs_of
from fedfleet.runtime.wire.tending import Tending

_STATUS = {
    Kind.GRANT: pb.Receipt.SAFE, Kind.REGRANT: pb.Receipt.SAFE, Kind.SAFE: pb.Receipt.SAFE, Kind.RETRY: pb.Receipt.RETRY,
    Kind.REFUSE: pb.Receipt.REFUSED, Kind.BUSY: pb.Receipt.BUSY, Kind.LATE: pb.Receipt.UNWANTED,
    Kind.AGAIN: pb.Receipt.UNWANTED, Kind.DECLINED: pb.Receipt.UNWANTED, Kind.STRANGER: pb.Receipt.REFUSED,
}  # fmt: skip
_REVOCATIONS_SECONDS = 1.0
_SHOWN = 3  # clients that a sentence names


def bucket_of(state: RunState) -> int:
    """The bucket that a report goes to that arrives now: one for each round, and while one is gathered, the next."""
    return state.book.round + (state.phase is Phase.GATHERING)


class Processor:
    """The mutable side of a served run. Its loop alone touches it."""

    def __init__(
        self, served: Served, options: Serve, state: RunState, *, at: float = 0.0, gatherings: int = 0
    ) -> None:
        self.served, self.options, self.state = served, options, state
        self.plan, self.world = served.plan, served.world
        n = self.plan.clients
        self.streams = options.streaming and self.plan.algorithm.fold.streams and self.plan.algorithm.accept is None
        self.codecs = codecs_of(self.plan)
        self.tasks, self.presence = Tasks(), Presence(n, hold=options.hold_seconds)
        self.busy = np.zeros(n, np.bool_)
        self.memory_task = np.full(n, -1, np.int64)
        self.told: dict[int, Told] = {}  # of arrived tasks that are not gathered
        self.said: dict[int, Said] = {}  # of arrived tasks that are not accounted for
        self.weights: dict[tuple[int, str], int] = {}  # by bucket and sum, in units
        self.refusals = Refusals(served.folder / "wire" / "refusals.jsonl")
        self.gatherings = gatherings  # how many there were
        self.gathering: Gather | None = None
        self.closing: dict[int, inside.Closed] | None = None  # by transmitter, while a bucket is being closed
        self.timer: float | None = None
        self.asked_at: float | None = None
        self.tending: Tending | None = None
        self.offering = Offering(served, options)
        self.judgement = Judgement(self)
        self.saving = Saving(served, options)
        self.facts: deque[Fact] = deque()
        self.inbox: deque[Callable[[], None]] = deque()
        self.order = 0
        self.counters: dict[int, dict[str, float]] = {}
        self.strikes = 0
        self.ended: str = ""
        self.done: asyncio.Future[None] | None = None
        self.worker = ThreadPoolExecutor(1, "fedfleet-commit")
        self.hear_of: Callable[[Sequence[Event]], None] | None = served.watch
        self._start = time.monotonic() - at
        self._began = time.monotonic()
        self._scheduled = False
        self._handle: asyncio.TimerHandle | None = None
        self._jobs: set[asyncio.Task[Any]] = set()
        self._revocations = 0.0
        self._flushed = True

    # ---- the clock and the loop -----------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the run began, on the monotonic clock; the time that a killed server was away does not count."""
        return max(time.monotonic() - self._start, self.state.book.now)

    def soon(self, work: Callable[[], None] | None = None) -> None:
        """Do this in the next turn, and let there be one."""
        if work is not None:
            self.inbox.append(work)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def beside(self, work: Any) -> None:
        """Let something happen beside the loop; if it fails, the run does."""
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        job.add_done_callback(self._failed)

    def _failed(self, job: asyncio.Task[Any]) -> None:
        if not job.cancelled() and job.exception() is not None:
            self.fail(job.exception())

    def fail(self, wrong: BaseException | None) -> None:
        """The run cannot go on."""
        if self.done is not None and not self.done.done() and wrong is not None:
            self.done.set_exception(wrong)

    def _turn(self) -> None:
        self._scheduled = False
        if self.done is not None and self.done.done():
            return
        try:
            while self.inbox:
                self.inbox.popleft()()
            self._react_all()
            self._look()
            self._close_turn()
        except BaseException as wrong:
            self.fail(wrong)
            if not isinstance(wrong, Exception):
                raise

    def _close_turn(self) -> None:
        """Everything that was decided is on the disk; now it may leave."""
        if not self._flushed and self.options.durable:
            self.served.journal.flush()
        self._flushed = True
        self.saving.settled(self)
        assert self.tending is not None
        self.tending.send()
        self._plan_next()

    def _plan_next(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        moments = [
            m
            for m in (self.timer, self.tasks.next_expiry(), self.judgement.until(), self._ask_moment())
            if m is not None
        ]
        pause = min([m - self.now() for m in moments if m < math.inf], default=1.0)
        self._handle = asyncio.get_running_loop().call_later(min(max(pause, 0.0), 1.0), self.soon)

    def _ask_moment(self) -> float | None:
        if not self._asking() or self.asked_at is None:
            return None
        return look_again(asked_at=self.asked_at, now=self.now(), patience=self.options.patience)

    # ---- facts ----------------------------------------------------------------------------------------------------

    def react(self, fact: Fact) -> None:
        """Let the coordinator hear of a fact, and carry out what it asks."""
        was = self.state.phase
        self.state, outcomes, commands = step(self.plan, self.state, fact)
        self.tell((fact, *outcomes))
        for outcome in outcomes:
            if isinstance(outcome, RoundFailed) and was is not Phase.GATHERING:
                self._discard(outcome.round)
        for command in commands:
            carry_out(self, command)

    def tell(self, events: Sequence[Event]) -> None:
        """Journal events, and say them to whoever watches."""
        self.served.journal.append(events)
        self._flushed = False
        if self.hear_of is not None:
            self.hear_of(events)

    def remark(self, text: str) -> None:
        """Something that people should find in the journal."""
        self.served.journal.remark(text)
        self._flushed = False

    def _react_all(self) -> None:
        while self.facts and self.state.phase is not Phase.DONE:
            self.react(self.facts.popleft())

    def _look(self) -> None:
        """What time alone brings: wake-ups, leases, the end of somebody's patience."""
        now = self.now()
        if self.timer is not None and self.timer <= now:
            moment, self.timer = max(self.timer, self.state.book.now), None
            self.react(TimerFired(moment))
        self._expire(now)
        self.judgement.look(now)
        self._react_all()
        if self._asking() and self.state.phase is Phase.OPEN:
            self._answer_ask()
            self._react_all()
        if now >= self._revocations:
            self._revocations = now + _REVOCATIONS_SECONDS
            self._revoke(self.served.registry.changed())

    def _expire(self, now: float) -> None:
        due = self.tasks.next_expiry()
        if due is None or due > now:
            return
        lost, over = self.tasks.expire(now)
        for task in lost:
            wave = self.state.running.get(task)
            if wave is not None:
                why = f"no report came within its lease of {self.options.lease:g} s"
                self._lose(task, wave, why)
        for end in over:
            self._reject(end.task, end.reason, end.nbytes)
        self._withdraw([*lost, *(end.task for end in over)])
        self._try_close()

    def _lose(self, task: int, wave: Wave, why: str) -> None:
        client, now = int(wave.asked.clients[task - wave.first]), self.now()
        self.busy[client] = False
        self.react(TaskLost(now, task, client, now - wave.time, why))

    def _reject(self, task: int, why: str, nbytes: int) -> None:
        """A report that counts as arrived, and weighs nothing."""
        wave = self.state.running.get(task)
        client = self.tasks.client(task)
        self.refusals.add(task, f"client {client}: {why}")
        if wave is not None:
            self._arrive(task, wave, nbytes * self.plan.byte_scale)

    def _arrive(self, task: int, wave: Wave, nbytes: float) -> None:
        client, now = int(wave.asked.clients[task - wave.first]), self.now()
        self.busy[client] = False
        self.react(TaskArrived(now, task, client, now - wave.time, nbytes))

    # ---- candidates -----------------------------------------------------------------------------------------------

    def _asking(self) -> bool:
        return self.state.book.asking and self.state.probe is None and not self.ended

    def _answer_ask(self) -> None:
        now, state = self.now(), self.state
        if self.asked_at is None:
            self.asked_at = now
        busy = engaged(self.plan, state, self.busy).copy()
        if state.others:
            busy[asked_in_this_round(state)] = True
        present = self.presence.present(now)
        idle = askable(present, busy)
        away = int((busy & ~present).sum())
        if not len(idle) and not away and not state.next_task:
            self.asked_at = now  # nobody has come yet: patience begins with the first
        ready = ask_ready(
            present=len(idle), busy=int(busy.sum()), declared=self.options.devices, at_least=state.at_least,
            asked_at=self.asked_at, now=now, patience=self.options.patience,
        )  # fmt: skip
        if ready is None:
            return
        if ready.short:
            here = len(idle) + int(busy.sum())
            self.remark(
                f"round {state.book.round} was asked of {here} of the {self.options.devices} declared devices: {ready.short} had "
                f"not come after {self.options.patience:g} s of patience"
            )
        self.asked_at = None
        self.react(CandidatesSeen(now, roster_of(self.plan, self.world, state, idle.astype(np.int64))))

    # ---- what transmitters say ------------------------------------------------------------------------------------

    def heard(self, index: int, message: inside.ToProcessor) -> None:
        """A transmitter said something; it is looked at in the next turn."""
        self.soon(lambda: self._hear(index, message))

    def died(self, index: int) -> None:
        """A transmitter is gone: another takes its place."""
        self.remark(f"transmitter {index} died and was started again")
        assert self.tending is not None
        self.beside(self.tending.start(index))

    def _hear(self, index: int, message: inside.ToProcessor) -> None:
        now = self.now()
        if message.heard:
            clients = np.array(message.heard, np.int64)
            self.presence.heard(clients, np.array(message.heard_back), now)
            self.saving.came(clients, now)
        if message.gone:
            self.presence.gone(np.array(message.gone, np.int64))
        if message.HasField("ready"):
            self._ready(index, message.ready)
        if message.safe:
            self.tasks.safe(message.safe)
        for claim in message.claims:
            self._claimed(index, claim)
        if message.enrolling:
            self._enrol(index, list(message.enrolling))
        for asking in message.asking:
            self.out(index).told.append(inside.Told(number=asking.number, json=json.dumps(self.status())))
        for closed in message.closed:
            self._closed(index, closed)
        if message.counters:
            self.counters[index] = dict(message.counters)
        self.strikes += len(message.strikes)
        for strike in message.strikes:
            self.saving.struck(strike.client, strike.reason)

    def out(self, index: int) -> inside.ToTransmitter:
        """What goes to this transmitter at the end of the turn."""
        assert self.tending is not None
        return self.tending.all[index].out

    def everybody(self) -> list[inside.ToTransmitter]:
        """What goes to each transmitter at the end of the turn; one that is not ready hears all of it when it is."""
        assert self.tending is not None
        return [tended.out for tended in self.tending.all if tended.ready]

    def _claimed(self, index: int, claim: inside.Claim) -> None:
        if judges(claim.task):
            self.out(index).grants.append(self.judgement.claimed(claim, self.now()))
            return
        asked = Claimed(
            claim.task, claim.client, True, claim.crc32c, claim.nbytes, claim.weight, claim.fault, claim.declined, index
        )
        verdict = self.tasks.judge(asked, self.now())
        grant = inside.Grant(
            number=claim.number, status=_STATUS[verdict.kind], reason=verdict.reason, seconds=verdict.seconds
        )
        match verdict.kind:
            case Kind.GRANT | Kind.REGRANT:
                self._grant(claim, grant, arrived=verdict.arrived)
            case Kind.REFUSE:
                self._reject(claim.task, verdict.reason, claim.nbytes)
            case Kind.DECLINED:
                wave = self.state.running.get(claim.task)
                if wave is not None:
                    self._lose(claim.task, wave, f"its device declined: {verdict.reason}")
                self._withdraw([claim.task])
            case Kind.LATE | Kind.AGAIN:
                late = "late" if verdict.kind is Kind.LATE else "again"
                size = claim.nbytes * self.plan.byte_scale
                self.react(ReportUnwanted(self.now(), claim.task, claim.client, size, late))
            case Kind.STRANGER:
                self.strikes += 1
            case Kind.RETRY | Kind.SAFE | Kind.BUSY:
                pass
        if verdict.kind is Kind.REFUSE:
            self._withdraw([claim.task])
        self.out(index).grants.append(grant)
        self._react_all()
        self._try_close()

    def _grant(self, claim: inside.Claim, grant: inside.Grant, *, arrived: bool) -> None:
        task, now = claim.task, self.now()
        wave, bucket = self._wave_of(task), self._bucket_of_task(task) if arrived else bucket_of(self.state)
        told = Told(claim.weight, tuple(claim.names[: claim.stats]), tuple(claim.values[: claim.stats]))
        entry, why = Entry(claim.weight), None
        if self.streams:
            entry = self.plan.algorithm.fold.enter(told.weight, told.stats(), self._context(task, wave, bucket, now))
            why = entry_refusal(self.plan.algorithm.fold, entry) or self._overweight(bucket, entry)
        if why is None:
            grant.granted, grant.bucket, grant.weight, grant.factor = True, bucket, entry.weight, entry.factor
            grant.sum, grant.time, grant.order = entry.sum, now, self.order
            self.order += 1
            self.weights[bucket, entry.sum] = self.weights.get((bucket, entry.sum), 0) + exact.units(entry.weight)
        else:
            self.tasks.settle([task], folded=False)
            self.refusals.add(task, f"client {claim.client}: {why}")
            grant.status, grant.reason = pb.Receipt.REFUSED, why
        self.told[task] = told
        names, spent = claim.names[claim.stats :], claim.values[claim.stats :]
        size = (claim.decoded_nbytes or claim.nbytes) * self.plan.byte_scale
        self.said[task] = Said(size, dict(zip(names, spent, strict=True)))
        if not arrived:
            self._arrive(task, wave, size)

    def _overweight(self, bucket: int, entry: Entry) -> str | None:
        most, before = self.plan.algorithm.fold.total_weight, self.weights.get((bucket, entry.sum), 0)
        if before + exact.units(entry.weight) <= most * 2.0**60:
            return None
        return (
            f"with its weight {entry.weight:g} those of one commit would exceed {most:g}; raise the fold's total_weight"
        )

    def _context(self, task: int, wave: Wave, bucket: int, now: float) -> Context:
        """What its commit will know of a report: also of one that comes while the commit before is still being made."""
        version = self.state.book.version
        if self.gathering is not None and bucket > self.state.book.round:
            version += will_commit(self.plan, self.gathering, self.refusals.reasons)
        slot = task - wave.first
        settings = {name: float(column[slot]) for name, column in wave.asked.settings.items()}
        return Context(version - wave.version, now - wave.time, int(wave.asked.clients[slot]), settings, task)

    def _wave_of(self, task: int) -> Wave:
        wave = self.state.running.get(task)
        return wave if wave is not None else self._ending_of(task).wave

    def _ending_of(self, task: int) -> Ending:
        for chain in (self.state.ended, self.state.gathering):
            for ending in in_order_of_arrival(chain):
                if ending.task == task:
                    return ending
        raise RunFailed(f"task {task} was granted again, and nobody waits for it: the server is broken")

    def _bucket_of_task(self, task: int) -> int:
        gathering = any(e.task == task for e in in_order_of_arrival(self.state.gathering))
        return self.state.book.round if gathering else bucket_of(self.state)

    def _ready(self, index: int, ready: inside.Ready) -> None:
        """A transmitter listens: what its disk holds is safe, and it learns what all others know."""
        assert self.tending is not None
        for damage in ready.damages:
            self.remark(damage)
        now_open = {bucket_of(self.state), self.state.book.round}
        found: list[int] = []
        for part in ready.found:
            if part.bucket not in now_open:
                self.out(index).discard.append(part.bucket)
                continue
            entries = [entry_from(data) for data in part.entries]
            if not self._recognised(index, part.bucket, entries):
                continue
            for entry in entries:
                found.append(entry.task)
                self.order = max(self.order, entry.order + 1)
                self.told.setdefault(
                    entry.task, Told(entry.weight, entry.names[: entry.stats], entry.values[: entry.stats])
                )
                self.weights[part.bucket, entry.sum] = self.weights.get((part.bucket, entry.sum), 0) + exact.units(
                    entry.weight
                )
        self.tasks.release(index, found)
        self.tending.all[index].ready = True
        self.offering.introduce(self.out(index), self.state, self.memory_task)
        self._revoke(self.served.registry.raised(), only=index)
        if all(tended.ready for tended in self.tending.all):
            self.tasks.release(NOBODY, ())
        if self.closing is not None:
            self.closing.pop(index, None)
            self.out(index).close.append(self.state.book.round)
        self._try_close()

    def _recognised(self, index: int, bucket: int, entries: list[Entered]) -> bool:
        """Does the journal know of these reports? If its end was lost, those that it still waits for arrive now."""
        running, came = self.state.running, {ending.task for ending in arrived(self.state)}
        if any(entry.task not in running and entry.task not in came for entry in entries):
            self.out(index).discard.append(bucket)
            self.remark(
                f"transmitter {index} held {len(entries)} reports of a round that the journal does not know any more; they are lost"
            )
            return False
        for entry in entries:
            if entry.task in running:
                said = Claimed(
                    entry.task, entry.client, True, entry.crc32c, entry.nbytes, entry.weight, transmitter=index
                )
                self.tasks.judge(said, self.now())
                self._arrive(entry.task, running[entry.task], entry.nbytes * self.plan.byte_scale)
        return True

    def _revoke(self, changed: Sequence[tuple[int, int]], only: int | None = None) -> None:
        outs = self.everybody() if only is None else [self.out(only)]
        for client, generation in changed:
            for out in outs:
                out.revoked.append(client)
                out.generations.append(generation)

    def _enrol(self, index: int, asked: list[inside.Enrolling]) -> None:
        requests = [(pb.EnrolRequest.FromString(a.request), a.peer) for a in asked]
        for one, found in zip(asked, self.served.registry.enrol_all(requests, time.time()), strict=True):
            answer = inside.Enrolled(number=one.number)
            if isinstance(found, Admitted):
                secret, sheet = (
                    secret_of(self.served.key, found.client, found.generation),
                    self.served.sheet(found.client),
                )
                reply = pb.EnrolReply(client=found.client, secret=secret, sheet=sheet, run=self.served.name)
                reply.signature = signed(secret, sheet)
                answer.reply = reply.SerializeToString()
            else:
                answer.refused = found.sentence
            self.out(index).enrolled.append(answer)
        self._revoke(self.served.registry.changed())

    # ---- commands of the coordinator ------------------------------------------------------------------------------

    def find(self, command: FindCandidates) -> None:
        """`_look` answers when the declared fleet is there, or patience ends."""
        del command
        self.asked_at = self.now()
        self.soon()

    def probe(self, command: Probe) -> None:
        """Devices are asked for a number, with a deadline."""
        self.judgement.probe(command)

    def send(self, command: Send) -> None:
        """Devices pull their work."""
        wave = command.wave
        heaviest = self.offering.heaviest(wave)
        self.tasks.send(wave.first, wave.asked.clients, heaviest, wave.time + self.options.lease)
        self.busy[wave.asked.clients] = True
        blobs, message = self.offering.wave(wave, heaviest, self.memory_task)
        for out in self.everybody():
            out.blobs.extend(blobs)
            out.waves.append(message)

    def wake(self, command: WakeAt) -> None:
        """`_look` looks at the clock."""
        self.timer = command.time

    def gather(self, command: Gather) -> None:
        """Close the bucket as soon as every granted report in it is on a disk."""
        self.gathering = command
        self._try_close()

    def forget(self, command: Forget) -> None:
        """Nobody waits for these tasks any more."""
        self.busy[command.clients] = False
        self._withdraw(command.tasks.tolist())
        self.tasks.withdraw(command.tasks.tolist())
        for task in command.tasks.tolist():
            self.told.pop(task, None)

    def account(self, command: Account) -> None:
        """What devices said that their work cost them; of the others nobody knows."""
        said = [self.said.pop(task, None) for task in command.tasks]
        self.facts.append(spent_as_said(command, said, self.now()))

    def evaluate(self, command: Evaluate) -> None:
        """Somebody tries the model, beside the loop."""
        self.judgement.evaluate(command)

    def finish(self, command: Finish) -> None:
        """Devices hear that it is over."""
        self.ended = command.reason
        for out in self.everybody():
            out.over = command.reason
        self.beside(self._farewell())

    async def _farewell(self) -> None:
        """Whoever is expected back soon has a moment to come and hear of it."""
        until = time.monotonic() + self.options.farewell_seconds
        while time.monotonic() < until:
            told = sum(counts.get("told_over", 0) for counts in self.counters.values())
            if told >= self.presence.present(self.now()).sum():
                break
            await asyncio.sleep(0.1)
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    def _withdraw(self, tasks: Sequence[int]) -> None:
        for out in self.everybody():
            out.withdrawn.extend(tasks)

    def _discard(self, bucket: int) -> None:
        for out in self.everybody():
            out.discard.append(bucket)
        self.weights = {key: units for key, units in self.weights.items() if key[0] != bucket}

    # ---- commits --------------------------------------------------------------------------------------------------

    def _try_close(self) -> None:
        """Ask for the sums, once nothing that was granted can be missing from them."""
        assert self.tending is not None
        if self.gathering is None or self.closing is not None or not all(t.ready for t in self.tending.all):
            return
        came = [task for task in self.gathering.tasks if task not in self.refusals.reasons]
        if any(self.tasks.phase(task) is TaskPhase.RELEASED for task in came):
            return
        self.closing = {}
        for out in self.everybody():
            out.close.append(self.state.book.round)
        self.soon()

    def _closed(self, index: int, closed: inside.Closed) -> None:
        if self.closing is None or self.gathering is None or closed.bucket != self.state.book.round:
            return
        self.closing[index] = closed
        assert self.tending is not None
        if len(self.closing) < len(self.tending.all):
            return
        command, parts = self.gathering, list(self.closing.values())
        wanted = [task for task in command.tasks if task not in self.refusals.reasons]
        if self.options.durable and self.tasks.unsafe(
            wanted
        ):  # one died after it had closed, before all had: wait for what it lost
            self.closing = None
            return
        reasons = {task: self.refusals.reasons[task] for task in command.tasks if task in self.refusals.reasons}
        spools = [] if self.streams else [tended.start.folder for tended in self.tending.all]
        sums = [part.path for part in parts if part.path] if self.streams else []
        told = {task: self.told[task] for task in command.tasks if task in self.told}
        bucket = Bucket(command, closed.bucket, reasons, told, sums, sum(part.count for part in parts), spools)
        self.beside(self._commit(bucket))

    async def _commit(self, bucket: Bucket) -> None:
        keep = (self.served.folder, self.gatherings) if self.options.durable else None
        loop = asyncio.get_running_loop()
        fact: ReportsGathered = await loop.run_in_executor(
            self.worker, gathered, self.plan, bucket, self.codecs, keep, self.served.noising
        )
        if fact.made is not None:
            await loop.run_in_executor(self.worker, self.offering.prepare, fact.made.server)
        self.soon(lambda: self._committed(bucket, fact))

    def _committed(self, bucket: Bucket, fact: ReportsGathered) -> None:
        self.gatherings += 1
        self.gathering = self.closing = None
        clients = {context.task: context.client for context in bucket.command.contexts}
        folded = fact.tasks.tolist()
        for task in folded:  # in task order: of two reports of one client the later one's memory stands
            self.memory_task[clients[task]] = task
        self.tasks.settle(folded, folded=True)
        self.tasks.settle([r.task for r in fact.rejected], folded=False)
        for task in bucket.command.tasks:
            self.told.pop(task, None)
        self.refusals.forget(bucket.command.tasks)
        self._discard(bucket.number)
        self.react(replace(fact, time=self.now()))
        self._react_all()
        self.offering.tidy(self.state, self.everybody())

    async def close(self) -> None:
        """Let everything go that was started here."""
        if self._handle is not None:
            self._handle.cancel()
        for job in list(self._jobs):
            job.cancel()
        await self.saving.close()
        self.worker.shutdown(wait=True, cancel_futures=True)

    # ---- what people want to know ---------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The contract of `fedfleet status`."""
        book = self.state.book
        return {
            "run": self.served.name, "round": book.round, "version": book.version,
            "devices_online": int(self.presence.present(self.now()).sum()), "running": book.running,
            "waiting_for": self.waiting_for(), "uptime_seconds": time.monotonic() - self._began,
        }  # fmt: skip

    def waiting_for(self) -> str:
        """One sentence: what has to happen before the run goes on."""
        state, book = self.state, self.state.book
        if self.ended:
            return f"nothing: the run is over ({self.ended})"
        if state.phase is Phase.GATHERING:
            return f"model {book.version + 1} to be made"
        if state.phase in (Phase.EVALUATING, Phase.ENDING):
            return f"model {book.version} to be judged"
        if self._asking():
            here = int((self.presence.present(self.now()) | self.busy).sum())
            return f"devices: {here} of {self.options.devices} are here"
        late = sorted({int(w.asked.clients[t - w.first]) for t, w in state.running.items()})[: _SHOWN + 1]
        named = ", ".join(map(str, late[:_SHOWN])) + (" and others" if len(late) > _SHOWN else "")
        return f"{book.running} reports: of client{'s' if len(late) > 1 else ''} {named}" if late else "the clock"


def arrived(state: RunState) -> list[Ending]:
    """Tasks whose reports arrived and are not committed."""
    chains = (state.ended, state.gathering)
    return [e for chain in chains for e in in_order_of_arrival(chain) if e.fate == FOLDED]


async def process(processor: Processor, tending: Tending, *, begun: bool) -> None:
    """Run to the end, from the first event unless it has `begun`."""
    processor.tending, processor.done = tending, asyncio.get_running_loop().create_future()
    for index in range(len(tending.all)):
        await tending.start(index)
    if not begun:
        first = begin(processor.plan)
        processor.tell(first.outcomes)
        commands = first.commands
    else:
        commands = pending(processor.plan, processor.state)
    for command in commands:
        carry_out(processor, command)
    processor.soon()
    await processor.done
