"""What only the world knows of a run afterwards: what tasks that were given up would have needed, who holds how much, and how
fast and how often reachable devices are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedfleet.app.assemble import Setup, assemble
from fedfleet.app.runs.custom_task import load_custom_task
from fedfleet.app.spec import Spec
from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import CandidatesSeen, Event, TasksSent
from fedfleet.core.records import DROPPED, Assignments, Cost, Floats, Ints, Wave
from fedfleet.core.sources import World
from fedfleet.core.stages import stages_of
from fedfleet.measure.tasks import Tasks
from fedfleet.simulation.trips import ready_seconds, trip_of

MOST = 100_000  # clients of a fleet whose world is made again for a page
WEEK = 604_800.0
_LOOKS = 20_000_000  # clients that are looked at, over all moments
_DRAWS, _BYTES = 8, 1e7
_WAVES = 5000  # broadcasts that are carried out once more
_MOVING = ("latency", "download", "upload", "delivery")


@dataclass(frozen=True, slots=True)
class Needs:
    """What each task of a run would have needed, in the order of ids: `seconds` from being sent to being back (infinite: never), of
    which the device was at work for `worked`, `moving` the model for so long; NaN where nobody asked."""

    seconds: Floats
    worked: Floats
    moving: Floats


@dataclass(frozen=True, slots=True)
class Hindsight:
    """What the world of a run says of its clients.

    `samples` are those that each holds for training; `reached` how many of the `looks` at the fleet, when rounds asked for clients,
    found each of them (`every`: these are all such moments); `mbps` is the mean link speed (NaN: not known), `ready` the share of
    `horizon` seconds in which each can be reached. `needs` is None where no world can tell. `people` says how many people
    are dealt to how many clients, where the data are dealt by owner.
    """

    samples: Ints
    reached: Ints
    looks: int
    all_moments: bool
    mbps: Floats
    ready: Floats
    horizon: float
    needs: Needs | None
    people: str = ""


def hindsight(spec: Spec, events: Sequence[Event], tasks: Tasks, folder: Path) -> Hindsight | None:
    """The world of a simulated run, looked at once more; None where it cannot be made again: files that are gone, a fleet too large
    for a page. The folder has what an own task needs for that; none of its code is run."""
    if spec.world["clients"] > MOST:
        return None
    try:
        custom_task = load_custom_task(folder, spec, need_metrics=False)
        setup = assemble(spec, custom_task.task if custom_task else None)
    except FedFleetError:
        return None
    return compute_hindsight(setup, events, tasks)


def compute_hindsight(setup: Setup, events: Sequence[Event], tasks: Tasks) -> Hindsight:
    """The same from what a spec assembles to."""
    world, n = setup.world, setup.plan.clients
    everyone = np.arange(n)
    moments = sorted({e.time for e in events if isinstance(e, CandidatesSeen)})
    most = max(_LOOKS // max(n, 1), 50)
    looks = np.unique(np.linspace(0, len(moments) - 1, min(most, len(moments))).astype(np.int64)).tolist()
    reached = np.zeros(n, np.int64)
    for i in looks:
        reached += world.states.online(moments[i])
    last = events[-1].time if events else 0.0
    horizon = max(last, WEEK)
    ready = ready_seconds(world.states, everyone, 0.0, np.full(n, horizon)) / horizon
    return Hindsight(
        np.asarray(world.data.sizes(0), np.int64), reached, len(looks), len(looks) == len(moments), speeds(world, everyone),
        ready, horizon, needs(setup, events, tasks), "" if setup.people is None else str(setup.people),
    )  # fmt: skip


def speeds(world: World, clients: Ints) -> Floats:
    """Mean download speed of each client in Mbit/s over some draws; NaN where its source charges no bytes."""
    none = np.zeros(len(clients))
    cost = Cost(none, np.full(len(clients), _BYTES), none)
    result = np.zeros(len(clients))
    for draw in range(_DRAWS):
        seconds = stages_of(world.devices, clients, cost, 0.0, np.full(len(clients), draw)).get("download", none)
        with np.errstate(divide="ignore"):
            result += np.where((seconds > 0) & np.isfinite(seconds), 8e-6 * _BYTES / seconds, np.nan) / _DRAWS
    return result


def needs(setup: Setup, events: Sequence[Event], tasks: Tasks) -> Needs | None:
    """The trips of tasks that were given up once more, to their end; those that came are as the journal says.

    None if nobody was given up, if there are more broadcasts than a page can wait for, if the price of a task is known only to
    whoever did it, or if the world disagrees with the journal about any report of the same broadcasts that came.
    """
    plan, world = setup.plan, setup.world
    given_up = tasks.fate == DROPPED
    waves = [e for e in events if isinstance(e, TasksSent) and given_up[e.first : e.first + len(e.clients)].any()]
    if plan.algorithm.priced_by_value or not 0 < len(waves) <= _WAVES:
        return None
    server = plan.algorithm.init(plan.params)
    seconds, worked, moving = (np.full(len(tasks.fate), np.nan) for _ in range(3))
    for e in waves:
        assignments = Assignments(e.clients, e.steps, e.share, e.settings, e.due)
        price = scale_cost(cost_of(plan.algorithm, server, assignments, world.data.sizes(e.round)[e.clients]), plan.byte_scale)
        cost = Cost(e.samples, e.bytes_down, price.bytes_up, price.batches)
        wave = Wave(e.first, e.round, e.version, e.time, assignments, world.keys[e.clients], cost, server)
        trip = trip_of(plan, world, wave, {})
        rows = slice(e.first, e.first + len(e.clients))
        seconds[rows] = np.where(trip.lost, np.inf, trip.comes - e.time)
        worked[rows] = trip.seconds
        moving[rows] = sum((trip.stages[name] for name in _MOVING if name in trip.stages), np.zeros(len(e.clients)))
    folded = tasks.folded_into > 0
    comparable = folded & ~np.isnan(seconds)
    agrees = np.allclose(seconds[comparable], tasks.seconds[comparable], rtol=1e-9, atol=1e-6)
    return Needs(np.where(folded, tasks.seconds, seconds), worked, moving) if agrees else None
