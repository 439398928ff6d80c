"""ShuffleFL as an edge's turn: plan the exchange, move the samples, train once on every device, average (Zhu et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from fedfleet.core.edges import Abilities, EdgeRule, Sync, Turn, Visit
from fedfleet.core.limits import NonNegative, Share
from fedfleet.core.part_facts import FactsOf, TaskFacts
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import stream
from fedfleet.edges.shufflefl import gateways, scale_factor
from fedfleet.edges.shufflefl.gateways import group_counts, merge_classes, ungroup
from fedfleet.shuffle.plans import identity, largest_remainder, proportional
from fedfleet.shuffle.problem import PlanScore, Problem, link, problem_from, score
from fedfleet.shuffle.solve import solve_many

Gateway = Literal[
    "ours", "mixed", "raspberry_pi4", "jetson_nano_1", "jetson_nano_2", "jetson_tx2_1", "jetson_tx2_2",
    "jetson_xavier_1", "jetson_xavier_2",
]  # fmt: skip
LEAST_SECONDS = 1e-6  # per sample, assumed of a device that claims to need none: plans divide by this number


@dataclass(frozen=True, slots=True)
class _Settings:
    """The settings of the rule."""

    solver: str
    alpha: float | str
    balance: bool
    adaptive: bool
    printed: bool
    gateway: str
    gamma: float | None


def shufflefl(
    *,
    solver: Literal["quick", "exact", "proportional", "none"] = "quick",
    alpha: NonNegative | Literal["auto"] = "auto",
    time_balance: bool = True,
    adaptive: bool = True,
    printed_eq8: bool = False,
    gateway: Gateway = "ours",
    gamma: Share | None = None,
    facts: FactsOf,
) -> EdgeRule:
    """ShuffleFL: a user's devices exchange samples, as Eq. (7) finds best, train on what they then hold, and are averaged.

    The ladder of the paper's Fig. 2: I is solver = "none", II time_balance = false with adaptive = false, III adaptive =
    false, IV the default. `adaptive` scales alpha by how slow a user was (Eq. 8-10; `printed_eq8` takes Eq. 8 as printed,
    whose ratios are upside down). `alpha` is never stated in the paper: "auto" gives both terms equal weight.

    `gateway` says whose planning time is charged: that of our own solver ("ours"), or that of the paper's solver on one of
    its gateways or an even mixture of them; these also merge classes, as the paper's Table 5 says. If `gamma` is given,
    classes are merged down to that share of them, whatever the gateway.
    """
    settings = _Settings(solver, alpha, time_balance, adaptive, printed_eq8, gateway, gamma)
    task_facts = cache(facts)

    @cache
    def groups(share: float, seed: int) -> Ints:
        return merge_classes(task_facts().features() if share < 1.0 else np.zeros((task_facts().classes, 1)), share, seed)

    def plan(visits: Sequence[Visit]) -> list[Turn]:
        task = task_facts()
        profiles = [_profile(settings, visit) for visit in visits]
        merged = [groups(_gamma(settings, profile, task.classes), visits[0].seed) for profile in profiles]
        held = [_counts(visit, task) for visit in visits]
        problems = _scale_alphas(
            settings,
            visits,
            [_problem(settings, v, group_counts(h, g), task) for v, h, g in zip(visits, held, merged, strict=True)],
            task,
        )
        plans = _plans(settings, problems)
        return [
            _turn(visit, task, problem, _plan_by_class(visit, result, h, g), _planning(settings, profile, task, visit, g))
            for visit, problem, result, h, g, profile in zip(visits, problems, plans, held, merged, profiles, strict=True)
        ]

    return EdgeRule("shufflefl", plan)


# ---- before planning ----------------------------------------------------------------------------------------------


def _counts(visit: Visit, task: TaskFacts) -> Ints:
    """Samples of each class on each device."""
    return np.stack([np.bincount(task.labels_of(rows), minlength=task.classes) for rows in visit.rows])


def _problem(settings: _Settings, visit: Visit, counts: Ints, task: TaskFacts) -> Problem:
    abilities = visit.abilities
    return problem_from({
        "counts": counts, "seconds_per_sample": np.maximum(abilities.seconds_per_sample, LEAST_SECONDS), "up_bps": abilities.up_bps,
        "down_bps": abilities.down_bps, "bits_per_sample": task.bits_per_sample, "epochs": task.epochs, "alpha": settings.alpha,
        "time_balance": settings.balance,
    })  # fmt: skip


def _scale_alphas(settings: _Settings, visits: Sequence[Visit], problems: list[Problem], task: TaskFacts) -> list[Problem]:
    """Each user's own alpha: the server weighs the users of a wave against each other, by how long they should take now."""
    if not settings.adaptive:
        return problems
    expected = [
        scale_factor.estimate(
            scale_factor.history_from_memory(v.memory),
            *scale_factor.means(v.abilities),
            epochs=task.epochs,
            printed=settings.printed,
        )
        for v in visits
    ]
    own = scale_factor.alphas(np.array([p.alpha for p in problems]), np.array(expected))
    return [replace(p, alpha=float(a)) for p, a in zip(problems, own, strict=True)]


def _profile(settings: _Settings, visit: Visit) -> str:
    """The user's gateway; drawn by the key of its first device, where they are mixed."""
    return (
        settings.gateway
        if settings.gateway == "ours"
        else gateways.profile_of(visit.keys[:1], settings.gateway, seed=visit.seed)[0]
    )


def _gamma(settings: _Settings, profile: str, classes: int) -> float:
    if settings.gamma is not None:
        return settings.gamma
    return 1.0 if profile == "ours" else gateways.gamma(profile, classes)


def _planning(settings: _Settings, profile: str, task: TaskFacts, visit: Visit, groups: Ints) -> float:
    devices, planned = len(visit.devices), int(groups.max()) + 1
    if devices == 1 or settings.solver in ("none", "proportional"):
        return 0.0
    if profile == "ours":
        return gateways.exact_seconds(planned, devices, sum(len(rows) for rows in visit.rows))
    return gateways.planning_seconds(profile, task.classes, devices, merged=planned < task.classes)


# ---- planning and moving ------------------------------------------------------------------------------------------


def _plans(settings: _Settings, problems: list[Problem]) -> list[Ints]:
    match settings.solver:
        case "none":
            return [identity(p) for p in problems]
        case "proportional":
            return [
                largest_remainder(proportional(p).transpose(1, 0, 2)[None], p.counts.T[None])[0].transpose(1, 0, 2)
                for p in problems
            ]
        case _:
            return [result.plan for result in solve_many(problems, quick=settings.solver == "quick")]


def _plan_by_class(visit: Visit, plan: Ints, held: Ints, groups: Ints) -> Ints:
    """The plan by class; samples of a merged group are drawn at random."""
    if len(groups) == plan.shape[1]:
        return plan
    return ungroup(plan, held, groups, stream(visit.seed, "ungroup", visit.task))


def _turn(visit: Visit, task: TaskFacts, problem: Problem, plan: Ints, planning: float) -> Turn:
    rows = move_rows(visit, task, plan)
    flows = plan.sum(1)
    pbar, bbar = scale_factor.means(visit.abilities)
    off = float(flows.sum() - np.trace(flows))
    history = scale_factor.History(float("nan"), pbar, bbar, float(flows.sum()), off)
    holders = np.flatnonzero([len(device_rows) > 0 for device_rows in rows])
    sync = Sync(holders, tuple(rows[k] for k in holders.tolist()))
    return Turn(
        rows, (sync,), planning, exchange_seconds(problem, flows, visit.abilities), memory=scale_factor.history_to_memory(history),
        stats=_stats(visit, task, problem, plan),
    )  # fmt: skip


def exchange_seconds(problem: Problem, flows: Ints, abilities: Abilities) -> Floats:
    """Seconds that each device spends on sending and receiving samples (Eq. 5): both ends pay for both hops.

    All that v hands to j goes at once, half a trip up and half a trip down. The plan itself does not weigh that: a price for
    the first sample alone would make the problem another one than the paper's.
    """
    half = 0.5 * abilities.latencies()
    sends = (flows > 0) & ~np.eye(len(flows), dtype=bool)
    paid = flows * link(problem) + sends * (half[:, None] + half)
    return paid.sum(1) + paid.sum(0)


def move_rows(visit: Visit, task: TaskFacts, plan: Ints) -> tuple[Ints, ...]:
    """The rows of each device after the exchange; which samples of a class go is drawn at random, once for each turn."""
    rng = stream(visit.seed, "move", visit.task)
    parts: list[list[Ints]] = [[] for _ in visit.rows]
    for v, rows in enumerate(visit.rows):
        order = rng.permutation(rows)
        labels = task.labels_of(order)
        for label in np.unique(labels).tolist():
            subset = order[labels == label]
            for j, some in enumerate(np.split(subset, np.cumsum(plan[v, label])[:-1])):
                parts[j].append(some)
    after = (np.concatenate([*some, np.zeros(0, np.int64)]) for some in parts)
    # What stays keeps its order, so that where nothing moves batches are those of the device alone.
    return tuple(
        np.concatenate([before[np.isin(before, mine)], np.setdiff1d(mine, before)])
        for before, mine in zip(visit.rows, after, strict=True)
    )


def _stats(visit: Visit, task: TaskFacts, problem: Problem, plan: Ints) -> dict[str, float]:
    """Imbalance and latency before and after, always counted by class, so that runs with merged classes compare too."""
    whole = replace(problem, counts=_counts(visit, task))
    after, before = score(whole, plan), score(whole, identity(whole))

    def score_fields(when: str, plan_score: PlanScore) -> dict[str, float]:
        return {f"imbalance_{when}": plan_score.max_imbalance, f"latency_{when}": plan_score.max_latency}

    return {"alpha": problem.alpha, "objective": after.objective, **score_fields("before", before), **score_fields("after", after)}
