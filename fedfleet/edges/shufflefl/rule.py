"""ShuffleFL as an edge's turn: plan the exchange, move the samples, train once on every device, average (Zhu et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from typing import Literal

import numpy as np

from fedfleet.core.edges import Abilities, EdgeRule, Sync, Turn, Visit
from fedfleet.core.limits import NonNegative, Share
from fedfleet.core.part_facts import FactsOf, TaskFacts
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import stream
from fedfleet.core.trees import Tree
from fedfleet.edges.shufflefl import gateways
from fedfleet.edges.shufflefl.gateways import group_counts, merge_classes, ungroup
from fedfleet.shuffle.plans import identity, largest_remainder, proportional
from fedfleet.shuffle.problem import PlanScore, Problem, link, problem_from, score
from fedfleet.shuffle.solve import solve_many

Gateway = Literal[
    "ours", "mixed", "raspberry_pi4", "jetson_nano_1", "jetson_nano_2", "jetson_tx2_1", "jetson_tx2_2",
    "jetson_xavier_1", "jetson_xavier_2",
]  # fmt: skip
LEAST_SECONDS = 1e-6  # per sample, assumed of a device that claims to need none: plans divide by this number


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
    task_facts = cache(facts)

    @cache
    def groups(share: float, seed: int) -> Ints:
        return merge_classes(task_facts().features() if share < 1.0 else np.zeros((task_facts().classes, 1)), share, seed)

    def problem_of(visit: Visit, counts: Ints, task: TaskFacts) -> Problem:
        abilities = visit.abilities
        return problem_from({
            "counts": counts, "seconds_per_sample": np.maximum(abilities.seconds_per_sample, LEAST_SECONDS), "alpha": alpha,
            "up_bps": abilities.up_bps, "down_bps": abilities.down_bps, "bits_per_sample": task.bits_per_sample,
            "epochs": task.epochs, "time_balance": time_balance,
        })  # fmt: skip

    def plans(problems: list[Problem]) -> list[Ints]:
        if solver == "none":
            return [identity(p) for p in problems]
        if solver == "proportional":
            shared = [(proportional(p).transpose(1, 0, 2)[None], p.counts.T[None]) for p in problems]
            return [largest_remainder(*both)[0].transpose(1, 0, 2) for both in shared]
        return [result.plan for result in solve_many(problems, quick=solver == "quick")]

    def planning(profile: str, task: TaskFacts, visit: Visit, groups: Ints) -> float:
        devices, planned = len(visit.devices), int(groups.max()) + 1
        if devices == 1 or solver in ("none", "proportional"):
            return 0.0
        if profile == "ours":
            return gateways.exact_seconds(planned, devices, sum(len(rows) for rows in visit.rows))
        return gateways.planning_seconds(profile, task.classes, devices, merged=planned < task.classes)

    def plan(visits: Sequence[Visit]) -> list[Turn]:
        task = task_facts()
        # The user's gateway; drawn by the key of its first device, where they are mixed.
        profiles = ["ours" if gateway == "ours" else gateways.profile_of(v.keys[:1], gateway, seed=v.seed)[0] for v in visits]
        auto = [1.0 if profile == "ours" else gateways.gamma(profile, task.classes) for profile in profiles]
        shares = auto if gamma is None else [gamma] * len(visits)
        merged, held = [groups(share, visits[0].seed) for share in shares], [_counts(visit, task) for visit in visits]
        problems = [problem_of(v, group_counts(h, g), task) for v, h, g in zip(visits, held, merged, strict=True)]
        if adaptive:
            # Each user's own alpha: the server weighs the users of a wave against each other, by how long they should take now.
            expected = [
                estimate(history_from_memory(v.memory), *means(v.abilities), epochs=task.epochs, printed=printed_eq8)
                for v in visits
            ]
            own = alphas(np.array([p.alpha for p in problems]), np.array(expected))
            problems = [replace(p, alpha=float(a)) for p, a in zip(problems, own, strict=True)]
        turns: list[Turn] = []
        for visit, problem, result, h, g, profile in zip(visits, problems, plans(problems), held, merged, profiles, strict=True):
            if len(g) != result.shape[1]:  # samples of a merged group are drawn at random
                result = ungroup(result, h, g, stream(visit.seed, "ungroup", visit.task))
            turns.append(_turn(visit, task, problem, result, planning(profile, task, visit, g)))
        return turns

    return EdgeRule("shufflefl", plan, moves_samples=True, by_labels=True)


def _counts(visit: Visit, task: TaskFacts) -> Ints:
    """Samples of each class on each device."""
    return np.stack([np.bincount(task.labels_of(rows), minlength=task.classes) for rows in visit.rows])


def _turn(visit: Visit, task: TaskFacts, problem: Problem, plan: Ints, planning: float) -> Turn:
    rows = move_rows(visit, task, plan)
    flows = plan.sum(1)
    pbar, bbar = means(visit.abilities)
    history = History(float("nan"), pbar, bbar, float(flows.sum()), float(flows.sum() - np.trace(flows)))
    holders = np.flatnonzero([len(device_rows) > 0 for device_rows in rows])
    sync = Sync(holders, tuple(rows[k] for k in holders.tolist()))
    return Turn(
        rows, (sync,), planning, exchange_seconds(problem, flows, visit.abilities), memory=history_to_memory(history),
        stats=_stats(visit, task, problem, plan),
    )  # fmt: skip


def exchange_seconds(problem: Problem, flows: Ints, abilities: Abilities) -> Floats:
    """Seconds that each device spends on sending and receiving samples (Eq. 5): both ends pay for both hops.

    All that v hands to j goes at once, half a trip up and half a trip down. The plan itself does not weigh that: a price for
    the first sample alone would make the problem another one than the paper's.
    """
    half = 0.5 * abilities.latencies()
    paid = flows * link(problem) + ((flows > 0) & ~np.eye(len(flows), dtype=bool)) * (half[:, None] + half)
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


# ---- scale factor -------------------------------------------------------------------------------------------------
# How much evenness a user should ask for, given how slow it was: the adaptive scaling factor (paper, Eq. 8-10).
#
# A user that needed h seconds the last time, and whose devices and links have changed since, should now need about beta h.
# Users quicker than the mean can afford to even out their data, slower ones look after their time.


@dataclass(frozen=True, slots=True)
class History:
    """A user's last participation: how long it took, the means over its devices then, what it held and what it moved."""

    seconds: float  # h, from the download of the model to the upload of the user's own
    seconds_per_sample: float  # mean of p
    bandwidth: float  # mean of (up + down) / 2
    samples: float
    moved: float  # samples that changed device


def means(abilities: Abilities) -> tuple[float, float]:
    """Mean seconds per sample and mean bandwidth (up + down) / 2 of a user's devices (below Eq. 8)."""
    return float(abilities.seconds_per_sample.mean()), float((0.5 * (abilities.up_bps + abilities.down_bps)).mean())


def kappa(samples: float, moved: float, *, epochs: float) -> float:
    """The share of computing in a user's time, 3 E sum|D| / (3 E sum|D| + moved); 1 where there is nothing at all (Eq. 9).

    The paper prints it without E, though each sample is trained on E times (Eq. 6) and moved once: say epochs=1 for that.

    >>> kappa(100, 60, epochs=5) > kappa(100, 60, epochs=1)
    True
    """
    work = 3.0 * epochs * samples
    return work / (work + moved) if work + moved > 0.0 else 1.0


def slowdown_factor(history: History, pbar: float, bbar: float, kappa: float, *, printed: bool = False) -> float:
    """beta, by which a user's time has changed since: kappa p_now / p_then + (1 - kappa) b_then / b_now.

    Time grows with seconds per sample and falls with bandwidth, as the paper itself says below Eq. 8. The equation as
    `printed` has both ratios the other way round, which calls a user quick when its devices have become slow.
    """
    computing, links = (pbar, history.seconds_per_sample), (history.bandwidth, bbar)
    if printed:
        computing, links = computing[::-1], links[::-1]
    slower, thinner = _ratio(*computing), _ratio(*links)
    return kappa * slower + (1.0 - kappa) * thinner


def _ratio(after: float, before: float) -> float:
    """after / before: 1 where nothing changed, even from nothing (devices that need no time), NaN where none can be said."""
    if after == before:
        return 1.0
    return after / before if before > 0.0 else float("nan")


def estimate(history: History | None, pbar: float, bbar: float, *, epochs: float, printed: bool = False) -> float:
    """Seconds that a user should need now, beta h; NaN at first. Users keep what they hold: the samples are those of Eq. 9 now."""
    if history is None:
        return float("nan")
    computing = kappa(history.samples, history.moved, epochs=epochs)
    return slowdown_factor(history, pbar, bbar, computing, printed=printed) * history.seconds


def alphas(base: Floats, estimates: Floats) -> Floats:
    """alpha_u = alpha mean(h) / h_u (Eq. 10): the mean is over users with an estimate, the others keep their alpha.

    >>> alphas(np.full(3, 8.0), np.array([10.0, 30.0, np.nan])).round(3).tolist()
    [16.0, 5.333, 8.0]
    """
    known = np.isfinite(estimates) & (estimates > 0.0)
    result = base.astype(np.float64)
    if known.any():
        result[known] *= estimates[known].mean() / estimates[known]
    return result


def history_to_memory(history: History) -> Tree:
    """A history as arrays, for an edge's memory; the engine writes the "seconds" of a turn there itself, so they may be NaN."""
    return {f.name: np.array([value], np.float64) for f, value in zip(fields(history), astuple(history), strict=True)}


def history_from_memory(memory: Tree) -> History | None:
    """The history in an edge's memory; None if the edge was never asked."""
    names = [f.name for f in fields(History)]
    if not all(name in memory for name in names):
        return None
    return History(*(float(memory[name][0]) for name in names))
