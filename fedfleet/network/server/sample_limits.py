"""What the reports of a task may weigh, and count at most, whatever their device claims: fixed when the task is sent.

A device with the spec's data weighs no more than what the spec deals to it. A device with data of its own is believed up to a cap,
by default ten times the median of what enrolled devices declare: its reports count, and weigh no more than that. No report takes
more than its share of the room in a sum (core.room). So what one device declares never decides about the report of another.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedfleet.core.parts import Pass, Plan
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Floats, Ints, Wave
from fedfleet.core.sources import World
from fedfleet.network.security.enrolment import Registry

MEDIANS = 10  # how many times the median of what devices declare one of them may count
_MOST_WAVES = 4096  # whose limits are kept at hand
_MOST_NAMES = 20  # clients that one sentence names


class TaskLimits(NamedTuple):
    """The limits of a wave's tasks, one entry each: a report that claims more than `heaviest` is refused, one that claims more than
    `counted` weighs that, and one that says that it trained on more than `samples` is taken to have trained on those."""

    heaviest: Floats
    counted: Floats
    samples: Floats


class SampleLimits:
    """The limits of every wave: a function of the wave, of what devices had declared, and of the cap when it was sent."""

    def __init__(self, plan: Plan, world: World, registry: Registry, max_samples: int | None = None) -> None:
        self._plan, self._world, self._registry = plan, world, registry
        self._max_samples = max_samples
        self._limits: dict[int, TaskLimits] = {}  # by wave
        self._seen: tuple[object, int, int] = (None, 0, 0)  # of what devices declare: what the cap was computed from
        self._named: set[int] = set()  # clients of which it was said that they declare more than counts

    @property
    def cap(self) -> float:
        """How many samples of its own a device counts at most from the next task on; infinite if no device brings its own."""
        if self._max_samples is not None:
            return float(self._max_samples)
        median = self._registry.declared.median(self._registry.enrolled)
        return math.inf if median is None else float(MEDIANS * max(median, 1))

    def fix(self, wave: Wave) -> list[str]:
        """A wave goes out: its cap is on the disk when this returns. Sentences about clients that declare more than counts."""
        declared = self._registry.declared
        seen = declared, declared.changes, int(self._registry.enrolled.sum())
        if seen != self._seen:
            self._seen, cap = seen, self.cap
            if cap < math.inf:
                declared.fix_cap(wave.first, cap)
        self._limits.pop(wave.first, None)
        clients, samples, limits = wave.assignments.clients, declared.samples, self.of(wave)
        above = [c for c in np.flatnonzero(limits.heaviest > limits.counted).tolist() if int(clients[c]) not in self._named]
        self._named.update(int(clients[c]) for c in above)
        return [
            f"client {clients[c]} declares {samples[clients[c]]} samples of its own, but each of its reports counts as "
            f"{limits.counted[c]:g}; --max-samples sets this limit"
            for c in above[:_MOST_NAMES]
        ] + ([f"the same holds for {len(above) - _MOST_NAMES} other clients"] if len(above) > _MOST_NAMES else [])

    def of(self, wave: Wave) -> TaskLimits:
        """The limits of a wave that went out, also before a kill."""
        found = self._limits.get(wave.first)
        if found is None:
            while len(self._limits) >= _MOST_WAVES:
                del self._limits[next(iter(self._limits))]
            found = self._limits[wave.first] = self._compute(wave)
        return found

    def counted_tests(self, clients: Ints, max_tests: Ints) -> Ints:
        """On how many samples the scores of these clients count at most, who may evaluate on `max_tests`: own samples up to a cap,
        as in training."""
        median = self._registry.median_tests() if self._max_samples is None else None
        cap = self._max_samples if self._max_samples is not None else MEDIANS * median if median is not None else None
        if cap is None:
            return max_tests
        return np.where(self._registry.declared.own[clients], np.minimum(max_tests, cap), max_tests).astype(np.int64)

    def forget_tasks(self, next_task: int) -> None:
        """Tasks from this one on were never sent, as far as the journal knows."""
        self._limits.clear()
        self._seen = (None, 0, 0)
        self._registry.declared.forget_tasks(next_task)

    def _compute(self, wave: Wave) -> TaskLimits:
        assignments, declared = wave.assignments, self._registry.declared
        spec = self._world.data.sizes(wave.round)[assignments.clients]
        samples, own = declared.at(assignments.clients, wave.first)
        believed = np.where(own, samples, np.where(samples > 0, np.minimum(samples, spec), spec))
        trained = np.ceil(assignments.share * believed)
        room = self._plan.algorithm.fold.heaviest
        cap = np.where(own, min(declared.cap(wave.first), room), np.inf)
        halves = [self._plan.algorithm.local(client, NO_SETTINGS) for client in assignments.clients.tolist()]
        claims = np.where(own, np.maximum(trained, room), room)  # of an opaque pass
        heaviest = np.array([_heaviest(*one) for one in zip(halves, trained.tolist(), claims.tolist(), strict=True)])
        opaque = np.array([not isinstance(half, LocalPass) for half in halves], np.bool_)
        counted = np.minimum(np.minimum(heaviest, room), cap)
        return TaskLimits(heaviest, counted, np.where(opaque, np.inf, np.minimum(trained, cap)))


def _heaviest(half: Pass, samples: float, opaque: float) -> float:
    """What an honest report weighs at most; an opaque pass may weigh its reports as it likes."""
    return half.weight_of(samples) if isinstance(half, LocalPass) else opaque
