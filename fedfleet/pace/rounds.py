"""Synchronous rounds: `readiness` waits for a share of the cohort, `deadline` for a fixed time.

Both follow FLHetBench: t_break passes before each round; fewer than `min_clients` selected, or fewer than
`min_share` of the cohort successful, fails the round (supplement, section III): it counts, and the model stays. So a fleet
in which nobody can be reached for an hour burns a round every t_break; with `if_few = "wait"`, which is not the paper's, a
round begins when as many can be reached at once as it needs to succeed.

With `max_staleness` above 0 nobody who is late is dropped at once: their reports are folded by whichever later round they reach,
as long as no more than so many models were made meanwhile, and count in its success as in FLHetBench. Until then they are busy.
A round still ends by its own clients, and one that failed makes nobody staler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Natural, Positive, Share, Waiting
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision

IfFew = Literal["fail", "wait"]


def readiness(
    cohort: Count = 20,
    *,
    ready_share: Share = 1.0,
    t_break: Positive = 20.0,
    min_clients: Natural = 2,
    min_share: Fraction = 0.1,
    if_few: IfFew = "fail",
    max_staleness: Natural = 0,
    lease: Waiting = math.inf,
) -> Policy:
    """Commit as soon as a share of the selected clients has reported; the rest is dropped, or folded late.

    A share of the selected that is less than `min_share` of the cohort is enough for success too. `if_few` says what becomes of
    a round for which too few clients can be reached: it fails, or it waits for them. Reports that come up to
    `max_staleness` versions late are folded by a later round; what is older is dropped. Whoever has not reported `lease` seconds
    after the last broadcast is given up, and the round is closed with what is there: without a lease it waits for as long as it
    takes, and so for ever if a report is lost on its way.

    >>> readiness(3).decide(Book(now=20.0)).ask
    3
    """
    rules = _Rules(cohort, ready_share, math.inf, t_break, min_clients, min_share, if_few, max_staleness, lease)
    return _rounds("readiness", rules)


def deadline(
    cohort: Count = 20,
    *,
    seconds: Waiting = 120.0,
    t_break: Positive = 20.0,
    min_clients: Natural = 2,
    min_share: Fraction = 0.1,
    if_few: IfFew = "fail",
    max_staleness: Natural = 0,
) -> Policy:
    """Commit what has arrived after a fixed time, or earlier if everyone has reported; the rest is dropped, or folded late.

    The time counts from the first broadcast of the round; where a selector says when its reports are due, that holds
    instead. A report that arrives exactly at the deadline counts. `if_few` says what becomes of a round for which too few
    clients can be reached: it fails, or it waits for them. Reports that come up to `max_staleness` versions late are folded by a
    later round (FLHetBench's BiasPrompt+ allows 5); what is older is dropped.
    """
    return _rounds("deadline", _Rules(cohort, 1.0, seconds, t_break, min_clients, min_share, if_few, max_staleness))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The numbers of a policy."""

    cohort: int
    ready_share: float
    seconds: float
    t_break: float
    min_clients: int
    min_share: float
    if_few: IfFew
    max_staleness: int
    lease: float = math.inf

    def ready(self, selected: int) -> int:
        """How many reports end the wait. The small slack keeps 0.14 * 50 = 7.000000000000001 at seven."""
        return math.ceil(self.ready_share * selected - 1e-9)

    def success(self, wanted: int) -> int:
        """How many reports `min_share` of the cohort are."""
        return max(1, math.ceil(self.min_share * wanted - 1e-9))

    def need(self, wanted: int, selected: int) -> int:
        """How many reports make a success: whoever asks for a share of the reports has enough when it is there."""
        ready = self.ready(selected)
        return min(self.success(wanted), ready) if ready < selected else self.success(wanted)

    def least(self) -> int:
        """With how many selected clients a round can succeed."""
        few = max(self.min_clients, 1)
        return next(n for n in range(few, self.cohort + 1) if n >= self.need(self.cohort, n))

    def close_round(self, book: Book, decision: Decision) -> Decision:
        """This end of a round; where late reports are let in, who has outlived its lease is given up however young its model is."""
        if self.lease == math.inf or not self.max_staleness:
            return decision
        if book.now >= book.sent_at + self.lease:
            return decision._replace(drop=0)
        return decision._replace(drop_before=book.now - self.lease)


@lru_cache(maxsize=16)
def _wait_until(end: float) -> Decision:
    """Restated for every report of a round, and so made once."""
    return NOTHING if end == math.inf else Decision(wake_at=end)


def _rounds(name: str, rules: _Rules) -> Policy:
    cohort, seconds, t_break, share = rules.cohort, rules.seconds, rules.t_break, rules.ready_share
    fewest = max(rules.min_clients, 1)
    if fewest > cohort:
        raise BadInput(
            f"min_clients: {rules.min_clients} clients can never be selected from a cohort of {cohort}; "
            "lower min_clients or raise cohort"
        )
    least, few = rules.least(), f"fewer than {fewest} clients could be selected"
    ask = Decision(cohort, at_least=least if rules.if_few == "wait" else 0)
    waits = seconds == math.inf  # as long as it takes, whatever a selector thinks of it
    late = (
        rules.max_staleness
    )  # without a new model nobody becomes staler; with it, who is `late` versions old now is too old
    commit, drop, has_lease = Decision(commit=True, drop=late), late + 1 if late else 0, rules.lease < math.inf

    def decide(book: Book) -> Decision:
        if book.asking:
            return NOTHING
        selected = book.selected
        if book.wanted == 0:
            start = book.opened_at + t_break
            return ask if book.now >= start else Decision(0, start)
        if selected < fewest:  # what came late would be lost with the round
            enough = late and book.arrived >= rules.success(book.wanted)
            return rules.close_round(book, commit if enough else Decision(abandon=few, drop=drop))
        end = book.first_sent_at + seconds if waits or book.due is None else book.due
        if has_lease:
            end = min(end, book.sent_at + rules.lease)
        arrived, running = (book.own_arrived, book.own_running) if late else (book.arrived, book.running)
        if book.now < end and arrived < math.ceil(share * selected - 1e-9) and running:
            return _wait_until(end)
        need = rules.need(book.wanted, selected)
        if book.arrived < need:
            return rules.close_round(
                book, Decision(abandon=f"{book.arrived} of at least {need} reports arrived", drop=drop)
            )
        return rules.close_round(book, commit)

    longest = min(seconds, rules.lease)
    return Policy(
        name, decide, cohort, least=least, patience=math.inf if late else longest, doubts=_warnings(rules),
        limit="lease" if has_lease else "seconds", endless=longest == math.inf,
    )  # fmt: skip


def _warnings(rules: _Rules) -> tuple[str, ...]:
    """A share that ends the wait before the share that is needed can come decides alone."""
    if rules.ready(rules.cohort) >= rules.success(rules.cohort):
        return ()
    return (
        f"pace.min_share = {rules.min_share:g} decides nothing, because rounds end as soon as ready_share = "
        f"{rules.ready_share:g} of the selected clients have reported; lower min_share, or raise ready_share above it",
    )
