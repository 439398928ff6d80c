"""How a server stops: no new work, uploads in flight end, everything is snapshot, then it closes; all within bounded seconds.

Pure: the server loop keeps a `Drain`, tells it what is left at every turn of its loop, and does what the phase says. Whatever it
leaves out costs devices a retry and no report: what was acknowledged is on disk already, and what was not they send again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

DEFAULT_SECONDS = 20.0  # orchestrators give 30 before they kill
SNAPSHOT_SHARE = 0.25  # of the seconds, kept for the snapshot


class DrainPhase(IntEnum):
    """What a server is about; it only ever goes forward."""

    SERVING = 0
    RECEIVING = 1  # no new work and no new device; uploads that began may end, and reports may still be handed in
    SNAPSHOTTING = 2  # no report either; transmitters make everything safe that was granted
    CLOSING = 3  # transmitters are told to go; checkpoint, journal and folder are closed
    CLOSED = 4


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What is still under way: uploads that began, granted reports that are not safe yet, transmitters that live."""

    uploads: int = 0
    unsafe: int = 0
    transmitters: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """A phase, and until when it may last; `hurried` after a second signal."""

    phase: DrainPhase = DrainPhase.SERVING
    until: float = float("inf")
    seconds: float = DEFAULT_SECONDS
    hurried: bool = False


def signal_stop(drain: Drain, now: float) -> Drain:
    """A signal to stop: the first begins the drain, the second ends it at once.

    >>> once = signal_stop(Drain(), 100.0)
    >>> once.phase.name, once.until, signal_stop(once, 101.0).phase.name
    ('RECEIVING', 115.0, 'CLOSING')
    """
    if drain.phase is DrainPhase.SERVING:
        return replace(drain, phase=DrainPhase.RECEIVING, until=now + drain.seconds * (1.0 - SNAPSHOT_SHARE))
    return replace(drain, phase=max(drain.phase, DrainPhase.CLOSING), until=now, hurried=True)


def advance(drain: Drain, open_work: OpenWork, now: float) -> Drain:
    """The phase that follows from what is left and from the time; a phase whose work is done, or whose time is up, ends."""
    over = now >= drain.until
    match drain.phase:
        case DrainPhase.RECEIVING if over or not open_work.uploads:
            return replace(drain, phase=DrainPhase.SNAPSHOTTING, until=now + drain.seconds * SNAPSHOT_SHARE)
        case DrainPhase.SNAPSHOTTING if over or not open_work.unsafe:
            return replace(drain, phase=DrainPhase.CLOSING, until=now + 1.0)
        case DrainPhase.CLOSING if over or not open_work.transmitters:
            return replace(drain, phase=DrainPhase.CLOSED, until=now)
        case _:
            return drain


def gives_work(drain: Drain) -> bool:
    """Whether devices may enrol and get work."""
    return drain.phase is DrainPhase.SERVING


def takes_reports(drain: Drain) -> bool:
    """Whether reports are still granted."""
    return drain.phase <= DrainPhase.RECEIVING


def status_text(drain: Drain) -> str:
    """What a person is told."""
    match drain.phase:
        case DrainPhase.SERVING:
            return ""
        case DrainPhase.RECEIVING:
            return "stopping: uploads under way may end; once more to stop at once"
        case DrainPhase.SNAPSHOTTING:
            return "stopping: reports are being made safe"
        case DrainPhase.CLOSING | DrainPhase.CLOSED:
            return "stopping: closing; go on with --resume"
