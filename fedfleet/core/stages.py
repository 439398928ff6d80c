"""What a task's time goes into, stage by stage: the seconds from which explanations, energy and waste follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.fleet import DeviceTable
from fedfleet.core.records import Cost, Floats, Ints
from fedfleet.core.sources import DeviceSource

# In the order in which a task passes through them. An edge plans, lets its devices exchange samples, and averages their models:
# these belong to its turn. Delivery is what lies between the last byte of a report and its arrival.
STAGES = ("latency", "download", "planning", "exchange", "averaging", "compute", "upload", "delivery")
DOWNLOAD, COMPUTE, UPLOAD = (STAGES.index(name) for name in ("download", "compute", "upload"))

StageSeconds = Mapping[str, Floats]  # seconds by stage, one entry per task; a stage that is not named took none


def total(stages: StageSeconds) -> Floats:
    """All seconds of each task, added in the order of the stages.

    >>> total({"upload": np.array([2.0]), "compute": np.array([1.0])})
    array([3.])
    """
    result = [stages[name] for name in STAGES if name in stages]
    return np.asarray(sum(result[1:], result[0]), np.float64)


StageFunction = Callable[[Ints, Cost, float, Ints], StageSeconds]


@dataclass(frozen=True, slots=True)
class StagedSeconds:
    """The seconds of a device source that says what they go into: called, it adds its stages up.

    `best()` is the same clients, with their own draws from trip to trip, who all have the fleet's fastest link and its fastest
    processor; None where the source does not say. `table()` is the same fleet as a table, whose rows the source draws from; None
    where it has none.
    """

    stages: StageFunction
    best: Callable[[], DeviceSource] | None = None
    table: Callable[[], DeviceTable] | None = None

    def __call__(self, clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        return total(self.stages(clients, cost, start, tasks))


def source_from_stages(
    stages: StageFunction,
    kinds: Sequence[str],
    memory_mb: Callable[[Ints], Floats] | None = None,
    best: Callable[[], DeviceSource] | None = None,
    table: Callable[[], DeviceTable] | None = None,
) -> DeviceSource:
    """The device source of which these are the stages: its seconds are their sum."""
    return DeviceSource(StagedSeconds(stages, best, table), kinds, memory_mb)


def best_devices(devices: DeviceSource) -> Callable[[], DeviceSource] | None:
    """What a source says of its best devices, if it does."""
    return devices.seconds.best if isinstance(devices.seconds, StagedSeconds) else None


def declared_table(devices: DeviceSource) -> DeviceTable | None:
    """The table of a source that has one."""
    if not isinstance(devices.seconds, StagedSeconds) or devices.seconds.table is None:
        return None
    return devices.seconds.table()


def stages_of(devices: DeviceSource, clients: Ints, cost: Cost, start: float, tasks: Ints) -> StageSeconds:
    """What these tasks' seconds go into on these devices; infinite where a device cannot do the work.

    A source that does not say is asked for less work: what no work takes is latency, and what a stage adds to that is its own. The
    rest, if the source is not a sum of its stages, counts as latency too, so that the stages add up to its seconds.
    """
    if isinstance(devices.seconds, StagedSeconds):
        return devices.seconds.stages(clients, cost, start, tasks)
    whole, none = devices.seconds(clients, cost, start, tasks), np.zeros(len(clients))
    parts = {
        "download": Cost(none, cost.bytes_down, none),
        "compute": Cost(cost.samples, none, none, cost.batches),
        "upload": Cost(none, none, cost.bytes_up),
    }
    idle = devices.seconds(clients, Cost(none, none, none), start, tasks)
    with np.errstate(invalid="ignore"):  # infinite less infinite, for devices that cannot do it
        result = {name: np.maximum(devices.seconds(clients, part, start, tasks) - idle, 0.0) for name, part in parts.items()}
        rest = whole - total(result)
    lost = ~np.isfinite(whole)
    return {"latency": np.where(lost, np.inf, np.maximum(rest, 0.0)), **{n: np.where(lost, 0.0, v) for n, v in result.items()}}


def stages_after(stages: StageSeconds, work_seconds: Floats) -> dict[str, Floats]:
    """How much of each stage is done after that many seconds of work.

    >>> stages_after({"download": np.array([4.0]), "compute": np.array([6.0])}, np.array([5.0]))
    {'download': array([4.]), 'compute': array([1.])}
    """
    result: dict[str, Floats] = {}
    left = np.asarray(work_seconds, np.float64)
    for name in STAGES:
        if name in stages:
            result[name] = np.minimum(stages[name], np.maximum(left, 0.0))
            left = left - stages[name]
    return result


def seconds_before(stages: StageSeconds, stage: Ints, part: Floats) -> Floats:
    """The seconds of work until so large a part of one stage is done; `stage` is a place in STAGES.

    >>> seconds_before({"download": np.array([4.0]), "compute": np.array([6.0])}, np.array([COMPUTE]), np.array([0.5]))
    array([7.])
    """
    result = np.zeros(len(stage))
    for place, name in enumerate(STAGES):
        if name in stages:
            result += np.where(place < stage, stages[name], np.where(place == stage, part * stages[name], 0.0))
    return result


def fraction_done(stages: StageSeconds, name: str, work_seconds: Floats) -> Floats:
    """Which part of a stage is done after that many seconds of work: so much of its bytes has moved.

    A download that takes no time is done when it is reached, an upload only when everything is.

    >>> fraction_done({"download": np.array([4.0]), "compute": np.array([6.0])}, "download", np.array([1.0]))
    array([0.25])
    """
    place, none = STAGES.index(name), np.zeros(len(work_seconds))
    length = np.asarray(stages.get(name, none), np.float64)
    left = work_seconds - sum((stages[before] for before in STAGES[:place] if before in stages), none)
    reached = (left >= 0) if place < UPLOAD else (left > 0)
    part = np.divide(left, length, out=np.zeros(len(work_seconds)), where=length > 0)
    return np.where(length > 0, np.clip(part, 0.0, 1.0), reached)
