"""Trips: how the tasks of a wave go, from being sent to their arrival, with what goes wrong on the way and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.commands import Forget
from fedfleet.core.events import ReportUnwanted
from fedfleet.core.parts import Plan
from fedfleet.core.records import Bools, Cost, Floats, Ints, Report, Wave
from fedfleet.core.sources import StateSource, World
from fedfleet.core.stages import STAGES, StageSeconds, seconds_before, stages_of, total

LATE, AGAIN = "late", "again"
_HALVINGS = 64
FACTS = 10  # columns of `Trip.rows` before those of what a task spends


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
        """What decides the costs of each task, a row for each: `FACTS` columns, then these stages, bytes and charges.

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
