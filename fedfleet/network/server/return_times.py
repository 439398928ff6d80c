"""Guiding devices: when new work is likely, so that those who cannot wait on the line come back then and not before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedfleet.engine.state import Phase
from fedfleet.network.rules.pace_steering import Arrivals, Outlook, ServerActivity, add_arrivals, rate, seconds_to_work

if TYPE_CHECKING:
    from fedfleet.network.protocol import inside_pb2 as inside
    from fedfleet.network.server.server_loop import ServerLoop

_UPDATE_SECONDS = 0.5
_MAX_SECONDS = 300.0


class ReturnTimes:
    """What is known of how fast reports come, and what transmitters were last told."""

    def __init__(self, now: float) -> None:
        self._arrivals = Arrivals(began=now)
        self._count = 0
        self._updated_at = -math.inf
        self._work_began: float | None = None
        self._work_seconds = 0.0
        self._announced: float | None = None

    def count_arrival(self) -> None:
        """A report came."""
        self._count += 1

    def update(self, server: ServerLoop, now: float) -> None:
        """Tell transmitters, if it is time and there is news."""
        working = server.state.phase in (Phase.GATHERING, Phase.EVALUATING)
        if working and self._work_began is None:
            self._work_began = now
        elif not working and self._work_began is not None:
            self._work_seconds, self._work_began = now - self._work_began, None
        if now - self._updated_at < _UPDATE_SECONDS:
            return
        self._updated_at = now
        if self._count:
            self._arrivals, self._count = add_arrivals(self._arrivals, self._count, now), 0
        likely = min(seconds_to_work(self._outlook(server, now)), _MAX_SECONDS)
        if self._announced is None or abs(likely - self._announced) > 0.1 * self._announced + 0.2:
            self._announced = likely
            for out in server.outboxes():
                out.come_back, out.round = likely, server.state.book.round

    def add_full_state(self, server: ServerLoop, out: inside.ToTransmitter) -> None:
        """Tell one that has just started what the others were told."""
        if self._announced is not None:
            out.come_back, out.round = self._announced, server.state.book.round

    def _outlook(self, server: ServerLoop, now: float) -> Outlook:
        if self._work_began is not None:
            return Outlook(ServerActivity.WORKING, usual_seconds=self._work_seconds, elapsed=now - self._work_began)
        if server.is_asking():
            return Outlook(ServerActivity.AWAITING_FLEET)
        ends = math.inf if server.timer is None else server.timer - now
        return Outlook(ServerActivity.AWAITING_REPORTS, server.state.book.running, rate(self._arrivals, now), ends)
