"""Who will take part in a run: its own pacing, rounds and failure rules on its own fleet, drawn several times, without training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedfleet.app.assemble import Setup
from fedfleet.app.terminal.text import percent, span
from fedfleet.choose.uniform import uniform
from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Plan, stateless
from fedfleet.core.records import Bools, Context, Cost, Floats, Ints, whole_work
from fedfleet.core.round_rules import RoundRules
from fedfleet.core.sources import World
from fedfleet.core.strata import Strata, strata, stratum_names
from fedfleet.measure.class_clock import Participation, always_on_clock
from fedfleet.measure.round_model import walk_rounds
from fedfleet.simulation.dry_run import dry_run

_TRIP = 7919  # between the task numbers of drawn trips
_SEED_STEP = 1_000_003  # draws of a prediction are as far from a run's own seed as this prime


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is known of a fleet's data before training: labels by client, and the shares of labels in the test set.

    Numbers count by the bins that partitions deal by, several labels of a sample each, sequences all alike.
    `names` are what these are called, `noun` is what each of them is.
    """

    labels: Ints
    test: Floats
    names: tuple[str, ...] = ()
    noun: str = "label"


_NOUNS = {"regression": "target", "next_token": "data", "sequence_labels": "data"}


def fleet_of(setup: Setup) -> Fleet:
    """Count the labels that each client trains on, and those of the central test set."""
    data, set_ = setup.world.data, setup.task.dataset
    noun = _NOUNS.get(set_.kind.name, "label")
    if set_.y.dtype.kind == "b":  # a sample counts for each label that it has
        counts = [set_.y[data.shard(c, "train", 0)].sum(0) for c in range(setup.plan.clients)]
        test = set_.y[data.holdout].sum(0).astype(np.float64)
        known = stratum_names(set_, Strata(np.zeros(0, np.int64), set_.y.shape[1] + 1))[:-1]
        return Fleet(np.stack(counts).astype(np.int64), test / max(float(test.sum()), 1.0), known, noun)
    if set_.kind.places:
        found, names = Strata(np.zeros(len(set_.y), np.int64), 1), ("all samples",)
    else:
        found = strata(set_, "world.data")
        names = stratum_names(set_, found)
    counts = [np.bincount(found.of[data.shard(c, "train", 0)], minlength=found.count) for c in range(setup.plan.clients)]
    test = np.bincount(found.of[data.holdout], minlength=found.count).astype(np.float64)
    return Fleet(np.stack(counts).astype(np.int64), test / max(float(test.sum()), 1.0), names, noun)


def other_seeds(seed: int, draws: int) -> list[int]:
    """Seeds that the run itself does not have: a prediction must hold for a fleet whose luck is not known."""
    return [seed + _SEED_STEP * (i + 1) for i in range(draws)]


def expected_participation(setup: Setup, seeds: Sequence[int]) -> tuple[list[Participation], list[str]]:
    """Who takes part in this run with the choices of each seed; and what had to be left out of account, in sentences."""
    plan, notes = predictable_plan(setup)
    rules = walkable_rules(plan, setup.world)
    cost = _cost_function(plan, setup.world)

    def participation(seed: int) -> Participation:
        walk = None if rules is None else walk_rounds(rules, plan.stop, plan.choose, setup.world, cost, seed=seed)
        return dry_run(plan, setup.world, seed=seed) if walk is None else walk

    return [participation(seed) for seed in seeds], notes


def predictable_plan(setup: Setup) -> tuple[Plan, list[str]]:
    """The plan as far as it can be predicted, and what was replaced; refused where no prediction is possible."""
    plan, notes = setup.plan, list[str]()
    if plan.algorithm.pooled:
        raise BadInput(f"predict: {plan.algorithm.name!r} trains in one place, so there is no participation to predict")
    if setup.spec.edge is not None:
        raise BadInput("predict: the time of an [edge] depends on its own training, which cannot be predicted; remove [edge]")
    if plan.choose.unpredictable:
        notes.append(f"{plan.choose.name} {plan.choose.unpredictable}; the prediction uses a uniform choice instead")
        plan = replace(plan, choose=uniform())
    if plan.algorithm.priced_by_value:
        notes.append("bytes that depend on trained values are predicted without compression by value")
    stop = plan.stop
    if stop.target_accuracy is not None or stop.patience is not None:
        notes.append("stop rules that depend on accuracy are ignored: the curve goes on to the last round")
    return plan, notes


def staleness_factors(plan: Plan, part: Participation) -> Floats | None:
    """By how much each report is shortened for being late, by the algorithm's own rule (FedBuff's 1 / sqrt(1 + tau)).

    None: no report is late, or the rule does not shorten what is late.
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


def walkable_rules(plan: Plan, world: World) -> RoundRules | None:
    """The rules of rounds that can be walked through; None: only a dry run knows."""
    rules, chooser = plan.pace.round_rules, plan.choose
    if rules is None or not rules.independent or world.faults is not None or plan.algorithm.tick is not None:
        return None
    if chooser.learn or chooser.probe or chooser.charge or chooser.sees or chooser.tailors:
        return None
    return rules if chooser.initial is stateless else None


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
    rules = walkable_rules(plan, setup.world)
    limit = math.inf if rules is None else rules.time_limit
    if rules is None or limit == math.inf or not setup.world.states.always or not plan.choose.equal_chance:
        return None
    success = np.mean([seconds <= limit for seconds in _trips(setup, draws)], axis=0)
    least = rules.need(rules.cohort, rules.cohort)
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
    return [setup.world.devices.seconds(everyone, cost, 0.0, np.full(len(everyone), _TRIP * (i + 1))) for i in range(draws)]


def reachable_share(world: World, seconds: float, looks: int = 200) -> Floats:
    """In which share of the time each client can be reached, at evenly spaced looks."""
    times = (np.arange(looks) + 0.5) * max(seconds, 1.0) / looks
    return np.mean([world.states.online(float(t)) for t in times], axis=0)


# ---- clients that are left out ------------------------------------------------------------------------------------
# What they have in common: slow devices, little time in reach, the labels that they hold.

_HARDLY = 0.1  # of an equal share of all reports
_OUT = 0.5  # who has fewer reports in models than this, on average over draws, is left out
_LONGER, _LESS = 1.2, 0.8  # differences that are worth a word


def exclusion_summary(setup: Setup, parts: Sequence[Participation], clock: Floats, fleet: Fleet | None = None) -> dict[str, Any]:
    """The shares of clients that are in no model and hardly in any, how they differ from the others, and the labels with them."""
    folded = np.stack([part.folded_counts for part in parts])
    fair = float(folded.mean())
    hardly = (folded > 0) & (folded < _HARDLY * fair)
    excluded = folded.mean(axis=0) < max(_OUT, _HARDLY * fair)
    trips = trip_seconds(setup)
    reach = reachable_share(setup.world, max(part.seconds for part in parts))
    slow = trips > setup.plan.pace.patience
    shown = clock / clock.mean() if clock.mean() > 0 else np.ones(len(clock))
    result: dict[str, Any] = {
        "never": float((folded == 0).mean()),
        "hardly": float(hardly.mean()),
        "too_slow": float(slow.mean()),
        "trip_seconds": _group_medians(trips, excluded),
        "reachable": _group_medians(reach, excluded),
        "classes": {name: float(share) for name, share in zip(clock_names(fleet, len(shown)), shown, strict=True)},
    }
    return {**result, "sentence": _sentence(result, "label" if fleet is None else fleet.noun)}


def clock_names(fleet: Fleet | None, count: int) -> Sequence[str]:
    """What the entries of a clock are called; classes by their numbers."""
    return fleet.names if fleet is not None and len(fleet.names) == count else [str(c) for c in range(count)]


def _group_medians(values: Floats, excluded: Bools) -> dict[str, float | None]:
    """The median of those who are left out and of the others; None where there is no client, or no number."""
    middle = [float(np.median(values[some])) if some.any() else math.nan for some in (excluded, ~excluded)]
    return dict(zip(("left_out", "others"), (m if math.isfinite(m) else None for m in middle), strict=True))


def _sentence(result: dict[str, Any], noun: str) -> str:
    if result["never"] + result["hardly"] == 0:
        return "No client will be left out."
    phrases = [
        f"{percent(result[key])} {phrase}"
        for key, phrase in (("never", "of clients will contribute to no model"), ("hardly", "of clients to hardly any"))
        if result[key]
    ]
    why = list[str]()
    trip, reach = result["trip_seconds"], result["reachable"]
    if result["too_slow"]:
        why.append(f"{percent(result['too_slow'])} of all clients take longer for a trip, on average, than a round waits")
    if trip["left_out"] and trip["others"] and trip["left_out"] > _LONGER * trip["others"]:
        why.append(f"a trip takes excluded clients {span(trip['left_out'])} (others {span(trip['others'])})")
    if reach["left_out"] is not None and reach["others"] is not None and reach["left_out"] < _LESS * reach["others"]:
        why.append(
            f"excluded clients can be reached {percent(reach['left_out'])} of the run's time (others {percent(reach['others'])})"
        )
    least = min(result["classes"], key=lambda c: result["classes"][c])
    labels = ""
    if result["classes"][least] < _LESS:
        labels = f" {noun.capitalize()} {least} is trained on {percent(result['classes'][least])} as often as an average {noun}."
    return f"{' and '.join(phrases)}{': ' + '; '.join(why) if why else ''}.{labels}"
