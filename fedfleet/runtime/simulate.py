"""Simulation in virtual time: the runtime that answers commands from a world instead of from reality.

Time first, numbers later: when a task will be back depends on cost and world, never on the values inside its update,
so arrivals are settled first and only what will be folded is trained. With `eager=True` everything is trained when it
is sent, as algorithms need whose bytes depend on values.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

import numpy as np

from fedfleet.core.charging import cost_of
from fedfleet.core.commands import Command, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.cost import scaled
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import CandidatesSeen, Event, Fact, Probed, TaskArrived, TaskLost, TimerFired
from fedfleet.core.parts import Executor, Plan, World
from fedfleet.core.records import Cost, Floats, Ints, Report, Roster, Wave, whole_work
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import Phase, RunState
from fedfleet.runtime.gather import evaluate, gather, jobs_for, probe_losses
from fedfleet.runtime.journal import Journal
from fedfleet.runtime.memory import ClientMemory


class Keeper(Protocol):
    """Whoever keeps checkpoints: told after each settled step, it saves when it thinks that it is time."""

    def settled(self, sim: Simulation) -> None: ...


@dataclass(slots=True)
class Arrivals:
    """The tasks of one wave in the order in which they will end, as plain columns; `at` is the next one."""

    first: int
    times: list[float]
    tasks: list[int]
    clients: list[int]
    seconds: list[float]
    bytes_up: list[float]
    at: int = 0


@dataclass(slots=True)
class Simulation:
    """The mutable side of a simulated run: the clock's queue, who is busy, what clients remember."""

    plan: Plan
    world: World
    execute: Executor
    eager: bool
    state: RunState
    queue: list[tuple[float, int, Arrivals | None]] = field(default_factory=list)
    counter: int = 0
    timer: tuple[float, int] | None = None
    busy: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    memory: ClientMemory = field(default_factory=ClientMemory)
    held: dict[int, Report] = field(default_factory=dict)
    facts: deque[Fact] = field(default_factory=deque)


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
    watch: Callable[[Sequence[Event]], None] | None = None,
) -> Simulation:
    """Run a plan in a world to its end, and return where it ended.

    Events go to `journal` and, batch by batch, to `watch`; `keeper` may save a checkpoint after every settled step. `memory` says
    where clients' memory is kept, if it matters.
    """
    sim = resume or fresh(plan, world, execute, eager=eager, memory=memory)

    def tell(events: Sequence[Event]) -> None:
        if journal is not None:
            journal.append(events)
        if watch is not None:
            watch(events)

    if resume is None:
        first = begin(plan)
        tell(first.outcomes)
        for command in first.commands:
            carry_out(sim, command)
    while True:
        while sim.facts:
            fact = sim.facts.popleft()
            sim.state, outcomes, commands = step(plan, sim.state, fact)
            tell((fact, *outcomes))
            for command in commands:
                carry_out(sim, command)
        if sim.state.phase is Phase.DONE:
            return sim
        if keeper is not None:
            keeper.settled(sim)
        sim.facts.append(next_fact(sim))


def fresh(
    plan: Plan, world: World, execute: Executor, *, eager: bool = False, memory: ClientMemory | None = None
) -> Simulation:
    """A simulation before its first event."""
    eager = eager or plan.algorithm.priced_by_value
    nobody = np.zeros(len(world.keys), np.bool_)
    return Simulation(plan, world, execute, eager, begin(plan).state, busy=nobody, memory=memory or ClientMemory())


def next_fact(sim: Simulation) -> Fact:
    """What happens next in virtual time: the head of the queue, in the order (time, counter)."""
    while True:
        time, counter, item = sim.queue[0]
        if item is None:
            heapq.heappop(sim.queue)
            if sim.timer == (time, counter):  # else it was replaced
                sim.timer = None
                return TimerFired(time)
            continue
        at = item.at
        item.at = at + 1
        if at + 1 < len(item.times):
            heapq.heapreplace(sim.queue, (item.times[at + 1], counter, item))
        else:
            heapq.heappop(sim.queue)
        task, client, seconds = item.tasks[at], item.clients[at], item.seconds[at]
        if task not in sim.state.running:
            continue  # dropped meanwhile
        sim.busy[client] = False
        if seconds == np.inf:
            sim.held.pop(task, None)
            sim.memory.take_back(task)
            return TaskLost(time, task, client, 0.0, "the device cannot do this work")
        return TaskArrived(time, task, client, seconds, item.bytes_up[at])


def carry_out(sim: Simulation, command: Command) -> None:
    """Do what the coordinator asks, in virtual time; immediate answers join the facts."""
    match command:
        case FindCandidates():
            sim.facts.append(CandidatesSeen(sim.state.book.now, roster(sim)))
        case Probe():
            sim.facts.append(Probed(sim.state.book.now, command.stat, command.clients, probe(sim, command)))
        case Send():
            send(sim, command.wave)
        case WakeAt():
            sim.timer = (command.time, sim.counter)
            heapq.heappush(sim.queue, (command.time, sim.counter, None))
            sim.counter += 1
        case Gather():
            now = sim.state.book.now
            reports = None if not sim.eager else [sim.held.pop(task) for task in command.tasks]
            sim.facts.append(gather(sim.plan, sim.world, sim.execute, sim.memory, command, now, reports))
        case Forget():
            forget(sim, command)
        case Evaluate():
            sim.facts.append(evaluate(sim.plan, sim.world, sim.execute, sim.memory, command, sim.state.book.now))
        case Finish():
            sim.queue.clear()
        case _:
            assert_never(command)


def roster(sim: Simulation) -> Roster:
    """Who is online and not at work."""
    book = sim.state.book
    clients = np.flatnonzero(sim.world.states.online(book.now) & ~sim.busy)
    return Roster(clients, sim.world.keys[clients], sim.world.data.sizes(book.round)[clients])


def send(sim: Simulation, wave: Wave) -> None:
    """Settle when each task of a wave will be back; train at once if values decide the price."""
    sim.busy[wave.asked.clients] = True
    sim.memory.lend(wave)
    if sim.eager:
        train_now(sim, wave, range(len(wave)))
    enqueue(sim, wave, sim.counter)
    sim.counter += 1


def train_now(sim: Simulation, wave: Wave, slots: Sequence[int]) -> None:
    """Train these tasks of a wave and hold their reports until they are gathered or forgotten."""
    tasks = [wave.first + slot for slot in slots]
    jobs = jobs_for(sim.plan, sim.world, sim.memory, tasks, [wave] * len(tasks))
    for report in sim.execute.train(jobs):
        sim.held[report.task] = report


def enqueue(sim: Simulation, wave: Wave, counter: int) -> None:
    """Put a wave's arrivals into the queue: a pure function of wave, world and held reports, so a resume can repeat it."""
    cost = price(sim, wave)
    tasks: Ints = np.arange(wave.first, wave.first + len(wave))
    seconds = sim.world.devices.seconds(wave.asked.clients, cost, wave.time, tasks)
    if sim.plan.algorithm.priced_by_value:
        known = [sim.held[task].seconds if task in sim.held else None for task in tasks.tolist()]
        seconds = np.array([s if k is None else k for s, k in zip(seconds.tolist(), known, strict=True)])
    able = np.isfinite(seconds)
    ends = np.full(len(wave), wave.time)
    if able.any():
        ends[able] = sim.world.states.finish(wave.asked.clients[able], wave.time, seconds[able])
    elapsed = np.where(able, ends - wave.time, np.inf)
    order = np.argsort(ends, kind="stable")
    columns = (ends, tasks, wave.asked.clients, elapsed, cost.bytes_up)
    arrivals = Arrivals(wave.first, *(column[order].tolist() for column in columns))
    heapq.heappush(sim.queue, (arrivals.times[0], counter, arrivals))


def price(sim: Simulation, wave: Wave) -> Cost:
    """What each task of a wave costs: as foreseen, or with the bytes that its report really has."""
    if not sim.plan.algorithm.priced_by_value:
        return wave.cost
    up = wave.cost.bytes_up.copy()
    for slot in range(len(wave)):
        report = sim.held.get(wave.first + slot)
        if report is not None and report.bytes_up is not None:
            up[slot] = report.bytes_up * sim.plan.byte_scale
    return Cost(wave.cost.samples, wave.cost.bytes_down, up, wave.cost.batches)


def forget(sim: Simulation, command: Forget) -> None:
    """Dropped tasks free their clients and their reports; what the clients remember stays as it was."""
    sim.busy[command.clients] = False
    for task in command.tasks.tolist():
        sim.held.pop(task, None)
        sim.memory.take_back(task)


def probe(sim: Simulation, command: Probe) -> Floats:
    """What clients answer when they are asked for one number."""
    plan, book = sim.plan, sim.state.book
    match command.stat:
        case "loss":
            return probe_losses(plan, sim.world, sim.execute, sim.memory, command, book.round)
        case "seconds":
            sizes = sim.world.data.sizes(book.round)[command.clients]
            cost = scaled(cost_of(plan.algorithm, command.server, whole_work(command.clients), sizes), plan.byte_scale)
            return sim.world.devices.seconds(command.clients, cost, book.now, np.full(len(sizes), sim.state.next_task))
        case other:
            raise RunFailed(f"selector {plan.choose.name!r} probes for {other!r}; clients can answer loss or seconds")
