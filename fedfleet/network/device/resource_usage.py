"""What work takes on this device: wall and processor seconds, peak memory, bytes."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass

from fedfleet.network.device.server_calls import Connection
from fedfleet.network.protocol import fleet_pb2 as pb

_UNIT = 1 if sys.platform == "darwin" else 1024  # of the peak that the system tells


@dataclass(frozen=True, slots=True)
class UsageMark:
    """A moment of a device's work: clocks and counters as they stood then."""

    wall: float
    cpu: float
    down: int
    up: int


def mark(connection: Connection) -> UsageMark:
    """Now."""
    return UsageMark(time.monotonic(), time.process_time(), connection.bytes_down, connection.bytes_up)


def peak_bytes() -> int:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def usage_since(start: UsageMark, connection: Connection, samples: int, nbytes: int, downloaded: int) -> pb.Resources:
    """What was used since a mark; `nbytes` of a report that is still to go up are counted with it, `downloaded` came before."""
    now = mark(connection)
    return pb.Resources(
        wall_seconds=now.wall - start.wall,
        cpu_seconds=max(now.cpu - start.cpu, 0.0),
        peak_memory_bytes=peak_bytes(),
        bytes_down=now.down - start.down + downloaded,
        bytes_up=now.up - start.up + nbytes,
        samples=samples,
    )
