"""The numbers of synchronous rounds: how many reports end a wait, how many make a success, and what closes a round."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.records import Book
from fedfleet.core.round_rules import RoundRules
from fedfleet.pace.rounds import readiness


@pytest.mark.parametrize(("share", "selected", "ready"), [(1.0, 7, 7), (0.14, 50, 7), (0.5, 5, 3), (0.25, 1, 1), (1.0, 0, 0)])
def test_a_share_of_the_selected_ends_the_wait(share, selected, ready):
    assert RoundRules(50, share).ready(selected) == ready


def test_a_success_needs_the_share_of_the_cohort_or_the_share_that_ends_the_wait_if_that_is_less():
    rules = RoundRules(20, 0.25, min_share=0.5)
    assert (rules.success(20), rules.need(20, 20), rules.need(20, 4)) == (10, 5, 1)
    assert RoundRules(20, min_share=0.5).need(20, 4) == 10
    assert RoundRules(20, min_share=0.0).success(20) == 1


@pytest.mark.parametrize(("min_clients", "min_share", "least"), [(2, 0.1, 2), (0, 0.0, 1), (2, 0.5, 10), (15, 0.5, 15)])
def test_the_least_number_of_selected_clients_with_which_a_round_can_succeed(min_clients, min_share, least):
    assert RoundRules(20, min_clients=min_clients, min_share=min_share).least() == least


def test_a_deadline_that_never_comes_is_a_deadline_all_the_same():
    waits, late, never = RoundRules(3), RoundRules(3, seconds=9.0), RoundRules(3, seconds=math.inf)
    assert [rules.by_deadline for rules in (waits, late, never)] == [False, True, True]
    assert [rules.time_limit for rules in (waits, late, never)] == [math.inf, 9.0, math.inf]


def test_rounds_are_independent_unless_something_outlasts_them():
    assert RoundRules(3).independent and RoundRules(3, wait_if_few=True).independent
    assert not any(rules.independent for rules in (RoundRules(3, max_staleness=1), RoundRules(3, lease=9.0)))


@given(
    cohort=st.integers(1, 60), ready_share=st.floats(0.05, 1.0), min_share=st.floats(0.0, 1.0), selected=st.integers(1, 60),
    arrived=st.integers(0, 60),
)  # fmt: skip
def test_more_reports_or_fewer_silent_clients_never_make_a_success_a_failure(cohort, ready_share, min_share, selected, arrived):
    selected, arrived = min(selected, cohort), min(arrived, selected, cohort)
    rules = RoundRules(cohort, ready_share, min_share=min_share, min_clients=1)

    def succeeds(arrived: int, selected: int) -> bool:
        return arrived >= rules.need(cohort, selected)

    if succeeds(arrived, selected):
        assert succeeds(arrived + 1, selected)
        assert selected == cohort or succeeds(arrived + 1, selected + 1)
        assert arrived == selected or succeeds(arrived, selected - 1)
    policy = readiness(cohort, ready_share=ready_share, min_share=min_share, min_clients=1)
    ended = Book(now=99.0, wanted=cohort, selected=selected, arrived=arrived, first_sent_at=20.0, sent_at=20.0, kept=policy.initial)
    assert policy.decide(ended).commit is succeeds(arrived, selected)


def test_four_reports_of_four_are_as_good_as_four_of_five():
    rules = RoundRules(20, 0.8, min_share=0.5)
    assert [rules.need(20, selected) for selected in (4, 5, 10, 12, 13, 20)] == [4, 4, 8, 10, 10, 10], "docs/how-to/pacing.md"
    assert (rules.waits_for(), rules.least(), replace(rules, wait_if_few=True).least()) == (5, 2, 5)
