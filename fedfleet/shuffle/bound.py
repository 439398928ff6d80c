"""Lower bounds that hold: Lagrangian cuts in closed form, and their minimum over all t.

Take any weights y with max + std >= y . SL, prices lambda >= 0, floors nu >= 0 and any slopes s = gradient of G somewhere.
G is convex and grows in proportion, so G(x) >= s . x everywhere, and for every plan with DI <= t and N_v >= L

    max SL + std SL >= sum_{v,i} d_vi min_j [ (y_v + y_j) w_vj + y_j a_j + lambda_j (s_ji - t) - nu_j ] + L sum_j nu_j = D(t).

No optimality enters: whatever the path follower returned, D is a bound, tight when it converged. D is concave in t, so
between t1 and t2 the sum D(t) + price(t) is at least its smaller end value. The cone G(x) <= t N contains x = 0 for every t, so
plans with emptied devices, whose DI is larger than that, are covered too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.central_path import Path
from fedfleet.shuffle.divergence import EMPTY, LARGEST, Floats, least_imbalance
from fedfleet.shuffle.problem import Problem
from fedfleet.shuffle.problem_batch import RelaxedProblems, price, take_problems


@dataclass(frozen=True, slots=True)
class Cuts:
    """K cuts for one problem; in the units of its stack."""

    cost: Floats  # [K, V, V] price of sending from v to j
    prices: Floats  # [K, V]
    slope: Floats  # [K, c, V]
    raised: Floats  # [K, V] nu, the price of every device's floor
    supply: Floats  # [c, V]


def cuts_of(stack: RelaxedProblems, path: Path, *, rows: NDArray[np.integer] | None = None) -> Cuts:
    """The cuts of the ends of paths, all of which belong to copies of one problem with other restrictions."""
    take = np.arange(len(path.t)) if rows is None else rows
    y, link, seconds = path.weights[take], stack.links[take], stack.effort[take]
    cost = (y[:, :, None] + y[:, None, :]) * link + (y * seconds - path.raised[take])[:, None, :]
    slope = np.where((stack.supply[take[0]].sum(1) > 0.0)[:, None], path.slope[take], 0.0)
    return Cuts(cost, path.prices[take], slope, path.raised[take], stack.supply[take[0]])


def join_cuts(first: Cuts, second: Cuts) -> Cuts:
    """Both sets of cuts."""
    names = ("cost", "prices", "slope", "raised")
    return Cuts(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names), supply=first.supply)


def cut_values(cuts: Cuts, t: Floats, *, closed: tuple[int, ...] = ()) -> Floats:
    """D_k(t) with L = 0 for every cut and every t, [K, G]; `closed` devices receive nothing."""
    present = cuts.supply.sum(1) > 0.0
    supply = cuts.supply[present]
    receivers = [j for j in range(cuts.prices.shape[1]) if j not in closed]
    offset = cuts.slope[:, present] * cuts.prices[:, None, :]  # [K, c, V]
    result = np.empty((len(cuts.prices), len(t)))
    for k in range(len(result)):
        fixed = cuts.cost[k][:, None, :] + offset[k]  # [V, c, V]
        best = None
        for j in receivers:
            value = fixed[:, :, j][None] - (cuts.prices[k, j] * t)[:, None, None]
            best = value if best is None else np.minimum(best, value, out=best)
        result[k] = np.tensordot(best, supply.T, axes=([1, 2], [0, 1])) if best is not None else 0.0
    return result


# ---- bounds for whole plans ---------------------------------------------------------------------------------------
# A lower bound for whole plans: all of them, sorted into cases, each case a relaxed problem with more to obey.
#
# A device with n whole samples has DI of at least js(n) (`least_imbalance`). So a whole plan whose smallest device holds L
# samples obeys N_v >= L and t >= js(L). A plan with exactly one empty device has t >= (ln 2)/2, one receiver less, and some
# smallest size L among the others; a plan with two or more empty devices has at least two receivers less.

_ONE_BY_ONE = 96  # sizes of the smallest device are looked at one by one up to here, then in blocks
_LISTED = 8192  # sizes whose least imbalance is computed
_UNBOUNDED = -1.0


@dataclass(frozen=True, slots=True)
class Case:
    """Whole plans in which the `closed` devices are empty and every other device holds at least `least` samples."""

    closed: tuple[int, ...]
    least: int
    low: float  # no t below this


def all_cases(problem: Problem) -> list[Case]:
    """Cases that together hold every whole plan."""
    devices, total = len(problem.counts), int(problem.counts.sum())
    js = least_imbalance(problem.counts.sum(0), _LISTED)
    cases = [Case((), *size) for size in _sizes(js, total // devices)]
    sizes = _sizes(js, total // max(devices - 1, 1))
    cases += [Case((v,), least, max(low, EMPTY)) for v in range(devices) for least, low in sizes]
    if devices > 2:
        cases += [Case(pair, 0, EMPTY) for pair in combinations(range(devices), 2)]
    return cases


def _sizes(js: Floats, top: int) -> list[tuple[int, float]]:
    """Sizes of the smallest device, in blocks (first size, least js inside) that cover 1 .. top."""
    if top < 1:
        return []
    edges = np.unique(np.concatenate([np.arange(1, min(top, _ONE_BY_ONE) + 1), np.geomspace(1, top, 64).astype(int)]))
    ends = np.append(edges[1:] - 1, top)
    # Beyond the list any size may be perfectly even, for all that is known.
    return [(int(a), float(js[a : z + 1].min()) if z < len(js) else 0.0) for a, z in zip(edges, ends, strict=True)]


def case_bounds(stack: RelaxedProblems, cases: list[Case], cuts: Cuts, *, enough: float) -> tuple[Floats, Floats]:
    """A bound in seconds for each case, and the t where it is weakest; closing a device only raises a cut, so it comes last."""
    least, unit = float(stack.least[0]), float(stack.unit[0])
    lows = np.maximum([case.low for case in cases], least)
    knots = np.unique(np.concatenate([lows, [LARGEST], (least + (LARGEST - least) * np.linspace(0, 1, 40) ** 3)]))
    prices = price(stack, knots)[0]
    known: dict[tuple[int, ...], Floats] = {(): cut_values(cuts, knots) + prices}
    mass = float(stack.mass[0])
    bounds, weakest = np.empty(len(cases)), np.empty(len(cases))
    first = np.searchsorted(knots, lows - 1e-15)
    for k, case in enumerate(cases):
        # What N_v >= floor on every device that is not closed adds to each cut.
        kept = [j for j in range(cuts.raised.shape[1]) if j not in case.closed]
        gain = case.least / mass * cuts.raised[:, kept].sum(1)[:, None]
        for closed in (case.closed[:n] for n in range(len(case.closed) + 1)):  # each closes one device more
            if closed not in known:
                known[closed] = cut_values(cuts, knots, closed=closed) + prices
            values = known[closed][:, first[k] :] + gain
            lower = np.append(np.minimum(values[:, :-1], values[:, 1:]).max(0), values[:, -1].max())
            g = int(lower.argmin())
            lower, g = lower[g], g + first[k]
            bounds[k], weakest[k] = lower * unit, 0.5 * (knots[g] + knots[min(g + 1, len(knots) - 1)])
            if bounds[k] >= enough:
                break
    return bounds, weakest


def restrict_to_cases(stack: RelaxedProblems, cases: list[Case], *, pinned: Floats | None = None) -> RelaxedProblems:
    """Copies of one problem, each under the restrictions of a case; `pinned` fixes their t."""
    copies = take_problems(stack, np.zeros(len(cases), np.int64))
    devices = stack.effort.shape[1]
    open_ = np.array([[v not in case.closed for v in range(devices)] for case in cases])
    even = float(stack.supply.sum()) / open_.sum(1)
    floor = np.minimum([case.least / stack.mass[0] for case in cases], 0.995 * even)
    low = np.array([case.low if case.low > stack.least[0] else _UNBOUNDED for case in cases])
    pin = copies.pinned if pinned is None else np.maximum(pinned, stack.least[0] * (1.0 + 1e-9) + 1e-12)
    return replace(copies, floor=floor, low=low, open=open_, pinned=pin)
