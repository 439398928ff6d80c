"""When reports are due: selectors say so, deadlines follow, and whoever arrives exactly then counts."""

from dataclasses import replace

import numpy as np

from fedfleet.core.events import (
    ModelCommitted,
    TasksSent,
)
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import NOTHING, Assignments, Book, Context, Decision, Stop, whole_work
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.testing.toys import consensus
from tests.worlds import even_fleet, events_of, only, toy_plan, world_of


def generous(due):
    """Everyone, with settings of their own, and a time by which reports are due."""

    def pick(state, roster, n, draw):
        clients = roster.clients[:n]
        settings = {"portion": 1.0 / (1.0 + clients), "rate": np.full(len(clients), 0.5)}
        return Assignments(clients, np.zeros(len(clients), np.int64), np.ones(len(clients)), settings, due)

    return Selector("generous", pick)


def test_a_selector_says_when_reports_are_due_and_the_deadline_follows():
    plan = toy_plan(deadline(3, seconds=100.0, t_break=1.0), 3, choose=generous(5.0), stop=Stop(rounds=2))
    events, _ = events_of(plan, world_of(even_fleet(3, [2.0, 4.0, 50.0]), steady=True))
    assert [e.due for e in only(TasksSent, events)] == [5.0, 5.0]
    assert [(e.time, e.folded) for e in only(ModelCommitted, events)] == [(6.0, 2), (12.0, 2)]


def test_settings_reach_the_fold_with_each_report():
    notes, toy = [], consensus()

    def enter(weight, stats, context):
        if context not in notes:  # asked once to check and once to add
            notes.append(context)
        return toy.fold.enter(weight, stats, context)

    noting = replace(toy, fold=replace(toy.fold, enter=enter))
    plan = toy_plan(readiness(3), 3, algorithm=noting, choose=generous(None), stop=Stop(rounds=1))
    events_of(plan, world_of(even_fleet(3)))
    assert [c.settings for c in notes] == [{"portion": 1.0 / (1 + c), "rate": 0.5} for c in range(3)]
    assert Context(0, 1.0, 0).settings == {}


def test_a_report_of_any_wave_that_arrives_exactly_at_the_deadline_counts():
    # Two broadcasts in one round, at 1 and at 3; the deadline is 10 seconds after the first, when the second wave reports.
    def decide(book):
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=2) if book.now >= 1 else Decision(wake_at=1.0)
        if book.asks == 1 and book.now < book.first_sent_at + 2:
            return Decision(wake_at=book.first_sent_at + 2)
        if book.asks == 1:
            return Decision(ask=2, others=True)
        end = book.first_sent_at + 10
        return Decision(commit=True, drop=0) if book.now >= end else Decision(wake_at=end)

    first_come = Selector("first_come", lambda state, roster, n, draw: whole_work(roster.clients[:n]))
    plan = toy_plan(Policy("dated", decide, 2), 4, choose=first_come, stop=Stop(rounds=1))
    events, _ = events_of(plan, world_of(even_fleet(4, [10.0, 9.0, 8.0, 8.0]), steady=True))
    (committed,) = only(ModelCommitted, events)
    assert (committed.time, committed.folded) == (11.0, 4)
    assert Book().first_sent_at == float("inf")
