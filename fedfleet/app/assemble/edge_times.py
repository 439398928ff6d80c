"""How long a turn of an edge takes: what its rule plans for some edges at the start, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.edges import NestedPass
from fedfleet.core.parts import Job, Plan
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Floats, Ints, whole_work
from fedfleet.core.sources import World
from fedfleet.engine.hierarchy import make_visits, turn_cost, turn_seconds

_EDGES = 8  # that are planned for
_SLOW = 10.0  # times a flat round, from which on a run says so unasked


@dataclass(frozen=True, slots=True)
class EdgeTimes:
    """The seconds of a usual turn, how many averages are in it, and the seconds of a task of the edge's slowest device without
    edges."""

    rule: str
    seconds: float
    averages: int
    flat: float

    @property
    def slow(self) -> bool:
        """Does a turn take many times what a flat round would? Then a warning says it."""
        return self.seconds >= _SLOW * self.flat

    def __str__(self) -> str:
        averages = f"{self.averages} averages" if self.averages > 1 else "one average"
        return (
            f"edge: a turn of {self.rule!r} with its {averages} takes about {self.seconds:,.3g} s of virtual time if nothing "
            f"interrupts it, {self.seconds / self.flat:.2g} times as long as one task of the slowest device behind the edge "
            f"({self.flat:,.3g} s)"
        )


def edge_times(plan: Plan, world: World) -> EdgeTimes | None:
    """The median over some edges; None for a run without edges."""
    half = plan.algorithm.local(0, NO_SETTINGS)
    if not isinstance(half, NestedPass):
        return None
    server, edges = plan.algorithm.init(plan.params), np.unique(np.linspace(0, plan.clients - 1, _EDGES).astype(np.int64))
    jobs = [
        Job(
            i, edge, int(world.keys[edge]), plan.seed, plan.algorithm.offer(server, edge, NO_SETTINGS), half,
            world.data.shard(edge, "train", 0),
        )
        for i, edge in enumerate(edges.tolist())
    ]  # fmt: skip
    visits = make_visits(jobs)
    turns = half.rule.plan(visits)
    seconds = [turn_seconds(turn_cost(job, visit, turn)) for job, visit, turn in zip(jobs, visits, turns, strict=True)]
    flat = _flat_seconds(plan, world, edges)
    return EdgeTimes(half.rule.name, float(np.median(seconds)), max(len(turn.syncs) for turn in turns), float(np.median(flat)))


def _flat_seconds(plan: Plan, world: World, edges: Ints) -> Floats:
    """How long a task would take the slowest device of each edge, with its share of the data."""
    server, sizes = plan.algorithm.init(plan.params), world.data.sizes(0)[edges]
    half = plan.algorithm.local(0, NO_SETTINGS)
    assert isinstance(half, NestedPass)
    cost = scale_cost(cost_of(half.algorithm, server, whole_work(edges), sizes), half.fleet.byte_scale)
    return world.devices.seconds(edges, cost, 0.0, np.zeros(len(edges), np.int64))


def slow_turns(plan: Plan, world: World) -> list[str]:
    """A warning where a turn takes many times what a flat round would."""
    times = edge_times(plan, world)
    if times is None or not times.slow:
        return []
    return [f"{times}; compare runs by virtual time, or have fewer averages (edge.syncs, edge.kappa2)"]
