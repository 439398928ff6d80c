"""Synchronous rounds: `readiness` waits for a share of the cohort, `deadline` for a fixed time.

t_break passes before each round. A round begins when as many clients can be reached at once as it needs to succeed
(`if_few = "wait"`). In FLHetBench (supplement, section III) it begins at once, and fewer than `min_clients` selected fail it: it
counts, and the model stays. So a fleet in which no client can be reached for an hour burns a round every t_break; that is
`if_few = "fail"`. In both, fewer successes than `min_share` of the cohort fail a round.

With `max_staleness` above 0 no late client is dropped at once: its report is folded by whichever later round it reaches,
as long as no more than so many models were made meanwhile, and count in its success as in FLHetBench. Until then they are busy.
A round still ends by its own clients, and one that failed makes no report staler.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, NamedTuple

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Natural, Positive, Share, Waiting
from fedfleet.core.parts import UNSTEADY, Policy, Steady, SteadyDecide
from fedfleet.core.records import NOTHING, Book, Decision
from fedfleet.core.round_rules import RoundRules

IfFew = Literal["fail", "wait"]
# A round that waits fails after so many asks in a row of which the selector accepted too few clients; until then the pause between
# them doubles, at most so often.
ASKS_IN_VAIN, DOUBLINGS = 20, 6
_SILENCE = 10.0  # times as long as late reports may take, after which they are taken to be lost


class _AskMemory(NamedTuple):
    """What a policy that waits remembers: in which round too few clients were picked, of how many asks, and when the last was
    answered."""

    round: float = -1.0
    asks: float = 0.0
    answered_at: float = 0.0


def readiness(
    cohort: Count = 20,
    *,
    ready_share: Share = 1.0,
    t_break: Positive = 20.0,
    min_clients: Natural = 2,
    min_share: Fraction = 0.1,
    if_few: IfFew = "wait",
    max_staleness: Natural = 0,
    lease: Waiting = math.inf,
) -> Policy:
    """Commit as soon as a share of the selected clients has reported; the rest is dropped, or folded late.

    A share of the selected that is less than `min_share` of the cohort is enough for success too. With too few clients in reach a
    round waits for them, or fails at once by `if_few`. Reports that come up to `max_staleness` versions late are folded by a later
    round; what is older is dropped. A client that has not reported `lease` seconds after the last broadcast is given up, and the
    round is closed with what is there: without a lease it waits for as long as it takes, and so for ever if a report is lost.

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
    if_few: IfFew = "wait",
    max_staleness: Natural = 0,
) -> Policy:
    """Commit what has arrived after a fixed time, or earlier if everyone has reported; the rest is dropped, or folded late.

    The time counts from the first broadcast of the round; where a selector says when its reports are due, that holds
    instead. A report that arrives exactly at the deadline counts. With too few clients in reach a round waits for
    them, or fails at once by `if_few`. Reports that come up to `max_staleness` versions late are folded by a
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
    waits_if_few, few_picked = rules.wait_if_few, f"the selector picked fewer than {fewest} clients, {ASKS_IN_VAIN} times in a row"
    waits = seconds == math.inf  # as long as it takes, whatever a selector thinks of it
    # Without a new model no report becomes staler; with it, one that is `late` versions old now is too old.
    late = rules.max_staleness
    commit, drop, has_lease = Decision(commit=True, drop=late), late + 1 if late else 0, rules.lease < math.inf

    # While a round waits for clients, those whose late reports should have come in ten times as many rounds are given up: they are
    # busy as long as they are waited for, and might be all that there are.
    silence = _SILENCE * (late + 1) * (t_break + min(seconds, rules.lease)) if waits_if_few and late else math.inf

    def end_of(book: Book) -> float:
        # Where too few were picked at first, the time counts from the ask that found the others.
        sent_at = book.sent_at if book.asks > 1 and book.kept[:1] == (book.round,) else book.first_sent_at
        end = sent_at + seconds if waits or book.due is None else book.due
        return min(end, book.sent_at + rules.lease) if has_lease else end

    def steady(book: Book) -> Steady:
        if book.asking or not book.wanted or book.selected < fewest:
            return UNSTEADY
        arrived, running = (book.own_arrived, book.own_running) if late else (book.arrived, book.running)
        missing = math.ceil(share * book.selected - 1e-9) - arrived
        end = end_of(book)
        return Steady(min(missing, running) - 1, None if end == math.inf else end)

    def decide(book: Book) -> Decision:
        if book.asking:
            if silence == math.inf or not book.running:
                return NOTHING
            given_up_at = book.sent_at + silence
            return Decision(wake_at=given_up_at) if book.now < given_up_at else Decision(drop=0)
        selected = book.selected
        if book.wanted == 0:
            start = book.opened_at + t_break
            if book.now < start:
                return Decision(0, start)
            given_up_at = book.sent_at + silence
            if silence == math.inf or not book.running:
                return ask
            return ask._replace(wake_at=given_up_at) if book.now < given_up_at else ask._replace(drop=0)
        if selected < fewest:  # what came late would be lost with the round
            enough = late and book.arrived >= rules.success(book.wanted)
            retry = _ask_again(book, rules, cohort, least) if waits_if_few and not enough else None
            if retry is not None:
                return retry
            return _close_round(rules, book, commit if enough else Decision(abandon=few_picked if waits_if_few else few, drop=drop))
        end = end_of(book)
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
        name, SteadyDecide(decide, steady), cohort, tuple(_AskMemory()) if waits_if_few else (), least=least,
        patience=math.inf if late else longest, doubts=warnings, limit="lease" if has_lease else "seconds",
        endless=longest == math.inf, round_rules=rules, most_reports=cohort, late_reports=late > 0,
    )  # fmt: skip


def _ask_again(book: Book, rules: RoundRules, cohort: int, least: int) -> Decision | None:
    """How a round goes on for which the selector accepted too few of the clients in reach: it asks others, after a pause that
    doubles; None after `ASKS_IN_VAIN` asks in a row."""
    memory = _AskMemory(*book.kept)
    if memory[:2] != (book.round, book.asks):
        memory = _AskMemory(book.round, book.asks, book.now)
    if book.asks >= ASKS_IN_VAIN:
        return None
    start = memory.answered_at + max(rules.t_break, 1.0) * 2.0 ** min(book.asks - 1, DOUBLINGS)
    if book.now < start:
        return Decision(wake_at=start, keep=tuple(memory))
    asks_for = cohort - book.selected
    return Decision(asks_for, others=True, keep=tuple(memory), at_least=min(max(least - book.selected, 1), asks_for))


def _close_round(rules: RoundRules, book: Book, decision: Decision) -> Decision:
    """This end of a round; where late reports are let in, a task that outlived its lease is given up however young its model is."""
    if rules.lease == math.inf or not rules.max_staleness:
        return decision
    if book.now >= book.sent_at + rules.lease:
        return decision._replace(drop=0)
    return decision._replace(drop_before=book.now - rules.lease)
