"""What each client's device may use: a share of the processor, memory, and the speed and delay of its link, as its fleet says."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.records import Cost, Floats, Ints
from fedfleet.core.shared_rows import row_of
from fedfleet.core.sources import DeviceSource, FaultSource
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


class FleetLimits:
    """The limits of all clients of a fleet, turn by turn: what varies from trip to trip in the simulation varies here too.

    The fastest processor of the fleet gets `cores` of this machine, and each other one its part of that by the seconds that a
    sample takes. A trip's latency is shared by the two directions. What `faults` slow down has less of everything in that turn.
    """

    def __init__(self, devices: DeviceSource, clients: int, *, cores: float = 1.0, faults: FaultSource | None = None) -> None:
        self._devices, self._cores, self._faults = devices, cores, faults
        everyone = np.arange(clients)
        self._memory_mb = _memory_mb(devices, everyone)
        seconds = self._stage("compute", Cost(np.ones(clients), np.zeros(clients), np.zeros(clients)), everyone, 0)
        self._fastest = min((float(s) for s in seconds / TRAINING_PASSES if 0 < s < math.inf), default=0.0)
        self.first = self.at(everyone, 0)
        # Most fleets have the same limits at every turn; whether faults slow nobody cannot be seen at a few.
        self.constant = faults is None and self.first == self.at(everyone, 1) == self.at(everyone, 2)

    def at(self, clients: Ints, turn: int) -> list[DeviceLimits]:
        """The limits of these clients in their turn of this number, as the fleet's own source says them of a task."""
        none, ones = np.zeros(len(clients)), np.ones(len(clients))
        slower = ones if self._faults is None else self._faults.slowdown(clients, 0.0, np.full(len(clients), turn, np.int64))
        down = slower * self._stage("download", Cost(none, _BYTES * ones, none), clients, turn)
        up = slower * self._stage("upload", Cost(none, none, _BYTES * ones), clients, turn)
        seconds = slower * self._stage("compute", Cost(ones, none, none), clients, turn) / TRAINING_PASSES
        latency = slower * self._stage("latency", Cost(none, none, none), clients, turn)
        memory = self._memory_mb[clients]
        return [
            DeviceLimits(
                kind=str(self._devices.kinds[int(client)]),
                cpu_share=_cpu_share(float(seconds[i]), self._fastest, self._cores),
                memory_mb=float(memory[i]) if math.isfinite(memory[i]) else None,
                down=_rate(float(down[i])),
                up=_rate(float(up[i])),
                delay=0.5 * float(latency[i]) if math.isfinite(latency[i]) else 0.0,
                seconds_per_sample=float(seconds[i]),
            )
            for i, client in enumerate(clients)
        ]

    def _stage(self, name: str, cost: Cost, clients: Ints, turn: int) -> Floats:
        tasks = np.full(len(clients), turn, np.int64)
        none = np.zeros(len(clients))
        return np.broadcast_to(stages_of(self._devices, clients, cost, 0.0, tasks).get(name, none), len(clients))


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
