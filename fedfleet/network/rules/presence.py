"""Who is there: columns over clients, and when an ask for candidates is answered.

A device is on the line (a call of it is held), or it was told when to come back. It is present until that moment and some grace
are over: a device that was told so in good time is as good as one on the line, and one that stays away is not asked for ever.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedfleet.core.records import Bools, Floats, Ints

HOLD_SECONDS = 30.0  # for which a call without work is held at most
GRACE_SECONDS = 10.0  # after which a device that did not come back counts as gone


class Presence:
    """When each client was last heard of and until when it is expected: 16 bytes a client."""

    def __init__(self, clients: int, grace: float = GRACE_SECONDS, hold: float = HOLD_SECONDS) -> None:
        self._grace = grace
        self._hold = hold
        self._called_at = np.full(clients, -math.inf)
        self._expected_by = np.full(clients, -math.inf)

    def record_calls(self, clients: Ints, return_seconds: Floats, now: float) -> None:
        """These clients called; `back[i]`: in how many seconds the device was told to come back; 0: it is on the line."""
        self._called_at[clients] = now
        self._expected_by[clients] = now + np.where(return_seconds > 0, return_seconds, self._hold)

    def record_departures(self, clients: Ints) -> None:
        """These hung up or took their leave: they are not asked until they call again."""
        self._expected_by[clients] = -math.inf

    def present(self, now: float) -> Bools:
        """Who is there now."""
        return now <= self._expected_by + self._grace

    def last_call(self, client: int) -> float | None:
        """When a client last called; None: never."""
        at = float(self._called_at[client])
        return None if at == -math.inf else at


def available_clients(present: Bools, busy: Bools, members: Bools | None = None) -> Ints:
    """Who could be asked: present, without a task, and a member where membership is limited.

    >>> askable(np.array([True, True, False]), np.array([False, True, False]))
    array([0])
    """
    idle = present & ~busy
    return np.flatnonzero(idle if members is None else idle & members)


class Ready(NamedTuple):
    """An ask is answered now; `short`: how many of the declared fleet are missing, 0 unless patience came to its end."""

    short: int = 0


def ask_ready(
    *, present: int, busy: int, declared: int, at_least: int, asked_at: float, now: float, patience: float
) -> Ready | None:
    """Whether an ask is answered now: when the declared fleet is there or busy, or with whoever is there after `patience`.

    `present` are those that could be asked: who is busy is not among them. Nobody at all is no answer, however long it takes;
    nor are fewer than `at_least`. While it is None, look again when somebody calls or ends a task, and at `look_again`.

    >>> ask_ready(present=7, busy=3, declared=10, at_least=1, asked_at=0.0, now=0.1, patience=60.0)
    Ready(short=0)
    >>> ask_ready(present=6, busy=3, declared=10, at_least=1, asked_at=0.0, now=59.9, patience=60.0)
    >>> ask_ready(present=6, busy=3, declared=10, at_least=1, asked_at=0.0, now=60.0, patience=60.0)
    Ready(short=1)
    """
    short = max(0, declared - present - busy)
    if present < max(1, at_least) or (short and now < asked_at + patience):
        return None
    return Ready(short)


def patience_end(*, asked_at: float, now: float, patience: float) -> float | None:
    """The moment at which patience ends; None: it has ended, or never will: then only a call can change the answer.

    >>> look_again(asked_at=5.0, now=6.0, patience=60.0)
    65.0
    """
    ends = asked_at + patience
    return ends if now < ends < math.inf else None
