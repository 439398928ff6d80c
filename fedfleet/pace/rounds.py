"""Synchronous rounds: `readiness` waits for a share of the cohort, `deadline` for a fixed time.

Both follow FLHetBench: t_break passes before each round; fewer than `min_clients` selected, or fewer than
`min_share` of the cohort successful, fails the round (supplement, section III): it counts, and the model stays. So a fleet
in which no client can be reached for an hour burns a round every t_break; with `if_few = "wait"`, which is not the paper's, a
round begins when as many can be reached at once as it needs to succeed.

With `max_staleness` above 0 no late client is dropped at once: its report is folded by whichever later round it reaches,
as long as no more than so many models were made meanwhile, and count in its success as in FLHetBench. Until then they are busy.
A round still ends by its own clients, and one that failed makes no report staler.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Natural, Positive, Share, Waiting
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision
from fedfleet.core.round_rules import RoundRules

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
    `max_staleness` versions late are folded by a later round; what is older is dropped. A client that has not reported `lease`
    seconds after the last broadcast is given up, and the round is closed with what is there: without a lease it waits for as long
    as it takes, and so for ever if a report is lost on its way.

    >>> readiness(3).decide(Book(now=20.0)).ask
    3
    """
    wait = if_few == "wait"
    rules = RoundRules(cohort, ready_share, None, t_break, min_clients, min_share, wait, max_staleness, lease)
    return round_policy("readiness", rules)


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
    rules = RoundRules(cohort, 1.0, seconds, t_break, min_clients, min_share, if_few == "wait", max_staleness)
    return round_policy("deadline", rules)


@lru_cache(maxsize=16)
def _wait_until(end: float) -> Decision:
    """Restated for every report of a round, and so made once."""
    return NOTHING if end == math.inf else Decision(wake_at=end)


def round_policy(name: str, rules: RoundRules) -> Policy:
    """The policy whose rounds go by these rules, and by nothing else."""
    cohort, seconds, t_break, share = rules.cohort, rules.time_limit, rules.t_break, rules.ready_share
    fewest = max(rules.min_clients, 1)
    if fewest > cohort:
        raise BadInput(
            f"min_clients: {rules.min_clients} clients can never be selected from a cohort of {cohort}; "
            "lower min_clients or raise cohort"
        )
    least, few = rules.least(), f"fewer than {fewest} clients could be selected"
    ask = Decision(cohort, at_least=least if rules.wait_if_few else 0)
    waits = seconds == math.inf  # as long as it takes, whatever a selector thinks of it
    # Without a new model no report becomes staler; with it, one that is `late` versions old now is too old.
    late = rules.max_staleness
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
            return _close_round(rules, book, commit if enough else Decision(abandon=few, drop=drop))
        end = book.first_sent_at + seconds if waits or book.due is None else book.due
        if has_lease:
            end = min(end, book.sent_at + rules.lease)
        arrived, running = (book.own_arrived, book.own_running) if late else (book.arrived, book.running)
        if book.now < end and arrived < math.ceil(share * selected - 1e-9) and running:
            return _wait_until(end)
        need = rules.need(book.wanted, selected)
        if book.arrived < need:
            return _close_round(rules, book, Decision(abandon=f"{book.arrived} of at least {need} reports arrived", drop=drop))
        return _close_round(rules, book, commit)

    longest, warnings = min(seconds, rules.lease), ()
    if rules.ready(cohort) < rules.success(cohort):  # a share that ends the wait before the needed one can come decides alone
        warnings = (
            f"pace.min_share = {rules.min_share:g} has no effect, because rounds end as soon as ready_share = "
            f"{rules.ready_share:g} of the selected clients have reported; lower min_share, or raise ready_share above it",
        )
    return Policy(
        name, decide, cohort, least=least, patience=math.inf if late else longest, doubts=warnings,
        limit="lease" if has_lease else "seconds", endless=longest == math.inf, round_rules=rules,
    )  # fmt: skip


def _close_round(rules: RoundRules, book: Book, decision: Decision) -> Decision:
    """This end of a round; where late reports are let in, a task that outlived its lease is given up however young its model is."""
    if rules.lease == math.inf or not rules.max_staleness:
        return decision
    if book.now >= book.sent_at + rules.lease:
        return decision._replace(drop=0)
    return decision._replace(drop_before=book.now - rules.lease)
