"""Who will take part in a run: its own pacing, rounds and failure rules on its own fleet, drawn several times, without training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup
from fedfleet.app.spec.table_checks import Table
from fedfleet.choose.uniform import uniform
from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Plan, stateless
from fedfleet.core.records import Context, Cost, Floats, Ints, whole_work
from fedfleet.core.sources import World
from fedfleet.measure.class_clock import Participation, always_on_clock
from fedfleet.measure.round_model import Rules, walk_rounds
from fedfleet.simulation.dry_run import dry_run

_ROUNDS = ("deadline", "readiness")
_TRIP = 7919  # between the task numbers of drawn trips
_SEED_STEP = 1_000_003  # draws of a prediction are as far from a run's own seed as this prime


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is known of a fleet's data before training: labels by client, and the shares of labels in the test set."""

    labels: Ints
    test: Floats


def fleet_of(setup: Setup) -> Fleet:
    """Count the labels that each client trains on, and those of the central test set."""
    data, set_ = setup.world.data, setup.task.dataset
    counts = [np.bincount(set_.y[data.shard(c, "train", 0)], minlength=set_.classes) for c in range(setup.plan.clients)]
    test = np.bincount(set_.y[data.holdout], minlength=set_.classes).astype(np.float64)
    return Fleet(np.stack(counts).astype(np.int64), test / max(float(test.sum()), 1.0))


def other_seeds(seed: int, draws: int) -> list[int]:
    """Seeds that the run itself does not have: what is foreseen must hold for a fleet whose luck nobody knows."""
    return [seed + _SEED_STEP * (i + 1) for i in range(draws)]


def expected_participation(setup: Setup, seeds: Sequence[int]) -> tuple[list[Participation], list[str]]:
    """Who takes part in this run with the choices of each seed; and what had to be left out of account, in sentences."""
    plan, notes = predictable_plan(setup)
    rules = round_rules(setup.spec.pace, plan, setup.world)
    if rules is None:
        return [dry_run(plan, setup.world, seed=seed) for seed in seeds], notes
    price = _cost_function(plan, setup.world)
    return [walk_rounds(rules, plan.stop, plan.choose, setup.world, price, seed=seed) for seed in seeds], notes


def predictable_plan(setup: Setup) -> tuple[Plan, list[str]]:
    """The plan as far as it can be foreseen, and what was replaced; refused where nothing could be said."""
    plan, notes = setup.plan, list[str]()
    if plan.algorithm.pooled:
        raise BadInput(f"predict: {plan.algorithm.name!r} trains in one place, so there is no fleet to take part")
    if setup.spec.edge is not None:
        raise BadInput(
            "predict: how long an [edge] takes follows from its own training, which cannot be foreseen; remove [edge]"
        )
    if plan.choose.by_reports:
        notes.append(
            f"{plan.choose.name} chooses by what trained reports say, which nobody knows before training: foreseen is a uniform "
            "choice in its place"
        )
        plan = replace(plan, choose=uniform())
    if plan.algorithm.priced_by_value:
        notes.append(
            "bytes that depend on trained values are charged as they are foreseen, before compression by value"
        )
    stop = plan.stop
    if stop.target_accuracy is not None or stop.patience is not None:
        notes.append("rules that end a run by its accuracy are left out: the curve goes on to the last round")
    return plan, notes


def staleness_factors(plan: Plan, part: Participation) -> Floats | None:
    """By how much each report is shortened for being late, by the algorithm's own rule (FedBuff's 1 / sqrt(1 + tau)).

    None: nobody is late, or the rule does not shorten what is late.
    """
    fold = plan.algorithm.fold
    if not fold.ages or not part.staleness.any():
        return None
    try:
        entries = [fold.enter(1.0, {}, Context(tau, 1.0, 0)) for tau in range(int(part.staleness.max()) + 1)]
    except KeyError:  # it goes by what a trained report tells
        return None
    factor = np.array([entry.factor for entry in entries]) / (entries[0].factor or 1.0)
    return factor[part.staleness]


def round_rules(pace: Table, plan: Plan, world: World) -> Rules | None:
    """The numbers of a policy whose rounds can be walked through; None: only a dry run knows."""
    if pace["use"] not in _ROUNDS or pace["max_staleness"] or pace["if_few"] != "fail":
        return None
    if pace.get("lease", math.inf) != math.inf or world.faults is not None or plan.algorithm.tick is not None:
        return None
    chooser = plan.choose
    if chooser.learn or chooser.probe or chooser.charge or chooser.sees or chooser.tailors:
        return None
    if chooser.initial is not stateless:
        return None
    return Rules(
        pace["cohort"], pace.get("ready_share", 1.0), pace.get("seconds", math.inf), pace["t_break"], pace["min_clients"],
        pace["min_share"],
    )  # fmt: skip


def _cost_function(plan: Plan, world: World) -> Callable[[Ints, int], Cost]:
    """What tasks cost by client and round; reckoned once where shards never change."""
    server, everyone, sizes = plan.algorithm.init(plan.params), np.arange(plan.clients), world.data.sizes(0)
    full_cost = scale_cost(cost_of(plan.algorithm, server, whole_work(everyone), sizes), plan.byte_scale, plan.charge)

    def cost(clients: Ints, round: int) -> Cost:
        now = world.data.sizes(round)
        if now is not sizes and not np.array_equal(now, sizes):
            work = whole_work(clients)
            return scale_cost(cost_of(plan.algorithm, server, work, now[clients]), plan.byte_scale, plan.charge)
        batches = None if full_cost.batches is None else full_cost.batches[clients]
        return Cost(full_cost.samples[clients], full_cost.bytes_down[clients], full_cost.bytes_up[clients], batches)

    return cost


def closed_form(setup: Setup, labels: Ints, *, cohort: int, noise: float, draws: int = 64) -> dict[str, Any] | None:
    """Commits and class clock by the formula that holds where everyone is always there and a deadline decides; else None."""
    plan, _ = predictable_plan(setup)
    rules = round_rules(setup.spec.pace, plan, setup.world)
    always = setup.spec.world["states"]["use"] == "always_on" or setup.spec.world["heterogeneity"] in (
        "devices",
        "none",
    )
    if rules is None or rules.seconds == math.inf or not always or plan.choose.name != "uniform":
        return None
    success = np.mean([seconds <= rules.seconds for seconds in _trips(setup, draws)], axis=0)
    least = rules.need(rules.cohort)
    commits, clock = always_on_clock(success, labels, cohort=cohort, rounds=plan.stop.rounds, least=least, noise=noise)
    return {"commits": commits, "clock": {str(c): float(t) for c, t in enumerate(clock)}}


def mean_samples(setup: Setup) -> float:
    """For how many samples a task is charged on average."""
    return float(_cost_function(setup.plan, setup.world)(np.arange(setup.plan.clients), 0).samples.mean())


def mean_bytes(setup: Setup) -> float:
    """How many bytes a task moves each way, on average over clients and the two ways."""
    cost = _cost_function(setup.plan, setup.world)(np.arange(setup.plan.clients), 0)
    return float(np.mean([cost.bytes_down, cost.bytes_up]))


def trip_seconds(setup: Setup, draws: int = 8) -> Floats:
    """How long a trip takes each client on average, if it is never interrupted; infinite if its device cannot do it."""
    return np.mean(_trips(setup, draws), axis=0)


def _trips(setup: Setup, draws: int) -> list[Floats]:
    """How long a trip takes each client, drawn so many times."""
    everyone: Ints = np.arange(setup.plan.clients)
    cost = _cost_function(setup.plan, setup.world)(everyone, 0)
    return [
        setup.world.devices.seconds(everyone, cost, 0.0, np.full(len(everyone), _TRIP * (i + 1))) for i in range(draws)
    ]


def reachable_share(world: World, seconds: float, looks: int = 200) -> Floats:
    """In which share of the time each client can be reached, at evenly spaced looks."""
    times = (np.arange(looks) + 0.5) * max(seconds, 1.0) / looks
    return np.mean([world.states.online(float(t)) for t in times], axis=0)
