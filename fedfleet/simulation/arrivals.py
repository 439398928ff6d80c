"""Arrivals: the ends of a wave's tasks in the queue of a simulation, taken one by one, or many at once where nobody is asked."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.events import TaskArrivals
from fedfleet.core.parts import Plan
from fedfleet.core.records import Wave
from fedfleet.engine.coordinator import quiet_arrivals
from fedfleet.engine.state import RunState, next_wake
from fedfleet.simulation.trips import Trip

# Entries of the queue: time, class, first task of a wave or another number, and what it is about.
Queue = list[tuple[float, int, int, Any]]
TASK_ENDS = 0  # the class of the ends of tasks: the first within an instant


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


def next_arrivals(plan: Plan, state: RunState, queue: Queue) -> TaskArrivals | None:
    """The reports that come next, as many as change nothing about what the policy wants; None if that is not known of any."""
    if state.at_least:  # each task that ends may bring the moment forward at which enough clients are there
        return None
    count, wake = quiet_arrivals(plan, state), next_wake(state)
    return None if count < 1 or wake is None else take_arrivals(queue, state.running, count, wake)


def take_arrivals(queue: Queue, running: Container[int], count: int, limit: float) -> TaskArrivals | None:
    """Take up to that many arrivals before `limit` from the head of a queue, as long as nothing else comes between them.

    Only waves whose reports all come, and once, are taken. Tasks that do not run any more are passed over.
    """
    times: list[float] = []
    tasks: list[int] = []
    clients: list[int] = []
    seconds: list[float] = []
    bytes_up: list[float] = []
    while count > 0:
        time, kind, first, item = queue[0]
        if kind != TASK_ENDS or not item.plain or time >= limit:
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
