"""Why rounds failed: each by what went wrong while it was open, and the cure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

WAIT = 'let rounds wait for clients with pace.if_few = "wait"'


class Cause(Enum):
    """What a round lacked: clients to ask, clients that the selector accepts, devices that can do the work, luck, reports that can
    be used, or time."""

    FEW = "few"
    PICKED = "picked"
    UNABLE = "unable"
    LOST = "lost"
    REFUSED = "refused"
    LATE = "late"


@dataclass(slots=True)
class Troubles:
    """What has gone wrong since the last round closed."""

    seen_at: float | None = None
    most: int = 0  # clients that could be asked
    looks: int = 0  # how often candidates were seen
    unable: int = 0
    lost: int = 0
    late: int = 0  # given up although nothing had befallen them
    refused: int = 0


@dataclass(slots=True)
class Failures:
    """The failed rounds of a run: how many by cause, and what else is known of them; `open` collects for the round that is open."""

    causes: Counter[Cause] = field(default_factory=Counter[Cause])
    reachable: int = 0  # the most clients that could be asked for in a round that had too few
    waited: float = 0.0  # the longest that a task ran which was given up when its round failed
    fastest: float | None = None  # the fastest report that arrived at all
    unable: Counter[str] = field(default_factory=Counter[str])
    lost: Counter[str] = field(default_factory=Counter[str])  # by where it happened
    last: float = 0.0  # when the last round failed
    given_up: float = 0.0  # the longest that a task ran of those that were given up last
    open: Troubles = field(default_factory=Troubles)

    def lose(self, reason: str, *, able: bool) -> None:
        """A task will not come back: it was lost on the way, or its device is not `able` to do it."""
        self.open.lost += able
        self.open.unable += not able
        (self.lost if able else self.unable)[reason] += 1

    def fail(self, time: float, online: int) -> None:
        """The round failed at once, lost its tasks, refused its reports, or gave up waiting; so many were `online` last."""
        cause = _cause(self.open, time)
        self.causes[cause] += 1
        self.last = time
        if cause in (Cause.FEW, Cause.PICKED):
            self.reachable = max(self.reachable, online)
        elif cause is Cause.LATE:
            self.waited = max(self.waited, self.given_up)
        self.open = Troubles()


def _cause(round_: Troubles, failed_at: float) -> Cause:
    if round_.refused:
        return Cause.REFUSED
    no_client = round_.seen_at is not None and not round_.most
    if (no_client or round_.seen_at == failed_at) and not (round_.lost or round_.unable):
        # It saw no client, or ended in the very moment in which it saw whom it could ask. Had it looked more than once, it was not
        # their number.
        return Cause.PICKED if round_.looks > 1 and round_.most else Cause.FEW
    if round_.unable >= max(round_.lost, 1):
        return Cause.UNABLE
    return Cause.LOST if round_.lost >= max(round_.late, 1) else Cause.LATE


def cure(summary: Failures) -> str:
    """What most of the failed rounds lacked, and what to do about it."""
    match summary.causes.most_common(1)[0][0]:
        case Cause.FEW:
            clients = "client was" if summary.reachable == 1 else "clients were"
            reachable = f"no more than {summary.reachable} {clients}" if summary.reachable else "no client was"
            return f"{reachable} reachable in these rounds before {clock_text(summary.last)}; {WAIT}, or change world.states"
        case Cause.PICKED:
            return (
                f"the selector accepted too few of the clients that were reachable (up to {summary.reachable} at once); choose "
                "another selector in [choose], or change what it accepts"
            )
        case Cause.UNABLE:
            reason = summary.unable.most_common(1)[0][0]
            return f"tasks were lost ({reason}); choose other devices in world.devices, or less work in [algorithm]"
        case Cause.LOST:
            reason, times = summary.lost.most_common(1)[0]
            return (
                f"{summary.lost.total()} tasks were lost on the way (most often: {reason}, {times} times); ask more clients than "
                'are needed with pace.use = "overcommit", lower pace.min_share, or have fewer faults in world.faults'
            )
        case Cause.REFUSED:
            return "their reports could not be used, as the next warning says"
        case Cause.LATE:
            who = "no client" if summary.fastest is None else "too few"
            fastest = "" if summary.fastest is None else f", the fastest of all after {summary.fastest:,.4g} s"
            return (
                f"{who} reported within the {summary.waited:,.4g} s after which tasks were given up{fastest}; raise pace.seconds "
                'or pace.lease, or wait for clients as long as they need with pace.use = "readiness"'
            )


def clock_text(seconds: float) -> str:
    """A time of a run for people: 3600 is 01:00 of the first day.

    >>> clock_text(3600.0), clock_text(90_000.0), clock_text(1e6)
    ('01:00 of the first day', '01:00 of the second day', '13:46 of day 12')
    """
    day, second = divmod(int(seconds), 86400)
    day_text = {0: "the first day", 1: "the second day"}.get(day, f"day {day + 1}")
    return f"{second // 3600:02d}:{second // 60 % 60:02d} of {day_text}"
