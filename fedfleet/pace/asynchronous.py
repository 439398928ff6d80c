"""Asynchronous pacing: a number of tasks runs at any time; a model is made of enough reports, or at fixed times."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Natural, Positive, Waiting
from fedfleet.core.parts import UNSTEADY, Policy, Steady, SteadyDecide
from fedfleet.core.records import NOTHING, Book, Decision
from fedfleet.pace.rounds import IfFew

_SWEEPS = 8  # how often, within a lease, tasks are looked at that may have outlived theirs
_TRIES = 20  # a round has failed that sent so many times what it needs, or asked so often in vain, with no task running
_START = (0.0, 0.0, 0.0)  # the memory of `Places`
_DOUBLINGS = 6.0  # of the pause between asks in vain


@dataclass(frozen=True, slots=True)
class Places:
    """So many tasks at work at any time; the numbers of `buffered`. Its memory are three floats of a policy's.

    When candidates were last seen, when leases were last looked at, and whether too few were found: if no task was running either,
    how many times in a row.
    """

    concurrency: int
    lease: float
    refill: float
    batch: int

    def patience(self) -> float:
        """After how many seconds, at the latest, a task is given up."""
        return self.lease * (1.0 + 1.0 / _SWEEPS) + self.refill

    def fill(self, book: Book) -> Decision:
        """Fill places that are free, and give up tasks that have outlived their lease; no round is closed by that."""
        answered_at, swept_at, short = book.kept
        coming = book.wanted - book.selected if book.asking else 0
        room = self.concurrency - book.running - coming
        if book.answered:
            previous = short if not book.running else 0.0
            answered_at, short = book.now, previous + 1.0 if room > 0 else 0.0
        kept = (answered_at, swept_at, short)
        memory, every = None if kept == book.kept else kept, self.lease / _SWEEPS
        sweep = swept_at + every if book.running else math.inf
        until = None if sweep == math.inf else sweep
        if book.now >= sweep:
            wake = book.now + min(self.refill, every)  # places that this makes free are seen then
            return Decision(wake_at=wake, drop_before=book.now - self.lease, keep=(answered_at, book.now, short))
        if room <= 0 or (room < self.batch and book.running and not coming):
            return NOTHING if memory is None and until is None else Decision(wake_at=until, keep=memory)
        start = self._next_ask(book, answered_at, short)
        if book.now < start and not coming:  # an ask that is out can grow at any time
            return Decision(wake_at=min(start, sweep), keep=memory)
        return Decision(room, until, keep=memory, at_least=int(short > 0))

    def _next_ask(self, book: Book, answered_at: float, short: float) -> float:
        """When free places may be filled.

        Which clients are in reach, and which a selector accepts, may differ for a night: it looks less and less often, but not for
        ever.
        """
        return max(answered_at, book.sent_at) + (self.refill * 2.0 ** min(max(short - 1.0, 0.0), _DOUBLINGS))

    def steady(self, book: Book) -> Steady:
        """How many of the next reports change nothing about when `fill` wants to be woken."""
        answered_at, swept_at, short = book.kept
        coming = book.wanted - book.selected if book.asking else 0
        room, sweep = self.concurrency - book.running - coming, swept_at + self.lease / _SWEEPS
        # So many free places are left alone.
        idle_places = 0 if coming else self.batch - 1
        if room < idle_places:
            return Steady(min(idle_places - room, book.running - 1), None if sweep == math.inf else sweep)
        if coming:
            return UNSTEADY
        return Steady(book.running - 1, min(self._next_ask(book, answered_at, short), sweep))


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

    Nguyen et al. 2022. A client that reported or was lost is replaced when `refill` seconds have passed since the last broadcast,
    and not before `batch` places are free: asking looks at the whole fleet, so that replacing many at once is much faster. With
    too few clients in reach it asks again as soon as one is there. Tasks that would be folded more than `max_staleness` versions
    late are given up at the commit that makes them so (default: none are), and those that have run for `lease` seconds within the
    next eighth of that. A round that has sent twenty times what it needs, with no task left running, fails. While no task runs and
    the selector accepts no client in reach, the pause doubles from ask to ask, up to 64 `refill`s, and after as many asks in a row
    the round fails too.

    >>> buffered(k=2, concurrency=5).decide(Book(now=1.0, kept=(0.0, 0.0, 0.0))).ask
    5
    """
    if batch > concurrency:
        raise BadInput(f"batch: {batch} places are never free with concurrency = {concurrency}; lower batch or raise concurrency")
    places, enough = Places(concurrency, lease, refill, batch), _TRIES * max(k, concurrency)
    commit = Decision(commit=True, drop=max_staleness)  # what runs now will be one version older when it is made

    def decide(book: Book) -> Decision:
        if book.arrived >= k:
            return commit
        decision = places.fill(book)
        answered_at, swept_at, short = book.kept if decision.keep is None else decision.keep
        idle = not (book.running or book.asking)
        if idle and book.selected >= enough:
            return Decision(abandon=f"{book.arrived} of {k} reports came", keep=decision.keep)
        if idle and short >= enough:
            nobody = f"nobody in reach was picked, {enough} times in a row"
            return Decision(abandon=nobody, keep=(answered_at, swept_at, 1.0))
        return decision

    def steady(book: Book) -> Steady:
        arrivals, wake_at = places.steady(book)
        return Steady(min(arrivals, k - book.arrived - 1), wake_at)

    return Policy(
        "buffered", SteadyDecide(decide, steady), concurrency, _START, patience=places.patience(), prompt=True,
        key="concurrency", holds=k, limit="lease", endless=lease == math.inf, rounds=False, most_reports=k - 1 + concurrency,
    )  # fmt: skip


def semi_async(
    period: Positive = 60.0,
    max_staleness: Natural = 5,
    *,
    concurrency: Count = 20,
    lease: Positive | None = None,
    refill: Positive = 1.0,
    batch: Count = 1,
    if_few: IfFew | None = "wait",
) -> Policy:
    """Commit every `period` seconds what has arrived by then, and keep `concurrency` tasks running all the time.

    Between a buffer, which waits for a number of reports, and a deadline, which drops late reports: reports are folded up to
    `max_staleness` versions late, and tasks that would be later are given up at the commit that makes them so. A period in which
    nothing arrived goes on for another one; with `if_few = "fail"`, and in runs older than this key, it is a round that failed. A
    round that has sent twenty times `concurrency` tasks without a report fails in any case. A task is given up too when it has run
    for `lease` seconds (default: as many periods as a report may be late, and one more), so that silent clients do not hold their
    places for ever. `refill` and `batch` are those of `buffered`.

    >>> policy = semi_async(60.0, concurrency=5)
    >>> policy.decide(Book(now=1.0, kept=policy.initial)).ask, policy.decide(Book(now=60.0, arrived=3, kept=policy.initial)).commit
    (5, True)
    """
    if batch > concurrency:
        raise BadInput(f"batch: {batch} places are never free with concurrency = {concurrency}; lower batch or raise concurrency")
    longest = period * (max_staleness + 1) if lease is None else lease
    places, enough = Places(concurrency, longest, refill, batch), _TRIES * concurrency
    asks = math.floor(period / refill) + 1  # in a period
    empty = "nothing arrived in a whole period"

    def decide(book: Book) -> Decision:
        decision, end = places.fill(book), book.opened_at + period
        if if_few == "wait" and book.now >= end:
            idle = not (book.running or book.arrived)
            short = (book.kept if decision.keep is None else decision.keep)[2]
            if idle and book.asking:
                return decision  # woken by the first clients that come
            if book.arrived or (book.selected < enough and not (idle and short >= enough)):
                end = _period_end(book, period)
        if book.now < end:
            return decision._replace(wake_at=end if decision.wake_at is None else min(end, decision.wake_at))
        closing = Decision(drop_before=decision.drop_before, keep=decision.keep)
        # What runs now will be one version older when this commit is made.
        return closing._replace(commit=True, drop=max_staleness) if book.arrived else closing._replace(abandon=empty)

    def steady(book: Book) -> Steady:
        arrivals, wake_at = places.steady(book)
        end = book.opened_at + period
        if book.now >= end:
            return UNSTEADY
        return Steady(arrivals, end if wake_at is None else min(end, wake_at))

    return Policy(
        "semi_async", SteadyDecide(decide, steady), concurrency, _START, patience=places.patience(), key="concurrency",
        limit="lease", rounds=False, most_reports=concurrency * (asks + 1),
    )  # fmt: skip


def _period_end(book: Book, period: float) -> float:
    """When the period ends that is open now, of all since the round began: the next one's if nothing arrived in one that ends now.
    The small slack keeps 3.0000000000000004 periods at three."""
    passed = (book.now - book.opened_at) / period
    return book.opened_at + period * (max(math.ceil(passed - 1e-9), 1) if book.arrived else math.floor(passed + 1e-9) + 1)
