"""How long work takes on the devices of a served run, as far as their reports have shown it: what selectors foresee with.

In a simulation a selector that needs seconds in advance asks the world. A server learns them. Of each client it keeps the seconds
per sample and per byte of its last report: the device says how long it computed, and the rest of the time until the report arrived
is transfer. A client that has not reported yet counts as the median of those that have. Before the first report the devices count
as `world.devices` of the spec describes them, so that the first selection is that of the simulation.

Everything follows from the journal, so that a server that was killed knows the same again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedfleet.core.events import Event, TaskArrived, TaskLost, TasksDropped, TasksSent, TasksSpent
from fedfleet.core.records import Cost, Floats, Ints
from fedfleet.core.sources import DeviceSource, World

_UNKNOWN = np.nan


class LearnedSpeeds:
    """Seconds per sample and per byte of each client, as its last report showed them: 16 bytes a client."""

    def __init__(self, clients: int, described: DeviceSource) -> None:
        self._described = described
        self._per_sample, self._per_byte = np.full(clients, _UNKNOWN), np.full(clients, _UNKNOWN)
        # Of tasks that run, or whose cost has not been accounted yet: samples, bytes down; then also seconds and bytes up.
        self._sent: dict[int, tuple[float, float]] = {}
        self._arrived: dict[int, tuple[float, float, float]] = {}

    def on_events(self, events: Sequence[Event]) -> None:
        """Learn from what happened."""
        for event in events:
            match event:
                case TasksSent():
                    work = zip(event.samples.tolist(), event.bytes_down.tolist(), strict=True)
                    self._sent |= {event.first + i: one for i, one in enumerate(work)}
                case TaskArrived():
                    samples, down = self._sent.pop(event.task, (0.0, 0.0))
                    self._arrived[event.task] = samples, down + event.bytes_up, event.seconds
                case TaskLost():
                    self._learn_of_loss(event.task, event.client, event.seconds)
                case TasksDropped():
                    for task, client, seconds in zip(event.tasks, event.clients, event.seconds, strict=True):
                        self._learn_of_loss(int(task), int(client), float(seconds))
                case TasksSpent():
                    self._learn_of_costs(event)
                case _:
                    continue

    def devices(self) -> DeviceSource:
        """The devices as they are known now, for a roster."""
        return replace(self._described, seconds=self._seconds)

    def _seconds(self, clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        """How long such work is expected to take; as described, while nothing is known of anyone."""
        if np.isnan(self._per_sample).all():
            return self._described.seconds(clients, cost, start, tasks)
        per_sample, per_byte = (_known_or_median(column, clients) for column in (self._per_sample, self._per_byte))
        return per_sample * cost.samples + per_byte * (cost.bytes_down + cost.bytes_up)

    def _learn_of_costs(self, event: TasksSpent) -> None:
        """What ended tasks took: the device's own seconds of computing, and of the whole what is left."""
        computing = event.spent.get("compute")
        for i, (task, client) in enumerate(zip(event.tasks.tolist(), event.clients.tolist(), strict=True)):
            self._sent.pop(task, None)
            samples, nbytes, seconds = self._arrived.pop(task, (0.0, 0.0, _UNKNOWN))
            compute = _UNKNOWN if computing is None else float(computing[i])
            if samples > 0 and np.isfinite(compute) and np.isfinite(seconds):
                self._per_sample[client] = compute / samples
                self._per_byte[client] = max(seconds - compute, 0.0) / max(nbytes, 1.0)

    def _learn_of_loss(self, task: int, client: int, seconds: float) -> None:
        """A task that was lost or given up took at least as long as it was waited for: it never makes a client look faster."""
        samples, _ = self._sent.pop(task, (0.0, 0.0))
        if samples > 0 and np.isfinite(seconds):
            self._per_sample[client] = np.fmax(self._per_sample[client], seconds / samples)
            self._per_byte[client] = np.nan_to_num(self._per_byte[client])


def with_learned_speeds(world: World, speeds: LearnedSpeeds) -> World:
    """The world as a server knows it: devices as they have shown themselves, and no joules."""
    return replace(world, devices=speeds.devices(), energy=None)


def _known_or_median(column: Floats, clients: Ints) -> Floats:
    """The entries of these clients; who is not known counts as the median of those who are.

    >>> _known_or_median(np.array([1.0, np.nan, 3.0]), np.array([1, 2]))
    array([2., 3.])
    """
    known = column[~np.isnan(column)]
    return np.where(np.isnan(column[clients]), np.median(known) if len(known) else 0.0, column[clients])
