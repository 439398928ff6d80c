"""What ended tasks really cost: seconds by stage, bytes and energy, for all waves of a commit together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedfleet.core.commands import Account
from fedfleet.core.events import TasksSpent
from fedfleet.core.records import Bools, Floats, Ints, WaveTasks, by_wave
from fedfleet.core.sources import World
from fedfleet.core.stages import STAGES, fraction_done, stages_after
from fedfleet.engine.state import RunState, open_endings
from fedfleet.simulation.trips import FACTS, Trip, ready_seconds

_MANY_TRIPS = 64  # below which it is not worth looking through them


class OpenTrips(dict[int, Trip]):
    """Trips by the first tasks of their waves, of waves whose tasks are not all accounted for, and perhaps some more."""

    __slots__ = ("_most",)

    def __init__(self) -> None:
        super().__init__()
        self._most = _MANY_TRIPS

    def tidy(self, state: RunState) -> None:
        """Forget waves that are over, whenever there are twice as many as were left the last time."""
        if len(self) <= self._most:
            return
        live_waves = {w.first for w in (*state.running.values(), *(e.wave for e in open_endings(state)))}
        for first in [first for first in self if first not in live_waves]:
            del self[first]
        self._most = max(_MANY_TRIPS, 2 * len(self))


def task_costs(world: World, command: Account, now: float, trips: Mapping[int, Trip]) -> TasksSpent:
    """What ended tasks really cost: work up to their end, or to when something befell them, and bytes and energy with it."""
    groups = by_wave(command.tasks, command.waves)
    tasks: Ints = np.array(command.tasks, np.int64)
    took = np.array(command.seconds)
    if not math.isfinite(took.sum()):
        took = np.nan_to_num(took)
    clients, starts, columns = _costs(world, groups, trips, took)
    if world.energy is not None:
        seconds = {name: columns[name] for name in STAGES if name in columns}
        for name, values in world.energy.charges(clients, seconds, starts).items():
            measured = columns.get(name, np.zeros(len(tasks)))
            columns[name] = np.where(measured > 0, measured, values)  # who measured knows better
    return TasksSpent(now, tasks, clients, {name: values for name, values in columns.items() if values.any()})


def _costs(
    world: World, groups: Sequence[WaveTasks], trips: Mapping[int, Trip], took: Floats
) -> tuple[Ints, Floats, dict[str, Floats]]:
    """Clients, starts, and costs of tasks of some waves that ended after so many seconds, all waves together.

    Compared are seconds since the wave was sent, never moments: what arrived took just what it was going to take, to the last bit.
    """
    own = [trips[group.wave.first] for group in groups]
    names = own[0].names()
    alike = all(trip.names() == names for trip in own)
    if not alike:
        stages, charges = ({name for trip in own for name in trip.names()[i]} for i in (0, 1))
        names = tuple(name for name in STAGES if name in stages), tuple(sorted(charges))
    spent_names = (*names[0], "bytes_down", "bytes_up", *names[1])
    rows = [trip.rows(group.wave, names)[group.slots] for trip, group in zip(own, groups, strict=True)]
    table = np.concatenate(rows).T.copy()
    ids, starts, _, done, _, comes, able, lost, *_ = table
    clients, needs = ids.astype(np.int64), done - starts
    complete = (able > 0) & (lost == 0) & (took >= needs)
    # Who finished spent what was foreseen.
    foreseen = complete.all() and not names[1]
    spent = table[FACTS:] if foreseen else _partial_costs(world, groups, table, took, complete, names[0])
    late = np.where(complete, np.maximum(np.minimum(took, comes - starts) - needs, 0.0), 0.0)
    result = dict(zip(spent_names, spent, strict=True))
    if late.any():
        result["delivery"] = late
    if not alike:  # in the order in which the waves have them, which the journal keeps
        order: dict[str, None] = {}
        for trip, group in zip(own, groups, strict=True):
            delivery = ("delivery",) if late[group.start : group.stop].any() else ()
            order |= dict.fromkeys((*trip.names()[0], "bytes_down", "bytes_up", *trip.names()[1], *delivery))
        result = {name: result[name] for name in order}
    return clients, starts, result


def _partial_costs(
    world: World, groups: Sequence[WaveTasks], table: Floats, took: Floats, complete: Bools, stage_names: Sequence[str]
) -> list[Floats]:
    """What tasks spent of which some were given up or lost: stages, bytes and charges, in the order of the table."""
    ids, starts, seconds, _, stops, _, able_column, lost, stage, part, *columns = table
    able, clients, stops = able_column > 0, ids.astype(np.int64), stops - starts
    stages = {name: np.where(able, column, 0.0) for name, column in zip(stage_names, columns, strict=False)}
    down, up, *charges = columns[len(stages) :]
    worked, partial = np.where(able, seconds, 0.0), able & ~complete
    for group in groups:
        at = group.start + np.flatnonzero(partial[group.start : group.stop])
        if len(at):
            stop = group.wave.time + np.minimum(took[at], stops[at])
            worked[at] = np.minimum(worked[at], ready_seconds(world.states, clients[at], group.wave.time, stop))
    # Whoever finished spent what the stages say to the last bit; differences of sums would not.
    result = [np.where(complete, stages[name], column) for name, column in stages_after(stages, worked).items()]
    share = np.divide(worked, seconds, out=np.zeros(len(seconds)), where=able & (seconds > 0))
    # Where a task was lost says how much of each stage was done, also of one that takes no time.
    loss_stage = np.where((lost > 0) & able & (took >= stops), stage, -1.0)
    for name, size in (("download", down), ("upload", up)):
        place = STAGES.index(name)
        at_loss = np.where(place < loss_stage, 1.0, np.where(place == loss_stage, part, 0.0))
        moved = np.where(complete, 1.0, np.where(loss_stage >= 0, at_loss, fraction_done(stages, name, worked)))
        result.append(np.where(able, size * moved, 0.0))
    return [*result, *(charge * share for charge in charges)]
