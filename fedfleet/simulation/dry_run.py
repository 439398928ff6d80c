"""Dry runs: who will be in which model and when, by the run's own coordinator, policy and world, without training anything.

A report's arrival depends on cost and world, never on the values in it. So whatever chooses and waits without looking at values
does here exactly what it does in the run of the same seed, and what a fleet will let happen is known before anyone trains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedfleet.core.aggregation import Fold
from fedfleet.core.commands import Account, Evaluate, Gather
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, Event, ReportsGathered, RoundFailed, TaskArrived, TasksSent, TasksSpent
from fedfleet.core.parts import Offer, Plan
from fedfleet.core.records import Assignments, Cost, Ints, ServerState, clients_of_tasks, whole_work
from fedfleet.core.sources import World
from fedfleet.measure.class_clock import Participation
from fedfleet.simulation.audit import NO_EXECUTOR, STAND_IN, without_learning
from fedfleet.simulation.simulator import Simulation, drive, new_simulation

_NEVER = 1 << 40  # commits between evaluations that are not wanted
_NO_OFFER = Offer({})


@dataclass(slots=True)
class DryRunLog:
    """What a dry run has seen so far."""

    times: list[float] = field(default_factory=list[float])
    sizes: list[int] = field(default_factory=list[int])
    folded: list[tuple[int, float, int]] = field(default_factory=list[tuple[int, float, int]])
    asked: list[Ints] = field(default_factory=list[Ints])
    arrived: list[int] = field(default_factory=list[int])
    failed: Counter[str] = field(default_factory=Counter[str])

    def record(self, events: Sequence[Event]) -> None:
        """Keep what counts of these events."""
        for event in events:
            if isinstance(event, TaskArrived):
                self.arrived.append(event.client)
            elif isinstance(event, TasksSent):
                self.asked.append(event.clients)
            elif isinstance(event, RoundFailed):
                self.failed[event.reason] += 1


@dataclass(slots=True)
class DrySimulation(Simulation):
    """A simulation that trains nothing and tries nothing."""

    log: DryRunLog = field(default_factory=DryRunLog)

    def gather(self, command: Gather) -> None:
        """Everything that arrived is folded, as it is in a run in which no report is refused."""
        now = self.state.book.now
        self.log.times.append(now)
        self.log.sizes.append(len(command.tasks))
        self.log.folded += [
            (context.client, float(wave.assignments.share[task - wave.first]), context.staleness)
            for task, wave, context in zip(command.tasks, command.waves, command.contexts, strict=True)
        ]
        self.facts.append(ReportsGathered(now, STAND_IN, np.array(command.tasks, np.int64), {}))

    def evaluate(self, command: Evaluate) -> None:
        """Nobody knows how good a model is that was not trained."""
        self.facts.append(Evaluated(self.state.book.now, command.version, 0, 0, float("nan")))

    def account(self, command: Account) -> None:
        """What tasks cost matters only to a selector that hears of it."""
        if self.plan.choose.charge is not None or self.world.faults is not None:
            Simulation.account(self, command)
            return
        tasks: Ints = np.array(command.tasks, np.int64)
        self.facts.append(TasksSpent(self.state.book.now, tasks, clients_of_tasks(command.tasks, command.waves), {}))
        self.trips.tidy(self.state)


def dry_run(plan: Plan, world: World, *, seed: int | None = None) -> Participation:
    """Who will be in which model of this plan, without its rules about accuracy; `seed` draws its choices anew.

    Whoever chooses by what reports say cannot be foreseen: such a plan is refused.
    """
    if plan.choose.unpredictable:
        raise BadInput(f"selector {plan.choose.name!r} {plan.choose.unpredictable}")
    plan = _without_training(plan, world) if seed is None else replace(_without_training(plan, world), seed=seed)
    start = new_simulation(plan, world, NO_EXECUTOR)
    sim = DrySimulation(plan, world, NO_EXECUTOR, eager=False, state=start.state, busy=start.busy)
    drive(sim, sim.log.record)
    log, clients = sim.log, plan.clients
    columns = np.array(log.folded, np.float64).reshape(-1, 3)
    asked: Ints = np.concatenate([np.zeros(0, np.int64), *log.asked])
    return Participation(
        times=np.array(log.times), commit=np.repeat(np.arange(len(log.sizes)), log.sizes),
        clients=columns[:, 0].astype(np.int64), share=columns[:, 1], staleness=columns[:, 2].astype(np.int64),
        asked=np.bincount(asked, minlength=clients), arrived=np.bincount(np.array(log.arrived, np.int64), minlength=clients),
        failed=dict(log.failed.most_common()), rounds=len(log.times) + log.failed.total(), seconds=sim.state.book.now,
    )  # fmt: skip


def _without_training(plan: Plan, world: World) -> Plan:
    """The same decisions with a model of nothing; what tasks cost is reckoned once, unless it changes from model to model."""
    blind = {"target_accuracy": None, "patience": None, "evaluate_attempts": None, "evaluate_seconds": None}
    stop = replace(plan.stop, evaluate_every=_NEVER, **blind)
    if plan.algorithm.tick is not None:
        return replace(without_learning(plan), stop=stop)
    real, server, nothing = plan.algorithm, plan.algorithm.init(plan.params), ServerState({})
    sizes = world.data.sizes(0)
    whole_cost = cost_of(real, server, whole_work(np.arange(plan.clients)), sizes)

    def cost(state: ServerState, asked: Assignments, samples: Ints) -> Cost:
        del state
        at, whole, batches = asked.clients, whole_cost, whole_cost.batches
        if asked.settings or asked.steps.any() or not (asked.share == 1.0).all() or not np.array_equal(samples, sizes[at]):
            return cost_of(real, server, asked, samples)
        batches = None if batches is None else batches[at]
        return Cost(whole.samples[at], whole.bytes_down[at], whole.bytes_up[at], batches)

    empty_algorithm = replace(
        real, init=lambda params: nothing, offer=lambda server, client, settings: _NO_OFFER,
        fold=Fold(lambda server: {}, combine=lambda inside: {}), apply=lambda server, aggregate: server, cost=cost, accept=None,
        priced_by_value=False,
    )  # fmt: skip
    return replace(plan, algorithm=empty_algorithm, params={}, stop=stop)
