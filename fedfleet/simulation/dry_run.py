"""Dry runs: who will be in which model and when, by the run's own coordinator, policy and world, without training anything.

A report's arrival depends on cost and world, never on the values in it. So whatever chooses and waits without looking at values
does here exactly what it does in the run of the same seed, and what a fleet will let happen is known before anyone trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedfleet.core.aggregation import Fold, Folding
from fedfleet.core.commands import Account, Evaluate, Gather
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, Event, ReportsGathered, RoundFailed, TaskArrived, TasksSent, TasksSpent
from fedfleet.core.parts import Offer, Plan
from fedfleet.core.records import Assignments, Context, Cost, Ints, Report, ServerState, whole_work
from fedfleet.core.sources import World
from fedfleet.core.task_cost import cost_of
from fedfleet.engine.state import unsettled
from fedfleet.measure.class_clock import Participation
from fedfleet.simulation.audit import NOBODY, without_learning
from fedfleet.simulation.simulator import Simulation, drive, fresh

_NEVER = 1 << 40  # commits between evaluations of which nobody wants any
_STAND_IN = Folding({}, {}, collected=[(Report(0, 0, {}, 1.0, {}), Context(0, 0.0, 0))])
_NO_OFFER = Offer({})
_MANY_TRIPS = 64


@dataclass(slots=True)
class Heard:
    """What a dry run has seen so far."""

    times: list[float] = field(default_factory=list[float])
    sizes: list[int] = field(default_factory=list[int])
    folded: list[tuple[int, float, int]] = field(default_factory=list[tuple[int, float, int]])
    asked: list[Ints] = field(default_factory=list[Ints])
    arrived: list[int] = field(default_factory=list[int])
    failed: dict[str, int] = field(default_factory=dict[str, int])

    def hear(self, events: Sequence[Event]) -> None:
        """Keep what counts of these events."""
        for event in events:
            if isinstance(event, TaskArrived):
                self.arrived.append(event.client)
            elif isinstance(event, TasksSent):
                self.asked.append(event.clients)
            elif isinstance(event, RoundFailed):
                self.failed[event.reason] = self.failed.get(event.reason, 0) + 1


@dataclass(slots=True)
class Dry(Simulation):
    """A simulation that trains nothing and tries nothing."""

    heard: Heard = field(default_factory=Heard)

    def gather(self, command: Gather) -> None:
        """Everything that arrived is folded, as it is in a run in which no report is refused."""
        now = self.state.book.now
        self.heard.times.append(now)
        self.heard.sizes.append(len(command.tasks))
        self.heard.folded += [
            (context.client, float(wave.asked.share[task - wave.first]), context.staleness)
            for task, wave, context in zip(command.tasks, command.waves, command.contexts, strict=True)
        ]
        self.facts.append(ReportsGathered(now, _STAND_IN, np.array(command.tasks, np.int64), {}))

    def evaluate(self, command: Evaluate) -> None:
        """Nobody knows how good a model is that was not trained."""
        self.facts.append(Evaluated(self.state.book.now, command.version, 0, 0, float("nan")))

    def account(self, command: Account) -> None:
        """What tasks cost matters only to a selector that hears of it."""
        if self.plan.choose.charge is not None or self.world.faults is not None:
            Simulation.account(self, command)
            return
        clients = [
            wave.asked.clients[task - wave.first] for task, wave in zip(command.tasks, command.waves, strict=True)
        ]
        tasks: Ints = np.array(command.tasks, np.int64)
        self.facts.append(TasksSpent(self.state.book.now, tasks, np.array(clients, np.int64), {}))
        if len(self.trips) > _MANY_TRIPS:
            there = {w.first for w in (*self.state.running.values(), *(e.wave for e in unsettled(self.state)))}
            self.trips = {first: trip for first, trip in self.trips.items() if first in there}


def dry_run(plan: Plan, world: World, *, seed: int | None = None) -> Participation:
    """Who will be in which model of this plan, without its rules about accuracy; `seed` draws its choices anew.

    Whoever chooses by what reports say cannot be foreseen: such a plan is refused.
    """
    if plan.choose.by_reports:
        raise BadInput(
            f"selector {plan.choose.name!r} chooses by what trained reports say, which nobody knows before training"
        )
    plan = _hollow(plan, world) if seed is None else replace(_hollow(plan, world), seed=seed)
    start = fresh(plan, world, NOBODY)
    sim = Dry(plan, world, NOBODY, eager=False, state=start.state, busy=start.busy)
    drive(sim, sim.heard.hear)
    return _participation(sim)


def _participation(sim: Dry) -> Participation:
    heard, clients = sim.heard, sim.plan.clients
    columns = np.array(heard.folded, np.float64).reshape(-1, 3)
    asked: Ints = np.concatenate(heard.asked) if heard.asked else np.zeros(0, np.int64)
    return Participation(
        times=np.array(heard.times),
        commit=np.repeat(np.arange(len(heard.sizes)), heard.sizes),
        clients=columns[:, 0].astype(np.int64),
        share=columns[:, 1],
        staleness=columns[:, 2].astype(np.int64),
        asked=np.bincount(asked, minlength=clients),
        arrived=np.bincount(np.array(heard.arrived, np.int64), minlength=clients),
        failed=dict(sorted(heard.failed.items(), key=lambda item: -item[1])),
        rounds=len(heard.times) + sum(heard.failed.values()),
        seconds=sim.state.book.now,
    )


def _hollow(plan: Plan, world: World) -> Plan:
    """The same decisions with a model of nothing; what tasks cost is reckoned once, unless it changes from model to model."""
    blind = {"target_accuracy": None, "patience": None, "evaluate_attempts": None, "evaluate_seconds": None}
    stop = replace(plan.stop, evaluate_every=_NEVER, **blind)
    if plan.algorithm.tick is not None:
        return replace(without_learning(plan), stop=stop)
    real, server, nothing = plan.algorithm, plan.algorithm.init(plan.params), ServerState({})
    sizes = world.data.sizes(0)
    whole = cost_of(real, server, whole_work(np.arange(plan.clients)), sizes)

    def cost(state: ServerState, asked: Assignments, samples: Ints) -> Cost:
        del state
        at = asked.clients
        usual = not asked.settings and not asked.steps.any() and bool((asked.share == 1.0).all())
        if not usual or not np.array_equal(samples, sizes[at]):
            return cost_of(real, server, asked, samples)
        batches = None if whole.batches is None else whole.batches[at]
        return Cost(whole.samples[at], whole.bytes_down[at], whole.bytes_up[at], batches)

    hollow = replace(
        real,
        init=lambda params: nothing,
        offer=lambda server, client, settings: _NO_OFFER,
        fold=Fold(lambda server: {}, combine=lambda inside: {}),
        apply=lambda server, aggregate: server,
        cost=cost,
        accept=None,
        priced_by_value=False,
    )
    return replace(plan, algorithm=hollow, params={}, stop=stop)
