"""Rounds that broadcast again: clients that answer too late are joined by others, and the wait adapts (AIMD).

FS-REAL's budget t_o (Chen et al. 2023): a round that lacks reports when t_o has passed is broadcast to other devices and t_o
doubles; after k quiet rounds in a row t_o falls by a step. The released code looks at the clock only when a report comes, throws
that report away and may ask the same devices again, and as printed t_o never recovers from a long silence. What is made sound
here: the timer fires though all are silent; no client is asked twice in a round; t_o stays below a ceiling and does not
double unless somebody was waited for and somebody new was reached; rebroadcasts come to an end; what comes late counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, Natural, NonNegative, Positive
from fedfleet.core.parts import UNSTEADY, Policy, Steady, SteadyDecide
from fedfleet.core.records import NOTHING, Book, Decision
from fedfleet.pace.rounds import ASKS_IN_VAIN, IfFew

OVER_SELECTION = 1.5  # FS-REAL's over-selection q: so many are asked for each report that is needed
_CEILING = 8.0  # times the first t_o: three doublings


class _Memory(NamedTuple):
    """The policy's memory: t_o and how many rounds in a row were quiet; then of one round, which is named.

    `tried` is how often t_o ran out in it, `asks` how many answers to its asks were noted, with `reached` clients in all by the
    last of them, and `since` when the timer was set.
    """

    seconds: float
    quiet: float = 0.0
    round: float = 0.0
    tried: float = 0.0
    asks: float = 0.0
    reached: float = 0.0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class _Rules:
    """How t_o changes."""

    quiet_rounds: int
    step: float
    floor: float
    ceiling: float

    def begin_round(self, memory: _Memory, book: Book) -> _Memory:
        """The memory at the beginning of a round: the last one counts as quiet if t_o never ran out in it."""
        if memory.round == book.round:
            return memory
        quiet = memory.quiet if not memory.asks else 0.0 if memory.tried else memory.quiet + 1.0
        if quiet < self.quiet_rounds:
            return _Memory(memory.seconds, quiet, book.round)
        return _Memory(max(self.floor, memory.seconds - self.step), 0.0, book.round)

    def note_answer(self, memory: _Memory, book: Book) -> _Memory:
        """The memory after candidates were asked for: the timer starts, and t_o doubles if a rebroadcast went out."""
        if book.asks == memory.asks:
            return memory
        new = book.selected > memory.reached
        seconds = min(2.0 * memory.seconds, self.ceiling) if memory.tried and new and memory.reached else memory.seconds
        since = book.sent_at if new else book.now
        return memory._replace(seconds=seconds, asks=book.asks, reached=book.selected, since=since)


def timeout(
    cohort: Count = 30,
    *,
    goal: Count | None = None,
    seconds: Positive = 60.0,
    quiet_rounds: Count = 5,
    step: NonNegative = 5.0,
    floor: Positive = 5.0,
    ceiling: Positive | None = None,
    most: Natural = 3,
    t_break: Positive = 20.0,
    min_share: Fraction = 0.1,
    if_few: IfFew = "wait",
    max_staleness: Natural = 0,
) -> Policy:
    """Commit when `goal` reports are there; if they are not t_o seconds after a broadcast, ask others too, and wait longer.

    FS-REAL's pacing. t_o begins with `seconds`. A rebroadcast goes to at most `cohort` others, none of which was asked in this
    round, and doubles t_o up to the `ceiling` (default: 8 times `seconds`); not if it reached no client, nor if those before it
    did. After `most` rebroadcasts the round commits what is there, if that is `min_share` of the goal, or fails. After
    `quiet_rounds` rounds in a row in which t_o did not run out it falls by `step`, down to the `floor`, and the count starts
    again. The goal is two thirds of the cohort by default: the paper asks 1.5 times as many as it needs. Reports that come after
    t_o count as long as the round is open; later ones are folded by a later round, up to `max_staleness` versions late, or
    dropped. A round begins when as many are in reach as can succeed, and rebroadcasts without a client do not count; with
    `if_few = "fail"` it broadcasts to those that are there, and fails if they are too few.

    >>> policy = timeout(3, seconds=60.0)
    >>> policy.decide(Book(now=20.0, kept=policy.initial)).ask
    3
    """
    enough = math.ceil(cohort / OVER_SELECTION - 1e-9) if goal is None else goal
    top = _CEILING * seconds if ceiling is None else ceiling
    if enough > cohort:
        raise BadInput(f"goal: one broadcast to {cohort} clients never brings {enough} reports; lower goal or raise cohort")
    if seconds < floor:
        raise BadInput(f"floor: {floor:g} s is more than seconds = {seconds:g}, the first timeout; lower floor")
    if seconds > top:
        raise BadInput(f"ceiling: {top:g} s is less than seconds = {seconds:g}, the first timeout; raise ceiling")
    rules, need = _Rules(quiet_rounds, step, floor, top), max(1, math.ceil(min_share * enough - 1e-9))
    waits = if_few == "wait"
    at_least = need if waits else 0
    drop = max_staleness + 1 if max_staleness else 0  # of a round that fails: without a new model no report becomes staler

    def decide(book: Book) -> Decision:
        memory = rules.note_answer(rules.begin_round(_Memory(*book.kept), book), book)
        keep = None if memory == book.kept else tuple(memory)
        if book.asking:
            return NOTHING if keep is None else Decision(keep=keep)
        if book.wanted == 0:
            start = book.opened_at + t_break
            due = book.now >= start
            return Decision(cohort if due else 0, None if due else start, keep=keep, at_least=at_least if due else 0)
        if (book.own_arrived if max_staleness else book.arrived) >= enough:
            return Decision(commit=True, drop=max_staleness, keep=keep)
        end = memory.since + memory.seconds
        if book.now < end:
            return Decision(wake_at=end, keep=keep)
        if waits and not book.selected and book.asks < ASKS_IN_VAIN:  # clients were in reach, but the selector accepted none
            return Decision(cohort, others=True, keep=keep, at_least=at_least)
        keep = tuple(memory._replace(tried=memory.tried + 1.0))
        if memory.tried < most:
            return Decision(cohort, others=True, keep=keep)
        if book.arrived >= need:
            return Decision(commit=True, drop=max_staleness, keep=keep)
        return Decision(abandon=f"{book.arrived} of at least {need} reports arrived", drop=drop, keep=keep)

    def steady(book: Book) -> Steady:
        memory = _Memory(*book.kept)
        if book.asking or not book.wanted or rules.note_answer(rules.begin_round(memory, book), book) != memory:
            return UNSTEADY
        arrived = book.own_arrived if max_staleness else book.arrived
        return Steady(enough - arrived - 1, memory.since + memory.seconds)

    least = 1 if most else need  # those of several broadcasts need not be in reach at once
    patience = math.inf if max_staleness else top * (most + 1)
    return Policy(
        "timeout", SteadyDecide(decide, steady), cohort, tuple(_Memory(seconds)), least=least, patience=patience, holds=enough,
        limit="ceiling", holds_key="goal", shows=(("t_o", 0),), most_reports=cohort * (most + 1), late_reports=max_staleness > 0,
    )  # fmt: skip
