"""Synchronous rounds: `readiness` waits for a share of the cohort, `deadline` for a fixed time.

Both follow FLHetBench: t_break passes before each round; fewer than `min_clients` selected, or fewer than
`min_share` of the cohort successful, fails the round (supplement, section III): it counts, and the model stays.
"""

from __future__ import annotations

import math
from functools import lru_cache

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Natural, Positive, Share, Waiting
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision


def readiness(
    cohort: Count = 20,
    *,
    ready_share: Share = 1.0,
    t_break: Positive = 20.0,
    min_clients: Natural = 2,
    min_share: Fraction = 0.1,
) -> Policy:
    """Commit as soon as a share of the selected clients has reported; the rest is dropped.

    A share of the selected that is less than `min_share` of the cohort is enough for success too.

    >>> readiness(3).decide(Book(now=20.0)).ask
    3
    """
    return Policy("readiness", _rounds(cohort, ready_share, math.inf, t_break, min_clients, min_share), cohort)


def deadline(
    cohort: Count = 20,
    *,
    seconds: Waiting = 120.0,
    t_break: Positive = 20.0,
    min_clients: Natural = 2,
    min_share: Fraction = 0.1,
) -> Policy:
    """Commit what has arrived after a fixed time, or earlier if everyone has reported; the rest is dropped.

    The time counts from the first broadcast of the round; where a selector says when its reports are due, that holds
    instead. A report that arrives exactly at the deadline counts.
    """
    return Policy("deadline", _rounds(cohort, 1.0, seconds, t_break, min_clients, min_share), cohort)


@lru_cache(maxsize=16)
def _wait_until(end: float) -> Decision:
    """Restated for every report of a round, and so made once."""
    return NOTHING if end == math.inf else Decision(wake_at=end)


def _rounds(cohort: int, ready_share: float, seconds: float, t_break: float, min_clients: int, min_share: float):
    least = max(min_clients, 1)
    if least > cohort:
        raise BadInput(
            f"min_clients: {min_clients} clients can never be selected from a cohort of {cohort}; "
            "lower min_clients or raise cohort"
        )
    few = f"fewer than {least} clients could be selected"
    waits = seconds == math.inf  # as long as it takes, whatever a selector thinks of it

    def decide(book: Book) -> Decision:
        if book.asking:
            return NOTHING
        selected = book.selected
        if book.wanted == 0:
            start = book.opened_at + t_break
            return Decision(cohort) if book.now >= start else Decision(0, start)
        if selected < least:
            return Decision(abandon=few, drop=0)
        end = book.first_sent_at + seconds if waits or book.due is None else book.due
        # The small slack keeps 0.14 * 50 = 7.000000000000001 at seven.
        ready = math.ceil(ready_share * selected - 1e-9)
        if book.now < end and book.arrived < ready and book.running:
            return _wait_until(end)
        need = max(1, math.ceil(min_share * book.wanted - 1e-9))
        if ready < selected:
            need = min(need, ready)  # whoever asks for a share of the reports has enough when it is there
        if book.arrived < need:
            return Decision(abandon=f"{book.arrived} of at least {need} reports arrived", drop=0)
        return Decision(commit=True, drop=0)

    return decide
