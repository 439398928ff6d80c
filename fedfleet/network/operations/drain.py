"""How a server stops: no new work, uploads in flight end, everything is made safe, then it closes; all within bounded seconds.

Pure: the server keeps a `Drain` and says how many frontends are still receiving. Whatever it leaves out costs devices a retry and
no report: what was acknowledged is on disk already, and what was not they send again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

SNAPSHOT_SHARE = 0.25  # of the seconds, kept for the snapshot


class DrainPhase(IntEnum):
    """What a server that stops is doing; it only ever goes forward."""

    RECEIVING = 0  # no new work; uploads that began may end, and reports may still be handed in
    SNAPSHOTTING = 1  # frontends make everything safe that was granted
    CLOSING = 2


STATUS_TEXTS = {
    DrainPhase.RECEIVING: "stopping: uploads in progress may end; send the signal again to stop at once",
    DrainPhase.SNAPSHOTTING: "stopping: reports are being made safe",
    DrainPhase.CLOSING: "stopping: closing; go on with --resume",
}


@dataclass(frozen=True, slots=True)
class Drain:
    """A phase, and until when it may last; `seconds` is what the phases may take together."""

    phase: DrainPhase
    until: float
    seconds: float


def start_drain(seconds: float, now: float) -> Drain:
    """The first phase.

    >>> start_drain(20.0, 100.0).until
    115.0
    """
    return Drain(DrainPhase.RECEIVING, now + seconds * (1.0 - SNAPSHOT_SHARE), seconds)


def advance(drain: Drain, receiving: int, now: float) -> Drain:
    """The phase that follows: one ends when no frontend is `receiving` any more, or when its time is up."""
    if receiving and now < drain.until:
        return drain
    if drain.phase is DrainPhase.RECEIVING:
        return replace(drain, phase=DrainPhase.SNAPSHOTTING, until=now + drain.seconds * SNAPSHOT_SHARE)
    return replace(drain, phase=DrainPhase.CLOSING, until=now)
