"""The server's event loop: the same coordinator as in a simulation, fed by devices. One thread, short turns.

In a turn the components take in everything that came, and the coordinator steps; then the journal is flushed, and only then does
anything leave: whatever a frontend does, its cause is on the disk. Slow work (making a model, evaluating it, writing checkpoints)
runs in the background.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import assert_never

import numpy as np

from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.events import Fact, ReportsGathered, RoundFailed, TaskArrived, TaskLost, TimerFired
from fedfleet.engine.commands import carry_out, pending_commands
from fedfleet.engine.coordinator import begin
from fedfleet.engine.state import Phase, RunState
from fedfleet.network.operations.metrics import Figures, status_json
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import is_eval_task
from fedfleet.network.protocol.process_link import Blob
from fedfleet.network.rules.pace_steering import PaceSteering
from fedfleet.network.server.admission import Admission
from fedfleet.network.server.candidates import Candidates, Membership
from fedfleet.network.server.commit import Commits
from fedfleet.network.server.edge_plans import EdgePlans
from fedfleet.network.server.evaluations import Evaluations
from fedfleet.network.server.offers import Offers
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import CheckpointWriter
from fedfleet.network.server.served_plan import ServedRun, adds_on_arrival, nested_pass
from fedfleet.network.server.supervisor import Supervisor
from fedfleet.network.server.turns import (
    CommitJob,
    Effects,
    JournaledRun,
    Note,
    React,
    ReactLater,
    StartEvaluation,
    Tell,
    TellNow,
    Turns,
    tell_withdrawn,
)


class ServerLoop:
    """Calls the components of the server, and carries out the effects that they return. Only its own thread touches it."""

    supervisor: Supervisor  # set by `attach`

    def __init__(self, served: ServedRun, options: ServeOptions, state: RunState, shared: Path, *, gatherings: int = 0) -> None:
        """`shared` is the folder for bytes that all processes of the server read."""
        plan, streams = served.plan, adds_on_arrival(served.plan, options)
        self.served, self.options, self.end_reason = served, options, ""
        self.run = JournaledRun(plan, served.journal, state, [served.on_events] if served.on_events else [])
        self.turns = Turns(self._turn, state.book.now)
        self.candidates = Candidates(plan, served.world, options)
        self.run.listeners.append(self.candidates.on_events)
        self.offers = Offers(served, options, shared)
        if nested_pass(plan) is not None:
            client_state = self.offers.client_state
            edge_plans = EdgePlans(plan, served.world, served.folder, shared, lambda: client_state.memory_task)
            self.offers.fill_in = edge_plans.fill_in
        self.admission = Admission(plan, served.folder / "wire", self.offers.limits, streams=streams, lease=options.lease)
        self.commits = Commits(served, streams=streams, durable=options.durable, gatherings=gatherings)
        self.evaluations = Evaluations(served, options, self.candidates, self.offers)
        self.membership = Membership(served, self.offers.client_state)
        self.checkpoint_writer = CheckpointWriter(served, options)
        self.steering = PaceSteering(state.book.now)
        self.figures: Callable[[], Figures] = lambda: Figures(served.name)

    @property
    def state(self) -> RunState:
        """The state of the run."""
        return self.run.state

    def now(self) -> float:
        """Seconds since the run began; never before its last fact."""
        return max(self.turns.elapsed(), self.state.book.now)

    def is_asking(self) -> bool:
        """Is an ask for candidates out?"""
        return self.state.book.asking and self.state.probe is None and not self.end_reason

    def attach(self, supervisor: Supervisor) -> asyncio.Future[None]:
        """These are the frontends; the result is there when the run is over."""
        self.supervisor, self.turns.done = supervisor, asyncio.get_running_loop().create_future()
        supervisor.strikes = lambda: self.admission.strikes.client_levels(self.now())
        return self.turns.done

    def start(self, *, resume: bool) -> None:
        """Begin the run, or go on with what a killed server still waited for."""
        commands = pending_commands(self.served.plan, self.state)
        if not resume:
            _, outcomes, commands = begin(self.served.plan)
            self.run.record_events(outcomes)
        for command in commands:
            carry_out(self, command)
        self.turns.schedule()

    # ---- a turn ------------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self.turns.do_scheduled()
        self._react_to_queued()
        self._look_at_clock()
        # Everything that was decided is on the disk; now it may leave.
        self.run.flush(durable=self.options.durable)
        memory_task, gatherings = self.offers.client_state.memory_task, self.commits.gatherings
        self.checkpoint_writer.save_if_due(self.state, memory_task, gatherings, self.turns.fail)
        self._steer_pace()
        self.supervisor.send()
        now = self.now()
        patience = self.candidates.deadline(now) if self.is_asking() else None
        moments = (self.run.wake_at, self.admission.tasks.next_expiry(), self.evaluations.deadline(), patience)
        self.turns.schedule_in(min([m - now for m in moments if m is not None and m < math.inf], default=math.inf))

    def _look_at_clock(self) -> None:
        """What time alone brings: wake-ups, leases, the end of patience. After its end a run hears of none of it."""
        if self.state.phase is Phase.DONE:
            return
        now = self.now()
        if (moment := self.run.take_wake(now)) is not None:
            self._react(TimerFired(moment))
        self._carry_out(self.admission.on_time(self.state, now))
        self._try_close()
        self._carry_out(self.evaluations.on_time(self.state.book.round, now))
        self._react_to_queued()
        if self.is_asking():
            self._carry_out(self.candidates.try_answer(self.state, self.now()))
            self._react_to_queued()
        self._carry_out(self.membership.on_time(now))

    def _steer_pace(self) -> None:
        book = self.state.book
        working = self.state.phase in (Phase.GATHERING, Phase.EVALUATING)
        pace = self.steering.on_turn(
            self.now(), working=working, asking=self.is_asking(), missing=book.running, round_end=self.run.wake_at
        )
        if pace is not None:
            message = inside.ToTransmitter(come_back=pace.seconds, calls_per_second=pace.calls_per_second, round=book.round)
            self.supervisor.tell(message)

    def _carry_out(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Tell(message, frontend, but):
                    self.supervisor.tell(message, frontend, but=but)
                case TellNow(message, frontend):
                    self.run.flush()
                    self.supervisor.send_now(frontend, message)
                case React(fact):
                    # An earlier effect may have ended the round of its task.
                    if not isinstance(fact, TaskArrived | TaskLost) or fact.task in self.state.running:
                        self._react(fact)
                case ReactLater(fact):
                    self.run.react_later(fact)
                case Note(text, level):
                    self.run.note(text, level)
                case CommitJob() as job:
                    self.admission.on_commit_start([t for t in job.command.tasks if t not in job.refusals])
                    self.turns.run_in_background(self._commit(job))
                case StartEvaluation(command, shards):
                    self.turns.run_in_background(self._evaluate(command, shards))
                case _:
                    assert_never(effect)

    def _react(self, fact: Fact) -> None:
        """Let the coordinator take a fact, and carry out what it asks."""
        if isinstance(fact, TaskArrived | TaskLost):
            self.candidates.on_task_end(fact.client)
        if isinstance(fact, TaskArrived):
            self.steering.on_arrival()
        outcomes, commands = self.run.react(fact)
        for outcome in outcomes:
            if isinstance(outcome, RoundFailed):  # more than one, where a policy abandons round after round
                self._end_bucket(outcome.round)
        for command in commands:
            carry_out(self, command)

    def _react_to_queued(self) -> None:
        while (fact := self.run.next_fact()) is not None:
            self._react(fact)

    # ---- what frontends say ------------------------------------------------------------------------------------------

    def on_message(self, index: int, message: inside.ToProcessor) -> None:
        """A frontend said something; it is taken in the next turn. Its counters at once: it may die before that."""
        self.supervisor.on_counters(index, message.counters)
        self.turns.schedule(lambda: self._on_message(index, message))

    def on_frontend_death(self, index: int) -> None:
        """A frontend is gone: another takes its place."""
        self.run.note(f"frontend {index} died and was started again")
        self.turns.run_in_background(self.supervisor.start(index))

    def _on_message(self, index: int, message: inside.ToProcessor) -> None:
        now = self.now()
        if message.heard:
            clients = np.array(message.heard, np.int64)
            self.candidates.on_calls(clients, np.array(message.heard_back), now)
            self.checkpoint_writer.record_checkins(clients, now)
        if message.gone:
            self.candidates.on_departures(np.array(message.gone, np.int64))
        if message.HasField("ready"):
            self._on_frontend_start(index, message.ready)
        if message.safe:
            self._carry_out(self.admission.on_safe(index, list(message.safe)))
        for claim in message.claims:
            self._on_claim(index, claim)
        if message.enrolling:
            self._carry_out(self.membership.on_requests(index, message.enrolling, self.state.next_task, self.run.log))
        for question in message.asking:
            self.supervisor.tell(inside.ToTransmitter(told=[self._answer_question(question)]), index)
        for part in message.closed:
            folders, bucket = self.supervisor.folders(), self.state.book.round
            self._carry_out(self.commits.on_closed(index, part, self.admission, bucket, folders))
        self.admission.on_strikes([strike.client for strike in message.strikes], now)
        what = "an upload was damaged or wrongly addressed"
        for strike in message.strikes:
            self.run.log("warning", what, device=strike.client, reason=strike.reason)

    def _answer_question(self, question: inside.Asking) -> inside.Told:
        """The answer to a question of a frontend."""
        if not question.HasField("shard_of"):
            return inside.Told(number=question.number, json=status_json(self.figures()))
        shard = self.served.shard
        return inside.Told(number=question.number, shard=b"" if shard is None else shard(question.shard_of))

    def _on_claim(self, index: int, claim: inside.Claim) -> None:
        now = self.now()
        if is_eval_task(claim.task):
            self._carry_out(self.evaluations.on_claim(index, claim, now))
            return
        self._carry_out(self.admission.on_claim(index, claim, self.state, self.commits.gathering, now))
        self._react_to_queued()
        self._try_close()

    def _on_frontend_start(self, index: int, ready: inside.Ready) -> None:
        """A frontend listens: what its disk holds is safe, and it is told all that the others know."""
        self._carry_out(self.admission.on_frontend_start(index, ready, self.state, self.now()))
        self._react_to_queued()
        out = self.supervisor.on_ready(index)
        self.offers.add_full_state(out, self.state)
        self.evaluations.add_full_state(out)
        if self.steering.announced is not None:
            out.come_back, out.calls_per_second = self.steering.announced
            out.round = self.state.book.round
        out.over = self.end_reason
        self._carry_out(self.membership.on_frontend_start(index))
        if self.supervisor.all_ready():
            self.admission.on_all_frontends_ready()
        self._carry_out(self.commits.on_frontend_start(index, self.state.book.round))
        self._try_close()

    # ---- commits and evaluations -------------------------------------------------------------------------------------

    def _try_close(self) -> None:
        if self.commits.gathering is not None and self.supervisor.all_ready():
            effects = self.commits.try_close(self.admission, self.state.book.round)
            self._carry_out(effects)
            if effects:
                self.turns.schedule()

    async def _commit(self, job: CommitJob) -> None:
        fact, blob = await self.commits.make(job, self.offers)
        self.turns.schedule(lambda: self._on_commit(job, fact, blob))

    def _on_commit(self, job: CommitJob, fact: ReportsGathered, blob: Blob | None) -> None:
        self.commits.on_commit_end()
        clients = {context.task: context.client for context in job.command.contexts}
        for task in fact.tasks.tolist():  # in task order: of two reports of one client the later one's memory stands
            self.offers.client_state.record_folded(clients[task], task)
        self.admission.on_commit_end(job.command, fact)
        self._end_bucket(job.bucket)
        if blob is not None:
            self.offers.register_version(blob, job.command.version)
        self._react(replace(fact, time=self.now()))
        self._react_to_queued()
        self._carry_out(self.offers.drop_unused(self.state, self.evaluations.versions()))

    def _end_bucket(self, bucket: int) -> None:
        self.supervisor.tell(inside.ToTransmitter(discard=[bucket]))
        self.admission.on_bucket_end(bucket)

    async def _evaluate(self, command: Evaluate, shards: bool) -> None:
        result = await self.served.evaluator.evaluate(command.version, command.server.params, shards)
        self.turns.schedule(lambda: self.evaluations.on_central_result(command, result))

    # ---- commands of the coordinator ---------------------------------------------------------------------------------

    def find(self, command: FindCandidates) -> None:
        """Answered when the declared fleet is there, or patience ends."""
        del command
        self.candidates.on_ask(self.now())
        self.turns.schedule()

    def probe(self, command: Probe) -> None:
        """Devices are asked for a number, with a deadline."""
        book = self.state.book
        self._carry_out(self.evaluations.on_probe(command, book.version, book.round, self.now()))

    def send(self, command: Send) -> None:
        """Devices pull their work."""
        wave = command.wave
        for sentence in self.offers.limits.fix(wave):
            self.run.note(sentence)
        self.admission.on_send(wave)
        self.candidates.on_sent(wave.assignments.clients)
        self.supervisor.tell(self.offers.wave_message(wave))

    def wake(self, command: WakeAt) -> None:
        """`_look_at_clock` compares it with the clock."""
        self.run.wake_at = command.time

    def gather(self, command: Gather) -> None:
        """Close the bucket as soon as every granted report in it is on a disk."""
        self.commits.on_gather(command)
        self._try_close()

    def forget(self, command: Forget) -> None:
        """These tasks were given up."""
        tasks = command.tasks.tolist()
        self.candidates.on_task_end(command.clients)
        self.admission.on_forget(tasks)
        self._carry_out([tell_withdrawn(tasks)])

    def account(self, command: Account) -> None:
        """What devices reported that their work cost them."""
        self.run.react_later(self.admission.account(command, self.now()))

    def evaluate(self, command: Evaluate) -> None:
        """Evaluate the model in the background."""
        round, any_sent = self.state.book.round, self.state.next_task > 0
        self._carry_out(self.evaluations.on_evaluate(command, round, self.now(), any_sent=any_sent))

    def finish(self, command: Finish) -> None:
        """Devices are told that the run is over."""
        self.end_reason = command.reason
        self.supervisor.tell(inside.ToTransmitter(over=command.reason))
        self.turns.run_in_background(self._farewell())

    async def _farewell(self) -> None:
        """Devices that are expected back soon have a moment to call and be told."""
        until = time.monotonic() + self.options.farewell_seconds
        told, present = self.supervisor.counted, self.candidates.present
        while time.monotonic() < until and told("told_over") < present(self.now()).sum():
            await asyncio.sleep(0.1)
        self.turns.finish()

    async def close(self) -> None:
        """Stop everything that was started here."""
        self.turns.close()
        await self.checkpoint_writer.close()
        self.commits.close()
