"""Semi-asynchronous pacing: clients work on without a break, and a model is made of what has arrived at fixed times."""

from __future__ import annotations

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Natural, Positive
from fedfleet.core.parts import Policy
from fedfleet.core.records import Book, Decision
from fedfleet.pace.buffered import Places


def semi_async(
    period: Positive = 60.0,
    max_staleness: Natural = 5,
    *,
    concurrency: Count = 20,
    lease: Positive | None = None,
    refill: Positive = 1.0,
    batch: Count = 1,
) -> Policy:
    """Commit every `period` seconds what has arrived by then, and keep `concurrency` tasks running all the time.

    Between a buffer, which waits for a number of reports, and a deadline, which drops whoever is late: reports are folded up to
    `max_staleness` versions late, and tasks that would be later are given up at the commit that makes them so. A period in which
    nothing arrived is a round that failed. A task is given up too when it has run for `lease` seconds (default: as many periods
    as a report may be late, and one more), so that silent clients do not hold their places for ever. `refill` and `batch`
    are those of `buffered`.

    >>> policy = semi_async(60.0, concurrency=5)
    >>> policy.decide(Book(now=1.0, kept=policy.initial)).ask, policy.decide(Book(now=60.0, arrived=3, kept=policy.initial)).commit
    (5, True)
    """
    if batch > concurrency:
        raise BadInput(
            f"batch: {batch} places are never free when {concurrency} tasks run; lower batch or raise concurrency"
        )
    longest = period * (max_staleness + 1) if lease is None else lease
    places, empty = Places(concurrency, longest, refill, batch), "nothing arrived in a whole period"

    def decide(book: Book) -> Decision:
        decision, end = places.fill(book), book.opened_at + period
        if book.now < end:
            return decision._replace(wake_at=end if decision.wake_at is None else min(end, decision.wake_at))
        closing = Decision(drop_before=decision.drop_before, keep=decision.keep)
        # What runs now will be one version older when this commit is made.
        return closing._replace(commit=True, drop=max_staleness) if book.arrived else closing._replace(abandon=empty)

    return Policy(
        "semi_async", decide, concurrency, Places.initial(), patience=places.patience(), key="concurrency", limit="lease",
        rounds=False,
    )  # fmt: skip
