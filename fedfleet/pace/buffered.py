"""Asynchronous pacing: so many tasks run at any time, and a model is made whenever enough reports are there."""

from __future__ import annotations

import math

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Natural, Positive, Waiting
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision

_SWEEPS = 8  # how often, within a lease, tasks are looked at that may have outlived theirs
_TRIES = 20  # a round that sent so many times what it needs, and has nobody at work, has failed


def buffered(
    *,
    k: Count = 10,
    concurrency: Count = 20,
    max_staleness: Natural | None = None,
    lease: Waiting = math.inf,
    refill: Positive = 1.0,
    batch: Count = 1,
) -> Policy:
    """FedBuff's pacing: keep `concurrency` tasks running, and commit whenever `k` reports have come.

    Nguyen et al. 2022. Whoever reported or was lost is replaced when `refill` seconds have passed since the last broadcast, and not
    before `batch` places are free: asking looks at the whole fleet, so that replacing many at once is much faster. With too few
    clients in reach it asks again as soon as one is there. Tasks that would be folded more than `max_staleness` versions
    late are given up at the commit that makes them so (default: none are), and those that have run for `lease` seconds
    within the next eighth of that. A round that has sent twenty times what it needs, with nobody left at work, fails.

    >>> buffered(k=2, concurrency=5).decide(Book(now=1.0, kept=(0.0, 0.0, 0.0))).ask
    5
    """
    if batch > concurrency:
        raise BadInput(
            f"batch: {batch} places are never free when {concurrency} tasks run; lower batch or raise concurrency"
        )
    # What runs now will be one version older when this commit is made.
    commit, enough, every = Decision(commit=True, drop=max_staleness), _TRIES * max(k, concurrency), lease / _SWEEPS

    def decide(book: Book) -> Decision:
        if book.arrived >= k:
            return commit
        answered_at, swept_at, short = book.kept
        coming = book.wanted - book.selected if book.asking else 0
        room = concurrency - book.running - coming
        if book.answered:
            answered_at, short = book.now, float(room > 0)
        kept = (answered_at, swept_at, short)
        memory = None if kept == book.kept else kept
        sweep = swept_at + every if book.running else math.inf
        until = None if sweep == math.inf else sweep
        if book.now >= sweep:
            wake = book.now + min(refill, every)  # places that this makes free are seen then
            return Decision(wake_at=wake, drop_before=book.now - lease, keep=(answered_at, book.now, short))
        if book.selected >= enough and not (book.running or book.asking):
            return Decision(abandon=f"{book.arrived} of {k} reports came", keep=memory)
        if room <= 0 or (room < batch and book.running and not coming):
            return NOTHING if memory is None and until is None else Decision(wake_at=until, keep=memory)
        start = max(answered_at, book.sent_at) + refill
        if book.now < start and not coming:  # an ask that is out can grow at any time
            return Decision(wake_at=min(start, sweep), keep=memory)
        return Decision(room, until, keep=memory, at_least=int(short))

    return Policy(
        "buffered", decide, concurrency, (0.0, 0.0, 0.0), prompt=True, key="concurrency", holds=k, rounds=False
    )
