"""The turns of the server's loop: what is to be done in the next one, what runs in the background, and how it all ends."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

_LONGEST_PAUSE = 1.0  # seconds between two turns


class Turns:
    """Calls `turn` when there is something to do, and once a second at least, until the run is over or failed."""

    def __init__(self, turn: Callable[[], None], at: float) -> None:
        """`at`: the clock of the run goes on there; the time that a killed server was away does not count."""
        self._turn = turn
        self._inbox: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._jobs: set[asyncio.Task[Any]] = set()
        self._started_at = time.monotonic() - at
        self.done: asyncio.Future[None] | None = None

    def elapsed(self) -> float:
        """Seconds since the run began, on the monotonic clock."""
        return time.monotonic() - self._started_at

    def schedule(self, work: Callable[[], None] | None = None) -> None:
        """Do this in the next turn, and let there be one."""
        if work is not None:
            self._inbox.append(work)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def schedule_in(self, seconds: float) -> None:
        """Let there be a turn after so many seconds, or after the longest pause."""
        self.cancel_timer()
        delay = min(max(seconds, 0.0), _LONGEST_PAUSE)
        self._timer = asyncio.get_running_loop().call_later(delay, self.schedule)

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let something happen in the background; if it fails, the run does."""
        job = asyncio.get_running_loop().create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        job.add_done_callback(lambda j: None if j.cancelled() else self.fail(j.exception()))

    def fail(self, error: BaseException | None) -> None:
        """The run cannot go on."""
        if self.done is not None and not self.done.done() and error is not None:
            self.done.set_exception(error)

    def finish(self) -> None:
        """The run is over."""
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    def do_scheduled(self) -> None:
        """Do what was scheduled for this turn."""
        while self._inbox:
            self._inbox.popleft()()

    def cancel_timer(self) -> None:
        """No turn by the clock."""
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """End everything that was started here."""
        self.cancel_timer()
        for job in list(self._jobs):
            job.cancel()

    def _take_turn(self) -> None:
        self._scheduled = False
        if self.done is not None and self.done.done():
            return
        try:
            self._turn()
        except BaseException as error:
            self.fail(error)
            if not isinstance(error, Exception):
                raise
