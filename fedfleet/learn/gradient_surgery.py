"""Gradient surgery for late reports (FLHetBench's BiasPrompt+): what conflicts with the way the model goes is cut off.

Reports stream into one exact sum per staleness; everything here is arithmetic on those few means, in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from fedfleet.core.aggregation import Aggregate, Entry, Mean
from fedfleet.core.bounds import Ge, Lt
from fedfleet.core.errors import Refused
from fedfleet.core.limits import Natural, Positive
from fedfleet.core.parts import Algorithm
from fedfleet.core.records import Context, ServerState
from fedfleet.core.trees import Tree
from fedfleet.learn.staleness import Damping, Exponent, Weight, change_entries, staleness_weight

Form = Literal["sum", "seq", "naive"]
_PREFIX = "surgery/"  # of what the server's rule remembers
_ROUNDING = 1e-8


def surgery(
    algorithm: Algorithm,
    *,
    form: Form = "seq",
    server_momentum: Annotated[float, Ge(0), Lt(1)] = 0.9,
    server_lr: Positive = 0.1,
    damping: Damping = "polynomial",
    a: Exponent = 0.5,
    b: Natural = 4,
) -> Algorithm:
    """Late reports lose what conflicts with the server's momentum before they are added (the + of FLHetBench's BiasPrompt+).

    v <- server_momentum v + mean(fresh), then w <- w + server_lr (v + stale), where stale loses its part along v if
    <stale, v> < 0. The stale aggregate is, with form = "sum", the mean of the late updates damped by s(tau) = (1 + tau)^-a (or
    `damping`); with "seq" their plain mean, built up from the oldest: whatever of the older ones conflicts with the next younger
    is cut off first. "naive" adds the damped mean as it is. Meant for pace.use = "deadline" with max_staleness = 5. The released
    code has server_lr = 1 beside local rates of 1e-3, which at our local rate overshoots.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> surgery(fedavg()).fold.enter(8.0, {}, Context(3, 1.0, 0))
    Entry(weight=8.0, factor=1.0, sum='3', parts=None)
    """
    weight = staleness_weight(damping, a, b)

    def init(params: Tree) -> ServerState:
        server = algorithm.init(params)
        zeros = {
            _PREFIX + n: np.zeros_like(v) for n, v in algorithm.fold.like(server).items() if np.issubdtype(v.dtype, np.floating)
        }
        return ServerState(server.params, {**server.extra, **zeros})

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        home = server.params.keys() - {n for m in aggregate.sums.values() for n in m.tree} if aggregate.sums else set[str]()
        names = [n.removeprefix(_PREFIX) for n in server.extra if n.startswith(_PREFIX)]
        before = {n: server.extra[_PREFIX + n] for n in names if n not in home}
        velocity = next_velocity(before, aggregate.sums.get("0"), server_momentum)
        stale = stale_part({int(s): m for s, m in aggregate.sums.items() if s != "0"}, velocity, form, weight)
        step = {n: np.asarray(server_lr * (v + stale[n] if stale else v), before[n].dtype) for n, v in velocity.items()}
        new_state = algorithm.apply(server, Aggregate(step, aggregate.weight, aggregate.count))
        return ServerState(new_state.params, {**new_state.extra, **{_PREFIX + n: v for n, v in velocity.items()}})

    fold = change_entries(algorithm, "there are no sums to operate on", _sum_by_staleness)
    return replace(algorithm, name=f"{algorithm.name}_plus", init=init, fold=fold, apply=apply)


def _sum_by_staleness(entry: Entry, context: Context) -> Entry:
    if entry.sum:
        raise Refused(f"it belongs to the sum {entry.sum!r} already, and surgery needs one sum for each staleness")
    return entry._replace(sum=str(context.staleness))


def next_velocity(before: Tree, fresh: Mean | None, momentum: float) -> Tree:
    """The server's velocity after the fresh mean, in the type in which it is remembered."""
    return {
        n: np.asarray(momentum * v.astype(np.float64) + (0.0 if fresh is None else fresh.tree[n]), v.dtype)
        for n, v in before.items()
    }


def stale_part(sums: Mapping[int, Mean], velocity: Tree, form: Form, weight: Weight) -> Tree:
    """What late reports add to the step, in float64, from their means by staleness; empty if there are none."""
    total = sum(m.weight for m in sums.values())
    if not total:
        return {}
    stale: Tree = {}
    for tau in sorted(sums, reverse=True):  # the oldest first
        share = sums[tau].weight / total * (1.0 if form == "seq" else weight(tau))
        own = {n: share * v.astype(np.float64) for n, v in sums[tau].tree.items()}
        if stale and form == "seq":
            stale = without_conflict(stale, own)
        stale = {n: v + stale[n] for n, v in own.items()} if stale else own
    return stale if form == "naive" else without_conflict(stale, velocity)


def without_conflict(change: Tree, direction: Tree) -> Tree:
    """The change without its part against `direction`; as it is, if the two do not conflict. One product over the whole tree.

    >>> without_conflict({"w": np.array([-1.0, 2.0])}, {"w": np.array([1.0, 0.0])})["w"].tolist()
    [0.0, 2.0]
    """
    along, square = dot(change, direction), dot(direction, direction)
    if along >= 0.0 or square == 0.0:
        return change
    remainder = {n: v - along / square * direction[n].astype(np.float64) for n, v in change.items()}
    if dot(remainder, remainder) <= _ROUNDING**2 * dot(change, change):  # the change went straight back: what is left is rounding
        return {n: np.zeros_like(v) for n, v in remainder.items()}
    return remainder


def dot(a: Tree, b: Tree) -> float:
    """The inner product of two trees, in float64."""
    return float(sum(np.vdot(v.astype(np.float64), b[n].astype(np.float64)) for n, v in a.items()))
