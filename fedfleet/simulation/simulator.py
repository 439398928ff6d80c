"""Simulation in virtual time: the runtime that answers commands from a world instead of from reality.

Time first, numbers later: when a task will be back depends on cost and world, never on the values inside its update,
so arrivals are settled first and only what will be folded is trained. With `eager=True` everything is trained when it
is sent, as algorithms need whose bytes depend on values.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.errors import FedFleetError, error_context
from fedfleet.core.events import (
    CandidatesSeen,
    Event,
    Fact,
    Probed,
    ReportUnwanted,
    TaskArrived,
    TaskLost,
    TaskStruck,
    TimerFired,
)
from fedfleet.core.parts import Executor, Job, Plan
from fedfleet.core.records import Report, Roster, Wave
from fedfleet.core.sources import World
from fedfleet.engine.book import with_book
from fedfleet.engine.commands import carry_out, pending_commands
from fedfleet.engine.coordinator import begin, handle_arrivals, step
from fedfleet.engine.state import Phase, RunState, next_wake, open_endings
from fedfleet.executors.gather import evaluate, folds_in_place, gather, jobs_for
from fedfleet.executors.hardware import keep_large_blocks
from fedfleet.simulation.arrivals import TASK_ENDS, Arrivals, arrivals_of, next_arrivals
from fedfleet.simulation.probes import probe_answer, probe_outcome
from fedfleet.simulation.rosters import AwaitedMoment, check_sees, earliest_moment, moment_inputs, roster_of, unavailable_clients
from fedfleet.simulation.task_costs import OpenTrips, task_costs
from fedfleet.simulation.trace import tracer
from fedfleet.simulation.trips import AGAIN, late_reports, trip_of
from fedfleet.store.aggregates import keep_aggregate
from fedfleet.store.client_memory import ClientMemory
from fedfleet.store.journal import Journal
from fedfleet.store.noise_source import SEEDED, NoiseSource

# Columns of so many clients are made anew in every round, and page faults would take longer than their arithmetic.
_LARGE_FLEET = 50_000
# Within one instant tasks end first; then come reports that the server no longer awaits, candidates, answers to probes, timers.
LATE_REPORTS, CANDIDATES, PROBES, TIMER = range(TASK_ENDS + 1, 5)

Tell = Callable[[Sequence[Event]], None]
Hear = Callable[["Simulation", Sequence[Event]], None]


class Keeper(Protocol):
    """Writes checkpoints: called after each settled step, it decides whether one is due."""

    def save_if_due(self, sim: Simulation) -> None: ...


@dataclass(slots=True)
class TrainedAhead:
    """What is trained before it is folded: reports by task, or the jobs of a wave that the executor has begun with.

    `whole_waves`: was the last wave folded whole, so that the next one will probably be, too?
    """

    reports: dict[int, Report] = field(default_factory=dict[int, Report])
    jobs: list[Job] = field(default_factory=list[Job])
    whole_waves: bool = False


@dataclass(slots=True)
class Simulation:
    """The mutable side of a simulated run: the clock's queue, who is busy, what clients remember.

    The queue is ordered by (time, class, number): the number is the first task of a wave, so that nothing but the state decides
    between waves that tie. Candidates and timers carry no wave; numbered candidates are those of a moment to come.
    """

    plan: Plan
    world: World
    execute: Executor
    eager: bool
    state: RunState
    queue: list[tuple[float, int, int, Arrivals | ReportUnwanted | Probe | None]] = field(default_factory=list)
    timers: set[float] = field(default_factory=set)
    busy: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    memory: ClientMemory = field(default_factory=ClientMemory)
    ahead: TrainedAhead = field(default_factory=TrainedAhead)
    facts: deque[Fact] = field(default_factory=deque)
    # The moment of an ask that waits until enough clients are there.
    awaited_moment: AwaitedMoment = field(default_factory=AwaitedMoment)
    noising: NoiseSource = SEEDED
    # By first task, of waves whose tasks are not all accounted for.
    trips: OpenTrips = field(default_factory=OpenTrips)
    # Tasks that the server waits for in vain.
    failed_tasks: set[int] = field(default_factory=set)

    @property
    def reports(self) -> dict[int, Report]:
        """Reports of tasks that were trained when they were sent."""
        return self.ahead.reports

    def find(self, command: FindCandidates) -> None:
        """Answered when no task ends at this instant any more; how many are wanted may grow until then.

        For whoever wants at least so many, `next_fact` looks for the moment: tasks that end may bring it forward.
        """
        if not command.at_least:
            heapq.heappush(self.queue, (self.state.book.now, CANDIDATES, 0, None))

    def probe(self, command: Probe) -> None:
        """Clients answer at once if that is free, else when the last one has, or when the server no longer waits for it."""
        outcome = probe_outcome(self.plan, self.world, self.state, command)
        heapq.heappush(self.queue, (outcome.ends, PROBES, 0, command))

    def answer(self, command: Probe, time: float) -> Probed:
        """What the clients of a probe say."""
        return probe_answer(self.plan, self.world, self.state, self.execute, self.memory, command, time)

    def send(self, command: Send) -> None:
        """Settle when each task of a wave will be back; train at once if values decide the price."""
        wave = command.wave
        self.busy[wave.assignments.clients] = True
        self.memory.lend(wave)
        if self.eager:
            train_now(self, wave, range(len(wave)))
        elif self.ahead.whole_waves and self.execute.begin is not None and folds_in_place(self.execute, self.plan.algorithm):
            begin_training(self, wave)
        queue_arrivals(self, wave)

    def wake(self, command: WakeAt) -> None:
        """The state knows which wake-up is the newest: those that it replaced are passed over."""
        if command.time not in self.timers:
            self.timers.add(command.time)
            heapq.heappush(self.queue, (command.time, TIMER, 0, None))

    def gather(self, command: Gather) -> None:
        """Train what is folded, unless it was trained when it was sent."""
        reports = None if not self.eager else [self.reports.pop(task) for task in command.tasks]
        now, key = self.state.book.now, self.noising.key
        early = self.ahead.jobs
        jobs = early if early and [job.task for job in early] == list(command.tasks) else None
        self.ahead.jobs = []
        fact = gather(self.plan, self.world, self.execute, self.memory, command, now, reports, key, jobs)
        if self.execute.begin is not None and len(command.tasks):
            wave = command.waves[0]
            self.ahead.whole_waves = list(command.tasks) == list(range(wave.first, wave.first + len(wave)))
        # No one without the secret can make it again.
        if self.noising.aggregate_folder is not None and fact.aggregate is not None:
            keep_aggregate(self.noising.aggregate_folder, command.version, fact)
        self.facts.append(fact)

    def forget(self, command: Forget) -> None:
        """Dropped tasks free their clients and their reports; what the clients remember stays as it was."""
        self.busy[command.clients] = False
        if self.world.faults is not None:  # only then can a report be under way
            for late in late_reports(self.trips, command, self.state.book.now):
                queue_late_report(self, late)
        for task in command.tasks.tolist() if self.reports or self.failed_tasks or self.memory.open_tasks else ():
            self.reports.pop(task, None)
            self.failed_tasks.discard(task)
            self.memory.release_task(task)

    def account(self, command: Account) -> None:
        """Say what ended tasks cost."""
        self.facts.append(task_costs(self.world, command, self.state.book.now, self.trips))
        self.trips.tidy(self.state)

    def evaluate(self, command: Evaluate) -> None:
        """Evaluations take no virtual time."""
        now = self.state.book.now
        self.facts.append(evaluate(self.plan, self.world, self.execute, self.memory, command, now))

    def finish(self, command: Finish) -> None:
        """Nothing that is still queued will happen."""
        del command
        self.queue.clear()


def simulate(
    plan: Plan,
    world: World,
    execute: Executor,
    *,
    eager: bool = False,
    journal: Journal | None = None,
    keeper: Keeper | None = None,
    resume: Simulation | None = None,
    memory: ClientMemory | None = None,
    watch: Tell | None = None,
    hear: Hear | None = None,
    noising: NoiseSource = SEEDED,
) -> Simulation:
    """Run a plan in a world to its end, and return where it ended.

    Events go to `journal` and, batch by batch, to `watch`, and to `hear` with the simulation that they come from; `keeper` may save
    a checkpoint after every settled step. `memory` says where clients' memory is kept, if it matters, `noising` where the noise of
    a private run comes from.
    """
    sim = resume or new_simulation(plan, world, execute, eager=eager, memory=memory, noising=noising)
    hear_events = None if hear is None else lambda events: hear(sim, events)
    sinks = (journal.append if journal is not None else None, watch, hear_events)
    listeners = [listener for listener in sinks if listener is not None]

    def tell_all(events: Sequence[Event]) -> None:
        for listener in listeners:
            listener(events)

    # The hot path: a call for every event.
    return drive(sim, listeners[0] if len(listeners) == 1 else tell_all, keeper=keeper, resume=resume is not None)


def drive(sim: Simulation, tell: Tell, *, keeper: Keeper | None = None, resume: bool = False) -> Simulation:
    """Let a simulation happen to its end, from its first event unless it resumes (`resume`); `tell` hears of everything."""
    plan, trace = sim.plan, tracer()
    if not resume:
        first = begin(plan)
        tell(first.outcomes)
        if trace is not None:
            trace("event", first.outcomes)
        for command in first.commands:
            carry_out(sim, command)
    while sim.state.phase is not Phase.DONE:
        if sim.facts:
            fact = sim.facts.popleft()
        else:
            if keeper is not None:
                keeper.save_if_due(sim)
            arrivals = next_arrivals(plan, sim.state, sim.queue)
            if arrivals is not None:
                sim.busy[arrivals.clients] = False
                sim.state = handle_arrivals(sim.state, arrivals)
                tell(arrivals)
                if trace is not None:
                    trace("event", arrivals)
                continue
            fact = next_fact(sim)
        sim.state, outcomes, commands = step(plan, sim.state, fact)
        tell((fact, *outcomes))
        if trace is not None:
            trace("event", (fact, *outcomes))
            trace("command", commands)
        for command in commands:
            carry_out(sim, command)
    return sim


def new_simulation(
    plan: Plan,
    world: World,
    execute: Executor,
    *,
    eager: bool = False,
    memory: ClientMemory | None = None,
    noising: NoiseSource = SEEDED,
    state: RunState | None = None,
) -> Simulation:
    """A simulation before its first event, or at a later state."""
    check_sees(plan)
    if len(world.keys) >= _LARGE_FLEET:
        keep_large_blocks()
    eager = eager or plan.algorithm.priced_by_value
    state, busy = state or begin(plan).state, np.zeros(len(world.keys), np.bool_)
    return Simulation(plan, world, execute, eager, state, busy=busy, memory=memory or ClientMemory(), noising=noising)


def resume_simulation(sim: Simulation) -> Simulation:
    """A simulation of which only the state and what clients remember are known, made ready to go on from there.

    Who is busy, when tasks end and which answers are awaited follow from the state; reports in hand must be held already.
    """
    waves = (*sim.state.running.values(), *(e.wave for e in open_endings(sim.state)))
    for wave in {w.first: w for w in waves}.values():
        queue_arrivals(sim, wave)
    for task, wave in sim.state.running.items():
        sim.busy[wave.assignments.clients[task - wave.first]] = True
    for command in pending_commands(sim.plan, sim.state):
        carry_out(sim, command)
    return sim


def next_fact(sim: Simulation) -> Fact:
    """What happens next in virtual time: the head of the queue."""
    while True:
        if sim.state.at_least:
            queue_candidates(sim)
        time, kind, number, item = sim.queue[0]
        if isinstance(item, Arrivals):
            index = item.position
            item.position = index + 1
            if index + 1 < len(item.times):
                heapq.heapreplace(sim.queue, (item.times[index + 1], TASK_ENDS, number, item))
            else:
                heapq.heappop(sim.queue)
            fact = arrival_fact(sim, number, index, item)
            if fact is not None:
                return fact
            continue
        heapq.heappop(sim.queue)
        if isinstance(item, ReportUnwanted):
            return item
        if isinstance(item, Probe):
            return sim.answer(item, time)
        if kind == CANDIDATES:
            if number and number != sim.awaited_moment.number:
                continue  # another moment took its place
            sim.awaited_moment = sim.awaited_moment._replace(state=None)
            return CandidatesSeen(time, candidates(sim, time))
        sim.timers.discard(time)
        if time == next_wake(sim.state):  # else it was replaced
            return TimerFired(time)


def queue_candidates(sim: Simulation) -> None:
    """Queue the moment at which the ask that is out can be answered, unless it is known; if there is none, the horizon comes."""
    needs = moment_inputs(sim.state)
    if sim.awaited_moment.state == needs:
        return
    moment = earliest_moment(sim.plan, sim.world, sim.state, sim.busy)
    sim.awaited_moment = AwaitedMoment(needs, sim.awaited_moment.number + 1)
    if moment < math.inf:
        heapq.heappush(sim.queue, (moment, CANDIDATES, sim.awaited_moment.number, None))


def candidates(sim: Simulation, time: float) -> Roster:
    """Who is online and not at work."""
    state = sim.state if time == sim.state.book.now else with_book(sim.state, now=time)
    with error_context(f"the world, asked at time {time} who could be asked,"):
        clients = np.flatnonzero(sim.world.states.online(time) & ~unavailable_clients(sim.plan, state, sim.busy))
        return roster_of(sim.plan, sim.world, state, clients)


def train_now(sim: Simulation, wave: Wave, slots: Iterable[int]) -> None:
    """Train these tasks of a wave and hold their reports until they are gathered or forgotten."""
    tasks = [wave.first + slot for slot in slots]
    jobs = jobs_for(sim.plan, sim.world, sim.memory, tasks, [wave] * len(tasks))
    for report in sim.execute.train(jobs):
        sim.reports[report.task] = report


def begin_training(sim: Simulation, wave: Wave) -> None:
    """Let the executor begin with a wave that will probably be folded whole; what fails now fails again when it is folded."""
    assert sim.execute.begin is not None
    sim.ahead.jobs = []
    with suppress(FedFleetError):
        jobs = jobs_for(sim.plan, sim.world, sim.memory, range(wave.first, wave.first + len(wave)), [wave] * len(wave))
        sim.execute.begin(jobs)
        sim.ahead.jobs = jobs


def queue_arrivals(sim: Simulation, wave: Wave) -> None:
    """Put a wave's arrivals into the queue: a pure function of wave, world and held reports, so a resume can repeat it."""
    with error_context(f"the world, asked how long tasks {wave.first} to {wave.first + len(wave) - 1} take,"):
        trip = sim.trips[wave.first] = trip_of(sim.plan, sim.world, wave, sim.reports)
    arrivals = arrivals_of(trip, wave)
    heapq.heappush(sim.queue, (arrivals.times[0], TASK_ENDS, wave.first, arrivals))


def arrival_fact(sim: Simulation, first: int, index: int, item: Arrivals) -> Fact | None:
    """What the end of a task's way is to the server: its report, the news that there is none, or nothing at all."""
    time, task, client, seconds = item.times[index], item.tasks[index], item.clients[index], item.seconds[index]
    if task not in sim.state.running:
        return None  # dropped in the meantime
    if not item.plain:
        trip, slot = sim.trips[first], task - first
        if trip.lost[slot]:
            if trip.noticed[slot]:
                sim.busy[client] = False
                sim.reports.pop(task, None)
                sim.memory.release_task(task)
                return TaskLost(time, task, client, seconds if trip.able[slot] else math.nan, trip.reason(slot))
            if task in sim.failed_tasks:
                return None
            sim.failed_tasks.add(task)
            return TaskStruck(time, task, client, seconds, trip.reason(slot))
        if trip.again[slot] < math.inf:
            late = ReportUnwanted(time + float(trip.again[slot]), task, client, item.bytes_up[index], AGAIN)
            queue_late_report(sim, late)
    sim.busy[client] = False
    return TaskArrived(time, task, client, seconds, item.bytes_up[index])


def queue_late_report(sim: Simulation, report: ReportUnwanted) -> None:
    """A report that is under way and that the server will not await."""
    heapq.heappush(sim.queue, (report.time, LATE_REPORTS, 2 * report.task + (report.reason == AGAIN), report))
