"""Lower bounds that hold: Lagrangian cuts in closed form, and their minimum over all t.

Take any weights y with max + std >= y . SL, prices lambda >= 0, floors nu >= 0 and any slopes s = gradient of G somewhere.
G is convex and grows in proportion, so G(x) >= s . x everywhere, and for every plan with DI <= t and N_v >= L

    max SL + std SL >= sum_{v,i} d_vi min_j [ (y_v + y_j) w_vj + y_j a_j + lambda_j (s_ji - t) - nu_j ] + L sum_j nu_j = D(t).

No optimality enters: whatever the path follower returned, D is a bound, tight when it converged. D is concave in t, so
between t1 and t2 the sum D(t) + price(t) is at least its smaller end value. The cone G(x) <= t N contains x = 0 for every t, so
plans with emptied devices, whose DI is larger than that, are covered too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedfleet.shuffle.central_path import Path
from fedfleet.shuffle.divergence import Floats
from fedfleet.shuffle.problem_batch import RelaxedProblems


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
    present = stack.supply[take[0]].sum(1) > 0.0
    slope = np.where(present[:, None], path.slope[take], 0.0)
    return Cuts(cost, path.prices[take], slope, path.raised[take], stack.supply[take[0]])


def join_cuts(first: Cuts, second: Cuts) -> Cuts:
    """Both sets of cuts."""
    names = ("cost", "prices", "slope", "raised")
    return Cuts(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names), supply=first.supply)


def floor_gain(cuts: Cuts, floor: float, *, closed: tuple[int, ...] = ()) -> Floats:
    """What N_v >= floor on every device that is not closed adds to each cut, [K]; floor in the units of the stack."""
    kept = [j for j in range(cuts.raised.shape[1]) if j not in closed]
    return floor * cuts.raised[:, kept].sum(1)


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
