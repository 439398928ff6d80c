"""Synchronous rounds: `readiness` waits for a share of the cohort, `deadline` for a fixed time.

Both follow FLHetBench: t_break passes before each round; fewer than `min_clients` selected, or fewer than
`min_share` of the cohort successful, fails the round (supplement, section III): it counts, and the model stays.
"""

from __future__ import annotations

import math

from fedfleet.core.limits import Count, Fraction, Natural, Positive, Share
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

    >>> readiness(3).decide(Book(now=20.0)).ask
    3
    """
    return Policy("readiness", _rounds(cohort, ready_share, math.inf, t_break, min_clients, min_share), cohort)


def deadline(
    cohort: Count = 20,
    *,
    seconds: Positive = 120.0,
    t_break: Positive = 20.0,
    min_clients: Natural = 2,
    min_share: Fraction = 0.1,
) -> Policy:
    """Commit what has arrived after a fixed time, or earlier if everyone has reported; the rest is dropped.

    A report that arrives exactly at the deadline counts.
    """
    return Policy("deadline", _rounds(cohort, 1.0, seconds, t_break, min_clients, min_share), cohort)


def _rounds(cohort: int, ready_share: float, seconds: float, t_break: float, min_clients: int, min_share: float):
    least = max(min_clients, 1)
    few = f"fewer than {least} clients could be selected"

    def decide(book: Book) -> Decision:
        if book.wanted == 0:
            start = book.opened_at + t_break
            return Decision(ask=cohort) if book.now >= start else Decision(wake_at=start)
        if book.asking:
            return NOTHING
        if book.selected < least:
            return Decision(abandon=few, drop=0)
        over = book.now >= book.sent_at + seconds
        # The small slack keeps 0.14 * 50 = 7.000000000000001 at seven.
        enough = book.arrived >= math.ceil(ready_share * book.selected - 1e-9)
        if over or enough or book.running == 0:
            need = max(1, math.ceil(min_share * book.wanted - 1e-9))
            if book.arrived < need:
                return Decision(abandon=f"{book.arrived} of at least {need} reports arrived", drop=0)
            return Decision(commit=True, drop=0)
        return NOTHING if math.isinf(seconds) or not book.answered else Decision(wake_at=book.sent_at + seconds)

    return decide
