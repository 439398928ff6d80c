"""How many samples devices declare, and how many of them a report may count: for every task as it was when the task was sent.

A device may declare its data again, and the cap follows what devices declare. Neither may change what a report weighs that is on
its way: a server that is killed must take up each task as it was sent. So earlier values stay, with the first task for which they
held no more. All of it is in the store of enrolments and is on the disk before a task that follows from it leaves the server.
"""

from __future__ import annotations

import math
import sqlite3
from bisect import bisect_right
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.records import Bools, Ints

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS declarations (client INTEGER NOT NULL, until_task INTEGER NOT NULL, samples INTEGER NOT NULL, "
    "own INTEGER NOT NULL, PRIMARY KEY (client, until_task)) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS sample_caps (first_task INTEGER PRIMARY KEY, samples REAL NOT NULL) STRICT",
)
_NEW_DECLARATION = "INSERT OR IGNORE INTO declarations VALUES (?, ?, ?, ?)"


class DeclaredSamples:
    """Samples by client, who brings data of its own (`own`), the values of earlier tasks, and the caps on own data."""

    def __init__(self, db: sqlite3.Connection, clients: int) -> None:
        self._db = db
        for statement in _SCHEMA:
            db.execute(statement)
        self.samples: Ints = np.zeros(clients, np.int64)
        self.own: Bools = np.zeros(clients, np.bool_)
        self.changes = 0  # how often a value changed: whoever computes from all of them need not do so again before
        # By client: until which task it had declared what, oldest first.
        self._earlier: dict[int, list[tuple[int, int, bool]]] = {}
        for client, until, samples, own in db.execute("SELECT * FROM declarations ORDER BY client, until_task"):
            self._earlier.setdefault(client, []).append((until, samples, bool(own)))
        self._caps: list[tuple[int, float]] = list(db.execute("SELECT first_task, samples FROM sample_caps ORDER BY first_task"))

    def declare(self, client: int, samples: int, *, own: bool, next_task: int | None) -> None:
        """This client declares so much; tasks before `next_task` go by what it declared before (None: it has declared nothing).

        Inside a transaction: what it declared before is on the disk with the new value, or neither is.
        """
        before = int(self.samples[client]), bool(self.own[client])
        if before == (samples, own):
            return
        if next_task:
            earlier = self._earlier.setdefault(client, [])
            if not earlier or earlier[-1][0] < next_task:  # else no task was sent with what it declares no more
                earlier.append((next_task, *before))
                self._db.execute(_NEW_DECLARATION, (client, next_task, *before))
        self.samples[client], self.own[client] = samples, own
        self.changes += 1

    def at(self, clients: NDArray[np.integer], task: int) -> tuple[Ints, Bools]:
        """What these clients had declared when this task was sent."""
        samples, own = self.samples[clients], self.own[clients]
        if self._earlier:
            for place, client in enumerate(clients.tolist()):
                for until, earlier_samples, earlier_own in self._earlier.get(client, ()):
                    if task < until:
                        samples[place], own[place] = earlier_samples, earlier_own
                        break
        return samples, own

    def median(self, enrolled: Bools) -> int | None:
        """The median of what enrolled devices declare of data of their own, the lower of two; None if none brings its own."""
        return lower_median(self.samples[enrolled & self.own])

    def cap(self, task: int) -> float:
        """How many samples a report of this task counts at most, if they are a device's own; infinite if nothing was said."""
        at = bisect_right(self._caps, (task, math.inf))
        return self._caps[at - 1][1] if at else math.inf

    def fix_cap(self, first_task: int, cap: float) -> None:
        """Tasks from this one on count no more; it is on the disk when this returns."""
        if cap == self.cap(first_task):
            return
        self._caps = [*(c for c in self._caps if c[0] < first_task), (first_task, cap)]
        self._db.execute("INSERT OR REPLACE INTO sample_caps VALUES (?, ?)", (first_task, cap))

    def forget_tasks(self, next_task: int) -> None:
        """Tasks from this one on were never sent, as far as the journal knows: their numbers are given again."""
        self._caps = [cap for cap in self._caps if cap[0] < next_task]
        self._db.execute("DELETE FROM sample_caps WHERE first_task >= ?", (next_task,))
        self._db.execute("UPDATE OR IGNORE declarations SET until_task = ?1 WHERE until_task > ?1", (next_task,))
        self._db.execute("DELETE FROM declarations WHERE until_task > ?", (next_task,))
        for client, earlier in self._earlier.items():
            kept = [(min(until, next_task), samples, own) for until, samples, own in earlier]
            self._earlier[client] = [*kept[:1], *(after for before, after in pairwise(kept) if after[0] > before[0])]


def lower_median(values: Ints) -> int | None:
    """The middle value, of an even number the lower of the two; None of none.

    >>> lower_median(np.array([7, 3, 1 << 40, 5])), lower_median(np.array([], np.int64))
    (5, None)
    """
    if not len(values):
        return None
    middle = (len(values) - 1) // 2
    return int(np.partition(values, middle)[middle])
