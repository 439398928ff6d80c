"""Trips: how the tasks of a wave go, from being sent to their arrival, with what goes wrong on the way and what it costs."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.commands import Account, Forget
from fedfleet.core.events import ReportUnwanted, TaskArrivals, TasksSpent
from fedfleet.core.parts import Plan
from fedfleet.core.records import Bools, Cost, Floats, Ints, Report, Wave, WaveTasks, by_wave
from fedfleet.core.sources import StateSource, World
from fedfleet.core.stages import STAGES, StageSeconds, fraction_done, seconds_before, stages_after, stages_of, total
from fedfleet.engine.state import RunState, open_endings

LATE, AGAIN = "late", "again"
MANY_TRIPS = 64  # below which it is not worth looking through them
_HALVINGS = 64


@dataclass(slots=True)
class Trip:
    """The tasks of one wave, column by column; times are absolute.

    `done` is when the work, up to the last byte of the report, is finished if nothing befalls it, `stops` when the device really
    stops working, `comes` when the report arrives (infinite: never), `again` how many seconds later once more (infinite: never).
    `able`: the device can do the work at all. `lost`: the report is lost, and `noticed`: the server hears of that when it happens.
    `charges` are costs that the worker reported by itself, such as joules, for the whole work.
    """

    stages: StageSeconds
    seconds: Floats
    done: Floats
    stops: Floats
    comes: Floats
    again: Floats
    able: Bools
    lost: Bools
    noticed: Bools
    stage: Ints  # where it is lost: a place in STAGES; -1: the device went down
    part: Floats  # how much of that stage was done
    cost: Cost
    charges: Mapping[str, Floats]
    _names: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    _rows: tuple[tuple[tuple[str, ...], tuple[str, ...]], Floats] | None = None

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Its stages, in their order, and its charges."""
        if self._names is None:
            self._names = tuple(name for name in STAGES if name in self.stages), tuple(self.charges)
        return self._names

    def rows(self, wave: Wave, names: tuple[tuple[str, ...], tuple[str, ...]]) -> Floats:
        """What decides the costs of each task, a row for each: `_FACTS`, then these stages, bytes and charges.

        They are kept: the tasks of a wave end in many rounds where clients are replaced one by one.
        """
        if self._rows is None or self._rows[0] != names:
            n, (stages, charges) = len(self.seconds), names
            none = np.zeros(n)
            columns = (
                wave.assignments.clients, np.full(n, wave.time), self.seconds, self.done, self.stops, self.comes, self.able,
                self.lost, self.stage, self.part, *(self.stages.get(name, none) for name in stages), self.cost.bytes_down,
                self.cost.bytes_up, *(self.charges.get(name, none) for name in charges),
            )  # fmt: skip
            self._rows = names, np.array(columns, np.float64).T.copy()
        return self._rows[1]

    def reason(self, slot: int) -> str:
        """Why a task is lost."""
        if not self.able[slot]:
            return "the device cannot do this work"
        stage = int(self.stage[slot])
        return f"lost in {STAGES[stage]}" if stage >= 0 else "the device went down"


@dataclass(slots=True)
class Arrivals:
    """The tasks of one wave in the order in which they will end, as plain columns; `position` is the next one.

    `plain`: every report comes, and once.
    """

    times: list[float]
    tasks: list[int]
    clients: list[int]
    seconds: list[float]
    bytes_up: list[float]
    plain: bool = True
    position: int = 0


def arrivals_of(trip: Trip, wave: Wave) -> Arrivals:
    """The ends of a wave's tasks, in their order."""
    ends = np.where(trip.lost, trip.stops, trip.comes)
    order = np.argsort(ends, kind="stable")
    tasks = np.arange(wave.first, wave.first + len(wave))
    columns = (ends, tasks, wave.assignments.clients, ends - wave.time, trip.cost.bytes_up)
    plain = not trip.lost.any() and bool(np.isinf(trip.again).all())
    return Arrivals(*(column[order].tolist() for column in columns), plain=plain)


def take_arrivals(
    queue: list[tuple[float, int, int, Any]], kind: int, running: Container[int], count: int, limit: float
) -> TaskArrivals | None:
    """Take up to that many arrivals before `limit` from the head of a queue, as long as nothing else comes between them.

    Entries of the queue are (time, kind, first task, arrivals of that wave); only waves whose reports all come, and once, are
    taken. Tasks that do not run any more are passed over.
    """
    times: list[float] = []
    tasks: list[int] = []
    clients: list[int] = []
    seconds: list[float] = []
    bytes_up: list[float] = []
    while count > 0:
        time, entry_kind, first, item = queue[0]
        if entry_kind != kind or not item.plain or time >= limit:
            break
        a, ends = item.position, item.times
        # Until the next entry of the queue is due this wave is alone; of several at one instant the queue knows the order.
        until = min(limit, queue[1][0] if len(queue) > 1 else limit, queue[2][0] if len(queue) > 2 else limit)
        b = max(a + 1, bisect_left(ends, until, a, min(len(ends), a + count)))
        places = [i for i in range(a, b) if item.tasks[i] in running]
        if len(places) == b - a:
            times += ends[a:b]
            tasks += item.tasks[a:b]
            clients += item.clients[a:b]
            seconds += item.seconds[a:b]
            bytes_up += item.bytes_up[a:b]
        else:
            for column, source in (
                (times, ends), (tasks, item.tasks), (clients, item.clients), (seconds, item.seconds), (bytes_up, item.bytes_up),
            ):  # fmt: skip
                column += [source[i] for i in places]
        count -= len(places)
        item.position = b
        if b < len(ends):
            heapq.heapreplace(queue, (ends[b], kind, first, item))
        else:
            heapq.heappop(queue)
        if not queue:
            break
    return TaskArrivals(times, tasks, clients, seconds, bytes_up) if tasks else None


def trip_of(plan: Plan, world: World, wave: Wave, reports: Mapping[int, Report]) -> Trip:
    """A pure function of wave, world and the reports that were made already, so that a resume can repeat it."""
    clients, n = wave.assignments.clients, len(wave)
    tasks: Ints = np.arange(wave.first, wave.first + n)
    cost = price(plan, wave, reports)
    stages: StageSeconds = dict(stages_of(world.devices, clients, cost, wave.time, tasks))
    charges: dict[str, Floats] = {}
    if plan.algorithm.priced_by_value:
        stages, charges = _apply_reported_costs(stages, [reports.get(task) for task in tasks.tolist()])
    if world.faults is not None:
        slower = world.faults.slowdown(clients, wave.time, tasks)
        stages = {name: took * slower for name, took in stages.items()}
    seconds = total(stages)
    able = np.isfinite(seconds)
    done = np.full(n, wave.time)
    if able.any():
        done[able] = world.states.finish(clients[able], wave.time, seconds[able])
    never, nowhere = np.full(n, np.inf), np.full(n, -1)
    trip = Trip(stages, seconds, done, done, done, never, able, ~able, ~able, nowhere, np.zeros(n), cost, charges)
    return trip if world.faults is None or not able.any() else _with_faults(world, wave, trip, tasks)


def _with_faults(world: World, wave: Wave, trip: Trip, tasks: Ints) -> Trip:
    """The trip with what the world's faults do to it."""
    assert world.faults is not None
    clients, able = wave.assignments.clients, trip.able
    draws = world.faults.draw(clients, wave.time, trip.done, tasks)
    in_stage = able & (draws.stage >= 0)
    fault_time = np.full(len(wave), np.inf)
    if in_stage.any():
        work = seconds_before({n: s[in_stage] for n, s in trip.stages.items()}, draws.stage[in_stage], draws.part[in_stage])
        fault_time[in_stage] = world.states.finish(clients[in_stage], wave.time, work)
    crashed = draws.crash < fault_time
    fault_time = np.where(crashed, draws.crash, fault_time)
    lost = able & (fault_time < np.inf) & (in_stage | (fault_time < trip.done))
    stops = np.where(lost, np.maximum(np.minimum(fault_time, trip.done), wave.time), trip.done)
    return Trip(
        trip.stages, trip.seconds, trip.done, stops, np.where(lost, np.inf, trip.done + draws.late),
        np.where(lost | ~able, np.inf, draws.again), able, lost | ~able, ~able | (lost & ~crashed & draws.noticed),
        np.where(crashed, -1, draws.stage), draws.part, trip.cost, trip.charges,
    )  # fmt: skip


def late_reports(trips: Mapping[int, Trip], command: Forget, now: float) -> list[ReportUnwanted]:
    """The reports of tasks that are given up now whose last byte has left the device and that are still under way."""
    result: list[ReportUnwanted] = []
    for task, client in zip(command.tasks.tolist(), command.clients.tolist(), strict=False):  # arrivals name no client
        first = max(first for first in trips if first <= task)
        trip, slot = trips[first], task - first
        if trip.done[slot] <= now <= trip.comes[slot] < np.inf and trip.done[slot] < trip.comes[slot]:
            result.append(ReportUnwanted(float(trip.comes[slot]), task, client, float(trip.cost.bytes_up[slot]), LATE))
    return result


def price(plan: Plan, wave: Wave, reports: Mapping[int, Report]) -> Cost:
    """What each task of a wave costs: as foreseen, or with the bytes that its report really has."""
    if not plan.algorithm.priced_by_value:
        return wave.cost
    up = wave.cost.bytes_up.copy()
    for slot in range(len(wave)):
        report = reports.get(wave.first + slot)
        if report is not None and report.bytes_up is not None:
            up[slot] = report.bytes_up * plan.byte_scale
    return Cost(wave.cost.samples, wave.cost.bytes_down, up, wave.cost.batches)


def _apply_reported_costs(stages: StageSeconds, reports: Sequence[Report | None]) -> tuple[StageSeconds, dict[str, Floats]]:
    """The stages as the reports say, where they say anything; and the costs beside time that they name."""
    reported = [(i, r) for i, r in enumerate(reports) if r is not None and r.seconds is not None]
    result = {name: took.copy() for name, took in stages.items()}
    charges: dict[str, Floats] = {}
    for i, report in reported:
        costs = {"compute": report.seconds or 0.0} if report.spent is None else report.spent
        for column in result.values():
            column[i] = 0.0
        for name, value in costs.items():
            columns = result if name in STAGES else charges
            if name not in columns:
                columns[name] = np.zeros(len(reports))
            columns[name][i] = value
    return result, charges


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


_FACTS = 10  # columns of `Trip.rows` before those of what a task spends


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
    spent = table[_FACTS:] if foreseen else _partial_costs(world, groups, table, took, complete, names[0])
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


def open_trips(trips: dict[int, Trip], state: RunState) -> dict[int, Trip]:
    """The trips of waves whose tasks are not all accounted for."""
    live_waves = {w.first for w in (*state.running.values(), *(e.wave for e in open_endings(state)))}
    return {first: trip for first, trip in trips.items() if first in live_waves}


def ready_seconds(states: StateSource, clients: Ints, start: float, stop: Floats) -> Floats:
    """How many ready seconds passed between `start` and each client's `stop`."""
    if states.worked is not None:
        return states.worked(clients, start, stop)
    low, high = np.zeros(len(clients)), np.maximum(stop - start, 0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = states.finish(clients, start, middle) > stop
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return low
