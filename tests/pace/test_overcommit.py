"""Overcommitment by example: the inner policy sees only what it wanted."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision
from fedfleet.pace.overcommit import overcommit
from fedfleet.pace.rounds import deadline, readiness


def spying(cohort, seen):
    """A policy that asks for its cohort and notes every book that it is shown."""

    def decide(book):
        seen.append(book)
        return Decision(ask=cohort) if book.wanted == 0 else NOTHING

    return Policy("spy", decide, cohort)


def test_it_asks_for_more():
    assert overcommit(readiness(10), factor=1.3).decide(Book(now=20.0)) == Decision(ask=13)
    assert overcommit(readiness(4), factor=1.3).decide(Book(now=20.0)).ask == 6
    assert overcommit(readiness(3), factor=1.0).decide(Book(now=20.0)).ask == 3


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.integers(1, 5000), st.floats(1.0, 4.0))
def test_the_inner_policy_sees_what_it_wanted(cohort, factor):
    seen = []
    policy = overcommit(spying(cohort, seen), factor=factor)
    asked = policy.decide(Book()).ask
    assert cohort * factor - 1e-6 <= asked < cohort * factor + 1
    policy.decide(Book(wanted=asked, selected=asked))
    policy.decide(Book(wanted=asked, selected=cohort - 1))
    assert [(b.wanted, b.selected) for b in seen] == [(0, 0), (cohort, cohort), (cohort, cohort - 1)]


def test_the_rest_of_the_book_is_shown_as_it_is():
    seen = []
    book = Book(
        now=9.0, round=3, version=2, opened_at=1.0, sent_at=2.0, wanted=13, selected=13, arrived=4, lost=1, running=8
    )
    overcommit(spying(10, seen), factor=1.3).decide(book)
    assert seen == [Book(9.0, 3, 2, 1.0, 2.0, 10, 10, 4, 1, 8)]


def test_the_first_that_report_are_enough_and_the_others_are_dropped():
    policy = overcommit(readiness(4), factor=1.5)
    book = {"now": 30.0, "sent_at": 20.0, "wanted": 6, "selected": 6}
    assert policy.decide(Book(arrived=3, running=3, **book)) is NOTHING
    assert policy.decide(Book(arrived=4, running=2, **book)) == Decision(commit=True, drop=0)


def test_the_deadline_of_the_inner_policy_holds():
    policy = overcommit(deadline(4, seconds=10.0), factor=1.5)
    book = {"sent_at": 20.0, "wanted": 6, "selected": 6, "arrived": 2, "running": 4}
    assert policy.decide(Book(now=20.0, answered=True, **book)) == Decision(wake_at=30.0)
    assert policy.decide(Book(now=30.0, **book)) == Decision(commit=True, drop=0)


@pytest.mark.parametrize(("selected", "fails"), [(1, True), (2, False)])
def test_min_clients_is_about_the_clients_that_were_selected(selected, fails):
    policy = overcommit(readiness(4, min_clients=2), factor=2.0)
    decision = policy.decide(Book(now=20.0, sent_at=20.0, wanted=8, selected=selected, running=selected, answered=True))
    assert bool(decision.abandon) == fails


def test_min_share_is_of_what_the_inner_policy_wanted():
    # Half of the 4 wanted, not of the 8 asked.
    policy = overcommit(deadline(4, seconds=10.0, min_share=0.5), factor=2.0)
    book = {"now": 30.0, "sent_at": 20.0, "wanted": 8, "selected": 8}
    assert policy.decide(Book(arrived=2, running=6, **book)).commit
    assert policy.decide(Book(arrived=1, running=7, **book)).abandon


def test_its_name_tells_what_it_wraps():
    policy = overcommit(deadline(4))
    assert policy.name == "overcommit(deadline)"
    assert policy.cohort == 4
    assert math.ceil(4 * 1.3) == policy.decide(Book(now=20.0)).ask
