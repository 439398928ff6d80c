"""The processor: the very coordinator of the simulation, fed by devices. One thread, one loop, short turns.

In a turn everything that came is judged and stepped; then the journal is flushed, and only then does anything leave: whatever a
transmitter does, its cause is on the disk. Slow work (making a model, judging it, writing checkpoints) is done beside the loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.events import Event, Fact, RoundFailed, TaskArrived, TaskLost, TimerFired
from fedfleet.core.records import Wave
from fedfleet.engine.commands import carry_out
from fedfleet.engine.coordinator import step
from fedfleet.engine.state import Phase, RunState
from fedfleet.network.operations.counters import Totals, end_process
from fedfleet.network.operations.logs import Log, no_log
from fedfleet.network.operations.metrics import Figures
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.presence import Presence
from fedfleet.network.rules.task_table import TaskTable
from fedfleet.network.server.candidates import ask_deadline, try_answer_ask
from fedfleet.network.server.checkpoint_writer import CheckpointWriter
from fedfleet.network.server.client_state import ClientState
from fedfleet.network.server.commit import try_close
from fedfleet.network.server.commit_work import ReportMeta
from fedfleet.network.server.dispatch import handle_message, record_counters, revoke
from fedfleet.network.server.evaluations import Evaluations
from fedfleet.network.server.offers import Offers
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.rejections import Refusals
from fedfleet.network.server.reported_costs import ReportedCost, tasks_spent
from fedfleet.network.server.return_times import ReturnTimes
from fedfleet.network.server.served_plan import ServedRun, client_codecs
from fedfleet.network.server.supervisor import Supervisor

_REVOCATIONS_SECONDS = 1.0


class ServerLoop:
    """The mutable side of a served run. Its loop alone touches it."""

    def __init__(
        self, served: ServedRun, options: ServeOptions, state: RunState, *, at: float = 0.0, gatherings: int = 0
    ) -> None:
        self.served, self.options, self.state = served, options, state
        self.plan, self.world = served.plan, served.world
        n = self.plan.clients
        algorithm = self.plan.algorithm
        folds_on_arrival = (
            algorithm.accept is None and not algorithm.fold.partial
        )  # reports enter the sums as they come, and whole
        self.streams = options.streaming and algorithm.fold.streams and folds_on_arrival
        self.codecs = client_codecs(self.plan)
        self.tasks, self.presence = TaskTable(), Presence(n, hold=options.hold_seconds)
        self.busy = np.zeros(n, np.bool_)
        self.client_state = ClientState(n, served.folder / "wire" / "takeovers.jsonl")
        self.report_metas: dict[int, ReportMeta] = {}  # of arrived tasks that are not gathered
        self.reported_costs: dict[int, ReportedCost] = {}  # of arrived tasks that are not accounted for
        self.weights: dict[tuple[int, int, str], int] = {}  # by transmitter, bucket and sum, in units
        self.refusals = Refusals(served.folder / "wire" / "refusals.jsonl")
        self.gatherings = gatherings  # how many there were
        self.gathering: Gather | None = None
        self.closed_parts: dict[int, inside.Closed] | None = None  # by transmitter, while a bucket is being closed
        self.close_attempts = 0  # how often transmitters were asked for the sums of this bucket
        self.committing = False  # is a model being made of them?
        self.timer: float | None = None
        self.asked_at: float | None = None
        self.supervisor: Supervisor | None = None
        self.offers = Offers(served, options)
        self.evaluations = Evaluations(self)
        self.checkpoint_writer = CheckpointWriter(served, options)
        self.return_times = ReturnTimes(at)
        self.facts: deque[Fact] = deque()
        self.inbox: deque[Callable[[], None]] = deque()
        self.order = 0
        self.counters: dict[int, dict[str, float]] = {}
        self.totals = Totals()  # the same of all transmitters that ever were
        self.strikes = 0
        self.end_reason: str = ""
        self.draining = False
        self.done: asyncio.Future[None] | None = None
        self.worker = ThreadPoolExecutor(1, "fedfleet-commit")
        self.on_events: Callable[[Sequence[Event]], None] | None = served.on_events
        self.log: Log = no_log
        self.figures: Callable[[], Figures] = lambda: Figures(served.name)
        self._start = time.monotonic() - at
        self.began = time.monotonic()
        self._scheduled = False
        self._handle: asyncio.TimerHandle | None = None
        self._jobs: set[asyncio.Task[Any]] = set()
        self._revocations = 0.0
        self._journal_flushed = True

    # ---- the clock and the loop -----------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the run began, on the monotonic clock; the time that a killed server was away does not count."""
        return max(time.monotonic() - self._start, self.state.book.now)

    def schedule(self, work: Callable[[], None] | None = None) -> None:
        """Do this in the next turn, and let there be one."""
        if work is not None:
            self.inbox.append(work)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def run_in_background(self, work: Any) -> None:
        """Let something happen beside the loop; if it fails, the run does."""
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        job.add_done_callback(self._on_job_done)

    def _on_job_done(self, job: asyncio.Task[Any]) -> None:
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
            self.react_all()
            self._check_timers()
            self._close_turn()
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise

    def _close_turn(self) -> None:
        """Everything that was decided is on the disk; now it may leave."""
        if not self._journal_flushed and self.options.durable:
            self.served.journal.flush()
        self._journal_flushed = True
        self.checkpoint_writer.save_if_due(self)
        self.return_times.update(self, self.now())
        assert self.supervisor is not None
        self.supervisor.send()
        self._schedule_next_turn()

    def _schedule_next_turn(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        moments = [
            m
            for m in (self.timer, self.tasks.next_expiry(), self.evaluations.deadline(), ask_deadline(self))
            if m is not None
        ]
        pause = min([m - self.now() for m in moments if m < math.inf], default=1.0)
        self._handle = asyncio.get_running_loop().call_later(min(max(pause, 0.0), 1.0), self.schedule)

    # ---- facts ----------------------------------------------------------------------------------------------------

    def react(self, fact: Fact) -> None:
        """Let the coordinator hear of a fact, and carry out what it asks."""
        self.state, outcomes, commands = step(self.plan, self.state, fact)
        self.record_events((fact, *outcomes))
        for outcome in outcomes:
            if isinstance(outcome, RoundFailed):  # more than one, where a policy abandons round after round
                self.discard(outcome.round)
        for command in commands:
            carry_out(self, command)

    def record_events(self, events: Sequence[Event]) -> None:
        """Journal events, and say them to whoever watches."""
        self.served.journal.append(events)
        self._journal_flushed = False
        if self.on_events is not None:
            self.on_events(events)

    def warn(self, text: str) -> None:
        """Something that people should find in the journal."""
        self.served.journal.remark(text)
        self.log("warning", text)
        self._journal_flushed = False

    def react_all(self) -> None:
        """Let the coordinator hear of what happened beside; later facts may have been heard before, and time never falls."""
        while self.facts and self.state.phase is not Phase.DONE:
            fact, now = self.facts.popleft(), self.state.book.now
            self.react(fact if fact.time >= now else replace(fact, time=now))

    def _check_timers(self) -> None:
        """What time alone brings: wake-ups, leases, the end of somebody's patience. After its end a run hears of none of it."""
        if self.state.phase is Phase.DONE:
            return
        now = self.now()
        if self.timer is not None and self.timer <= now:
            moment, self.timer = max(self.timer, self.state.book.now), None
            self.react(TimerFired(moment))
        self._expire(now)
        self.evaluations.check_finished(now)
        self.react_all()
        if try_answer_ask(self):
            self.react_all()
        if now >= self._revocations:
            self._revocations = now + _REVOCATIONS_SECONDS
            revoke(self, self.served.registry.take_changes())

    def _expire(self, now: float) -> None:
        due = self.tasks.next_expiry()
        if due is None or due > now:
            return
        lost, rejected = self.tasks.expire(now)
        for task in lost:
            wave = self.state.running.get(task)
            if wave is not None:
                why = f"no report came within its lease of {self.options.lease:g} s"
                self.lose(task, wave, why)
        for expired in rejected:
            self.reject(expired.task, expired.reason, expired.nbytes)
        self.withdraw([*lost, *(end.task for end in rejected)])
        try_close(self)

    def lose(self, task: int, wave: Wave, why: str) -> None:
        client, now = int(wave.assignments.clients[task - wave.first]), self.now()
        self.busy[client] = False
        self.react(TaskLost(now, task, client, now - wave.time, why))

    def reject(self, task: int, why: str, nbytes: int) -> None:
        """A report that counts as arrived, and weighs nothing."""
        wave = self.state.running.get(task)
        client = self.tasks.client(task)
        self.refusals.add(task, f"client {client}: {why}")
        if wave is not None:
            self.record_arrival(task, wave, nbytes * self.plan.byte_scale, self.now())

    def record_arrival(self, task: int, wave: Wave, nbytes: float, now: float) -> None:
        client = int(wave.assignments.clients[task - wave.first])
        self.busy[client] = False
        self.return_times.count_arrival()
        self.react(TaskArrived(now, task, client, now - wave.time, nbytes))

    def is_asking(self) -> bool:
        """Is an ask for candidates out?"""
        return self.state.book.asking and self.state.probe is None and not self.end_reason

    # ---- what transmitters say ------------------------------------------------------------------------------------

    def on_message(self, index: int, message: inside.ToProcessor) -> None:
        """A transmitter said something; it is looked at in the next turn. Its counters at once: it may die before that."""
        record_counters(self, index, message)
        self.schedule(lambda: handle_message(self, index, message))

    def on_frontend_death(self, index: int) -> None:
        """A transmitter is gone: another takes its place."""
        self.warn(f"transmitter {index} died and was started again")
        self.counters.pop(index, None)
        self.totals = end_process(self.totals, index)
        assert self.supervisor is not None
        self.run_in_background(self.supervisor.start(index))

    def outbox(self, index: int) -> inside.ToTransmitter:
        """What goes to this transmitter at the end of the turn."""
        assert self.supervisor is not None
        return self.supervisor.frontends[index].outbox

    def outboxes(self) -> list[inside.ToTransmitter]:
        """What goes to each transmitter at the end of the turn; one that is not ready hears all of it when it is."""
        assert self.supervisor is not None
        return [frontend.outbox for frontend in self.supervisor.frontends if frontend.ready]

    # ---- commands of the coordinator ------------------------------------------------------------------------------

    def find(self, command: FindCandidates) -> None:
        """`seeing` answers when the declared fleet is there, or patience ends."""
        del command
        self.asked_at = self.now()
        self.schedule()

    def probe(self, command: Probe) -> None:
        """Devices are asked for a number, with a deadline."""
        self.evaluations.probe(command)

    def send(self, command: Send) -> None:
        """Devices pull their work."""
        wave = command.wave
        heaviest = self.offers.heaviest(wave)
        self.tasks.send(wave.first, wave.assignments.clients, heaviest, wave.time + self.options.lease)
        self.busy[wave.assignments.clients] = True
        blobs, message = self.offers.wave_message(wave, heaviest, self.client_state.memory_task)
        for out in self.outboxes():
            out.blobs.extend(blobs)
            out.waves.append(message)

    def wake(self, command: WakeAt) -> None:
        """`_look` looks at the clock."""
        self.timer = command.time

    def gather(self, command: Gather) -> None:
        """Close the bucket as soon as every granted report in it is on a disk."""
        self.gathering = command
        try_close(self)

    def forget(self, command: Forget) -> None:
        """Nobody waits for these tasks any more."""
        self.busy[command.clients] = False
        self.withdraw(command.tasks.tolist())
        self.tasks.withdraw(command.tasks.tolist())
        self.refusals.forget(command.tasks.tolist())
        for task in command.tasks.tolist():
            self.report_metas.pop(task, None)

    def account(self, command: Account) -> None:
        """What devices said that their work cost them; of the others nobody knows."""
        costs = [self.reported_costs.pop(task, None) for task in command.tasks]
        self.facts.append(tasks_spent(command, costs, self.now()))

    def evaluate(self, command: Evaluate) -> None:
        """Somebody tries the model, beside the loop."""
        self.evaluations.evaluate(command)

    def finish(self, command: Finish) -> None:
        """Devices hear that it is over."""
        self.end_reason = command.reason
        for out in self.outboxes():
            out.over = command.reason
        self.run_in_background(self._farewell())

    async def _farewell(self) -> None:
        """Whoever is expected back soon has a moment to come and hear of it."""
        until = time.monotonic() + self.options.farewell_seconds
        while time.monotonic() < until:
            informed = sum(counts.get("told_over", 0) for counts in self.counters.values())
            if informed >= self.presence.present(self.now()).sum():
                break
            await asyncio.sleep(0.1)
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    def withdraw(self, tasks: Sequence[int]) -> None:
        for out in self.outboxes():
            out.withdrawn.extend(tasks)

    def discard(self, bucket: int) -> None:
        for out in self.outboxes():
            out.discard.append(bucket)
        self.weights = {key: units for key, units in self.weights.items() if key[1] != bucket}

    async def close(self) -> None:
        """Let everything go that was started here."""
        if self._handle is not None:
            self._handle.cancel()
        for job in list(self._jobs):
            job.cancel()
        await self.checkpoint_writer.close()
        self.worker.shutdown(wait=True, cancel_futures=True)
