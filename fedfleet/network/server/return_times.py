"""Guiding devices: when new work is likely, so that those who cannot wait on the line come back then and not before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedfleet.engine.state import Phase
from fedfleet.network.rules.pace_steering import Arrivals, Doing, Outlook, arrived, likely_work, rate

if TYPE_CHECKING:
    from fedfleet.network.protocol import inside_pb2 as inside
    from fedfleet.network.server.server_loop import Processor

_EVERY_SECONDS = 0.5
_LONGEST = 300.0


class Guiding:
    """What is known of how fast reports come, and what transmitters were last told."""

    def __init__(self, now: float) -> None:
        self._arrivals = Arrivals(began=now)
        self._count = 0
        self._looked = -math.inf
        self._work_began: float | None = None
        self._work_took = 0.0
        self._told: float | None = None

    def arrived(self) -> None:
        """A report came."""
        self._count += 1

    def look(self, of: Processor, now: float) -> None:
        """Tell transmitters, if it is time and there is news."""
        at_work = of.state.phase in (Phase.GATHERING, Phase.EVALUATING)
        if at_work and self._work_began is None:
            self._work_began = now
        elif not at_work and self._work_began is not None:
            self._work_took, self._work_began = now - self._work_began, None
        if now - self._looked < _EVERY_SECONDS:
            return
        self._looked = now
        if self._count:
            self._arrivals, self._count = arrived(self._arrivals, self._count, now), 0
        likely = min(likely_work(self._outlook(of, now)), _LONGEST)
        if self._told is None or abs(likely - self._told) > 0.1 * self._told + 0.2:
            self._told = likely
            for out in of.everybody():
                out.come_back, out.round = likely, of.state.book.round

    def introduce(self, of: Processor, out: inside.ToTransmitter) -> None:
        """Tell one that has just started what the others were told."""
        if self._told is not None:
            out.come_back, out.round = self._told, of.state.book.round

    def _outlook(self, of: Processor, now: float) -> Outlook:
        if self._work_began is not None:
            return Outlook(Doing.AT_WORK, usual_seconds=self._work_took, elapsed=now - self._work_began)
        if of.asking():
            return Outlook(Doing.AWAITING_FLEET)
        ends = math.inf if of.timer is None else of.timer - now
        return Outlook(Doing.AWAITING_REPORTS, of.state.book.running, rate(self._arrivals, now), ends)
