"""What each client's device may use: a share of the processor, memory, and the speed and delay of its link, as its fleet says."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.records import Cost, Floats, Ints
from fedfleet.core.shared_rows import row_of
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import declared_table, stages_of

_BYTES = 1e6  # by which the speed of a link is asked for
LEAST_SHARE = 0.01  # of a core: less cannot be kept, since a period has too few moments


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """The limits of one client's device; None: no limit.

    `cpu_share` is of one core, speeds are in bytes a second, `delay` in seconds for each direction of the link, `memory_mb` what a
    task may take beyond the idle process. `seconds_per_sample` is the inference time that the fleet declares, for calibration.
    """

    kind: str = ""
    cpu_share: float | None = None
    memory_mb: float | None = None
    down: float | None = None
    up: float | None = None
    delay: float = 0.0
    seconds_per_sample: float = 0.0


def device_limits(devices: DeviceSource, clients: int, *, cores: float = 1.0) -> list[DeviceLimits]:
    """The limits of each client, as the fleet's own source says them of a first task: one draw for the whole run.

    The fastest processor of the fleet gets `cores` of this machine, and each other one its part of that by the seconds that a
    sample takes. A trip's latency is shared by the two directions.
    """
    everyone, first = np.arange(clients), np.zeros(clients, np.int64)
    none, ones = np.zeros(clients), np.ones(clients)

    def stage(name: str, cost: Cost) -> Floats:
        return np.broadcast_to(stages_of(devices, everyone, cost, 0.0, first).get(name, none), clients)

    down = stage("download", Cost(none, _BYTES * ones, none))
    up = stage("upload", Cost(none, none, _BYTES * ones))
    seconds = stage("compute", Cost(ones, none, none)) / TRAINING_PASSES
    latency = stage("latency", Cost(none, none, none))
    memory = _memory_mb(devices, everyone)
    fastest = min((float(s) for s in seconds if 0 < s < math.inf), default=0.0)
    return [
        DeviceLimits(
            kind=str(devices.kinds[c]),
            cpu_share=_cpu_share(float(seconds[c]), fastest, cores),
            memory_mb=float(memory[c]) if math.isfinite(memory[c]) else None,
            down=_rate(float(down[c])),
            up=_rate(float(up[c])),
            delay=0.5 * float(latency[c]) if math.isfinite(latency[c]) else 0.0,
            seconds_per_sample=float(seconds[c]),
        )
        for c in range(clients)
    ]


def _memory_mb(devices: DeviceSource, clients: Ints) -> Floats:
    if devices.memory_mb is not None:
        return devices.memory_mb(clients)
    table = declared_table(devices)
    return np.full(len(clients), np.nan) if table is None else table.memory_mb[row_of(table.row_index, clients)]


def _cpu_share(seconds: float, fastest: float, cores: float) -> float | None:
    """None for a device whose computing takes no time: it gets what there is."""
    return max(LEAST_SHARE, cores * fastest / seconds) if 0 < seconds < math.inf else None


def _rate(seconds: float) -> float | None:
    return _BYTES / seconds if 0 < seconds < math.inf else None
