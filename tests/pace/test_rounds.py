"""Synchronous rounds by example: what the policy decides, given the book."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.events import CandidatesSeen, ModelCommitted, RoundFailed, TasksDropped, TasksSent
from fedfleet.core.parts import Selector
from fedfleet.core.records import NOTHING, Book, Decision, Stop, whole_work
from fedfleet.measure.participation import staleness_histogram
from fedfleet.measure.tasks import task_table
from fedfleet.pace.rounds import deadline, readiness
from tests.worlds import Fleet, even_fleet, events_of, only, toy_plan, world_of
from tests.worlds import plain as shown

BOTH = pytest.mark.parametrize("make", [readiness, deadline])


def waiting(**changes):
    """A round of four that was sent at 20 and now stands at 25."""
    usual = {"now": 25.0, "sent_at": 20.0, "first_sent_at": 20.0, "wanted": 4, "selected": 4, "running": 4}
    return Book(**{**usual, **changes})


@BOTH
def test_t_break_passes_before_a_round(make):
    policy = make(4, t_break=20.0, if_few="fail")
    assert policy.decide(Book(now=100.0, opened_at=100.0)) == Decision(wake_at=120.0)
    assert policy.decide(Book(now=119.0, opened_at=100.0)) == Decision(wake_at=120.0)
    assert policy.decide(Book(now=120.0, opened_at=100.0)) == Decision(ask=4)


@BOTH
def test_nothing_is_decided_while_candidates_are_awaited(make):
    assert make(4).decide(waiting(asking=True, selected=0, running=0)) is NOTHING


@BOTH
@pytest.mark.parametrize(("selected", "goes_on"), [(1, False), (2, True), (3, True)])
def test_fewer_than_min_clients_end_the_round(make, selected, goes_on):
    decision = make(4, min_clients=2, if_few="fail").decide(waiting(selected=selected, running=selected, answered=True))
    assert bool(decision.abandon) != goes_on
    if not goes_on:
        assert decision == Decision(abandon="fewer than 2 clients could be selected", drop=0)


@BOTH
def test_nobody_is_too_few_even_if_none_are_required(make):
    none = make(4, min_clients=0, if_few="fail").decide(waiting(selected=0, running=0, answered=True))
    assert none.abandon == "fewer than 1 clients could be selected"
    assert not make(4, min_clients=0, if_few="fail").decide(waiting(selected=1, running=1, answered=True)).abandon


@BOTH
def test_all_reports_commit_at_once(make):
    assert make(4).decide(waiting(arrived=4, running=0)) == Decision(commit=True, drop=0)
    assert not make(4).decide(waiting(arrived=3, running=1)).commit


@pytest.mark.parametrize(("share", "selected", "enough"), [(0.8, 5, 4), (0.5, 5, 3), (1.0, 5, 5), (0.01, 5, 1), (0.14, 50, 7)])
def test_readiness_waits_for_its_share(share, selected, enough):
    policy = readiness(selected, ready_share=share, min_share=0.0)
    book = {"wanted": selected, "selected": selected}
    assert policy.decide(waiting(arrived=enough - 1, running=selected - enough + 1, **book)) is NOTHING
    assert policy.decide(waiting(arrived=enough, running=selected - enough, **book)) == Decision(commit=True, drop=0)


def test_readiness_waits_as_long_as_it_takes():
    assert readiness(4).decide(waiting(now=1e9, arrived=3, running=1)) is NOTHING


def test_a_round_in_which_everyone_was_lost_fails():
    decision = readiness(4).decide(waiting(arrived=0, lost=4, running=0))
    assert decision == Decision(abandon="0 of at least 1 reports arrived", drop=0)


@BOTH
@pytest.mark.parametrize(("arrived", "commits"), [(1, False), (2, True)])
def test_min_share_is_of_what_was_wanted(make, arrived, commits):
    # 0.2 of 10 wanted is 2, however few were selected.
    decision = make(10, min_share=0.2).decide(waiting(wanted=10, selected=5, arrived=arrived, lost=5 - arrived, running=0))
    assert decision.commit == commits
    assert bool(decision.abandon) != commits
    assert decision.drop == 0


@pytest.mark.parametrize(("share", "min_share", "enough"), [(0.05, 0.1, 1), (0.1, 0.5, 2), (0.5, 0.1, 10)])
def test_a_share_that_is_asked_for_is_enough_for_success(share, min_share, enough):
    # Of 20 wanted and selected, `share` must report; less than `min_share` of the cohort is no failure then.
    policy = readiness(20, ready_share=share, min_share=min_share)
    book = {"wanted": 20, "selected": 20}
    assert policy.decide(waiting(arrived=enough, running=20 - enough, **book)) == Decision(commit=True, drop=0)
    assert policy.decide(waiting(arrived=enough - 1, running=21 - enough, **book)) is NOTHING


def test_a_small_share_commits_every_round():
    plan = toy_plan(readiness(20, ready_share=0.05), 20, stop=Stop(rounds=100))
    events, _ = events_of(plan, world_of(even_fleet(20)))
    assert len(only(ModelCommitted, events)) == 100


@BOTH
def test_min_clients_above_the_cohort_is_refused(make):
    with pytest.raises(BadInput, match="min_clients: 5 clients can never be selected from a cohort of 4"):
        make(4, min_clients=5)
    assert make(4, min_clients=4).cohort == 4


@BOTH
def test_a_round_may_wait_for_as_many_as_it_needs(make):
    asks = Book(now=120.0, opened_at=100.0)
    assert make(40, if_few="fail").decide(asks) == Decision(ask=40), "it takes who is there, as FLHetBench does"
    assert make(40).decide(asks) == make(40, if_few="wait").decide(asks) == Decision(ask=40, at_least=4)
    assert make(40, min_clients=7, if_few="wait").decide(asks).at_least == 7
    assert make(40, min_clients=0, min_share=0.0, if_few="wait").decide(asks).at_least == 1


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (lambda: deadline(100), 10),
        (lambda: deadline(4, min_share=1.0), 4),
        (lambda: readiness(100), 10),
        (lambda: readiness(100, min_clients=1), 10),
        (lambda: readiness(100, ready_share=0.5), 2),  # one of two is a share that is asked for
        (lambda: readiness(100, ready_share=0.95, if_few="fail"), 2),
        (lambda: readiness(20, min_clients=5), 5),
    ],
)
def test_least_is_the_fewest_selected_clients_with_which_a_round_can_succeed(make, least):
    policy = make()

    def can(selected):
        book = {"wanted": policy.cohort, "selected": selected, "running": 0, "now": 1e6}
        return any(policy.decide(waiting(arrived=a, **book)).commit for a in range(1, selected + 1))

    assert policy.least == least
    assert can(least)
    assert not any(can(n) for n in range(1, least))


def test_a_round_waits_for_as_many_as_can_succeed_though_some_are_silent():
    assert [readiness(100, ready_share=share).least for share in (0.5, 0.8, 0.95, 1.0)] == [2, 5, 10, 10]


def test_a_share_that_decides_alone_is_said():
    assert readiness(20).doubts == deadline(20).doubts == readiness(20, ready_share=0.1).doubts == ()
    (doubt,) = readiness(20, ready_share=0.05).doubts
    assert "pace.min_share = 0.1" in doubt and "ready_share = 0.05" in doubt
    assert "raise ready_share" in doubt


def test_how_long_a_policy_waits_for_reports_is_known():
    assert (deadline(4, seconds=7.0).patience, readiness(4).patience) == (7.0, math.inf)
    assert deadline(4, seconds=7.0, max_staleness=1).patience == math.inf


def test_min_share_is_not_raised_by_rounding():
    # 0.14 * 50 is 7.000000000000001 in binary.
    book = waiting(wanted=50, selected=50, arrived=7, lost=43, running=0)
    assert readiness(50, min_share=0.14).decide(book).commit


def test_the_deadline_is_set_when_tasks_go_out_and_not_moved_after():
    policy = deadline(4, seconds=120.0)
    assert policy.decide(waiting(now=20.0, answered=True)) == Decision(wake_at=140.0)
    assert policy.decide(waiting(now=60.0, arrived=1, running=3)) == Decision(wake_at=140.0)
    again = waiting(now=60.0, sent_at=50.0, running=6)  # a second broadcast in the same round
    assert policy.decide(again) == Decision(wake_at=140.0)


def test_a_selector_may_say_when_reports_are_due():
    policy = deadline(4, seconds=120.0)
    assert policy.decide(waiting(now=20.0, due=50.0)) == Decision(wake_at=50.0)
    assert policy.decide(waiting(now=50.0, due=50.0, arrived=2, running=2)) == Decision(commit=True, drop=0)
    assert readiness(4).decide(waiting(now=50.0, due=50.0, arrived=2, running=2)) is NOTHING


@pytest.mark.parametrize(("now", "commits"), [(139.9, False), (140.0, True), (141.0, True)])
def test_at_the_deadline_what_has_arrived_is_committed(now, commits):
    decision = deadline(4, seconds=120.0).decide(waiting(now=now, arrived=2, running=2))
    assert decision == (Decision(commit=True, drop=0) if commits else Decision(wake_at=140.0))


def test_at_the_deadline_too_few_reports_fail_the_round():
    decision = deadline(4, seconds=120.0, min_share=0.5).decide(waiting(now=140.0, arrived=1, running=3))
    assert decision == Decision(abandon="1 of at least 2 reports arrived", drop=0)


def test_no_deadline_needs_no_timer():
    assert deadline(4, seconds=math.inf).decide(waiting(now=20.0, answered=True)) is NOTHING


def test_policies_say_their_name_and_cohort():
    assert (readiness(7).name, readiness(7).cohort) == ("readiness", 7)
    assert (deadline(7).name, deadline(7).cohort) == ("deadline", 7)


# ---- late reports -----------------------------------------------------------------------------------------------------


def late(**changes):
    """A round of four in which two more work on an older model."""
    return waiting(**{"running": 6, "own_running": 4, **changes})


@BOTH
def test_whoever_is_late_may_go_on_as_long_as_its_model_is_young_enough(make):
    done = {"arrived": 4, "own_arrived": 4, "running": 2, "own_running": 0}
    assert make(4, max_staleness=3).decide(late(**done)) == Decision(commit=True, drop=3)
    assert make(4).decide(late(**done)) == Decision(commit=True, drop=0)


@BOTH
def test_a_round_ends_by_its_own_clients(make):
    policy = make(4, max_staleness=3)
    assert not policy.decide(late(arrived=4, own_arrived=2, running=2, own_running=2)).commit
    assert policy.decide(late(arrived=3, own_arrived=3, running=2, own_running=0)).commit


def test_late_reports_count_in_the_success_of_a_round():
    at_the_end = {"now": 140.0, "own_arrived": 1, "own_running": 3}
    policy = deadline(4, seconds=120.0, min_share=0.5, max_staleness=3)
    assert policy.decide(late(arrived=2, running=4, **at_the_end)) == Decision(commit=True, drop=3)
    failed = policy.decide(late(arrived=1, running=5, **at_the_end))
    assert failed == Decision(abandon="1 of at least 2 reports arrived", drop=4), "nobody became staler by that"


def test_enough_late_reports_make_up_for_clients_that_are_not_there():
    alone = {"selected": 1, "answered": True, "own_running": 1, "running": 3}
    assert deadline(4, max_staleness=3).decide(late(arrived=1, **alone)) == Decision(commit=True, drop=3)
    assert deadline(4, max_staleness=3, if_few="fail").decide(late(**alone)).abandon
    assert deadline(4, if_few="fail").decide(late(arrived=1, **alone)).abandon


def test_a_straggler_is_folded_late_and_busy_until_then_and_dropped_beyond():
    fleet = even_fleet(3, [4.0, 4.0, 34.0])
    policy = {s: deadline(3, seconds=10.0, t_break=2.0, min_clients=1, max_staleness=s) for s in (0, 1, 5)}
    logs = {s: events_of(toy_plan(p, 3, stop=Stop(rounds=8)), world_of(fleet, steady=True))[0] for s, p in policy.items()}
    late_by = {s: staleness_histogram(task_table(log)).tolist() for s, log in logs.items()}
    assert late_by[0] == late_by[1] == [16]
    # Sent at 2 and back at 36: rounds of two took place meanwhile, each of 2 + 4 seconds after the first of 12.
    assert len(late_by[5]) == 5 and late_by[5][1:] == [0, 0, 0, 1]
    sizes = [len(e.clients) for e in only(TasksSent, logs[5])]
    assert sizes[:5] == [3, 2, 2, 2, 2], "whoever still works is busy"
    assert len(only(TasksDropped, logs[1])) >= 1


@pytest.mark.parametrize("make", [readiness, deadline])
def test_no_staleness_allowed_is_the_run_that_it_was(make):
    fleet = even_fleet(6, [1.0, 2.0, 3.0, 40.0, 50.0, 200.0])
    plain, said = (events_of(toy_plan(p, 6, stop=Stop(rounds=6)), world_of(fleet))[0] for p in (make(4), make(4, max_staleness=0)))
    assert [shown(e) for e in plain] == [shown(e) for e in said]


# ---- leases -----------------------------------------------------------------------------------------------------------


def test_a_lease_ends_the_wait_for_a_report_that_never_comes():
    policy = readiness(4, lease=100.0)
    assert policy.decide(waiting(arrived=3, running=1)) == Decision(wake_at=120.0)
    assert policy.decide(waiting(now=120.0, arrived=3, running=1)) == Decision(commit=True, drop=0)
    assert policy.decide(waiting(now=120.0, running=4)).abandon == "0 of at least 1 reports arrived"
    again = waiting(now=120.0, sent_at=50.0, arrived=3, running=1)  # somebody else asked for more
    assert policy.decide(again) == Decision(wake_at=150.0)
    assert readiness(4, lease=100.0).decide(waiting(due=50.0, now=60.0)) == Decision(wake_at=120.0)
    assert (policy.patience, policy.limit, policy.endless) == (100.0, "lease", False)
    assert readiness(4).endless and deadline(4, seconds=math.inf).endless and not deadline(4, max_staleness=2).endless


def test_a_lease_gives_up_late_ones_too():
    policy = readiness(4, lease=100.0, max_staleness=3)
    done = {"arrived": 4, "own_arrived": 4, "running": 2, "own_running": 0}
    assert policy.decide(late(**done)) == Decision(commit=True, drop=3, drop_before=-75.0)
    over = late(now=120.0, arrived=3, own_arrived=3, running=3, own_running=1)
    assert policy.decide(over) == Decision(commit=True, drop=0)


def test_a_run_whose_reports_are_lost_goes_on_with_a_lease():
    fleet = even_fleet(6, [2.0, 2.0, 2.0, 1e9, 1e9, 1e9])
    for staleness in (0, 2):
        policy = readiness(6, t_break=1.0, lease=10.0, max_staleness=staleness)
        events, _ = events_of(toy_plan(policy, 6, stop=Stop(rounds=9)), world_of(fleet, steady=True))
        assert [e.time for e in only(ModelCommitted, events)] == [11.0 * i for i in range(1, 10)]


def of(members, n=4):
    """A selector that accepts these clients only, although it does not say so."""

    def pick(state, roster, wanted, draw):
        return whole_work(roster.clients[np.isin(roster.clients, members)][:wanted])

    return Selector("picky", pick)


@BOTH
def test_a_round_asks_again_where_the_selector_accepts_too_few(make):
    # Client 0 is there at once, client 1 from 100 on; others come and go and are not wanted.
    ready = (((0.0, 1000.0),), ((100.0, 1000.0),), ((0.0, 900.0),), ((0.0, 900.0),))
    fleet = Fleet(even_fleet(4).keys, (4.0,) * 4, (1000.0,) * 4, ready)
    events, _ = events_of(toy_plan(make(2, t_break=10.0), 4, choose=of([0, 1]), stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert [e.time for e in only(CandidatesSeen, events)] == [10.0, 20.0, 40.0, 80.0, 160.0], "pauses double"
    assert [(e.time, e.clients.tolist()) for e in only(TasksSent, events)] == [(10.0, [0]), (160.0, [1])]
    assert [e.folded for e in only(ModelCommitted, events)] == [2] and not only(RoundFailed, events)


@BOTH
def test_a_selector_that_never_accepts_enough_fails_the_round_in_the_end(make):
    events, _ = events_of(toy_plan(make(2, t_break=10.0), 4, choose=of([]), stop=Stop(rounds=2)), world_of(even_fleet(4)))
    assert [e.reason for e in only(RoundFailed, events)] == ["the selector picked fewer than 2 clients, 20 times in a row"] * 2
    assert len(only(CandidatesSeen, events)) == 40


@BOTH
def test_clients_that_a_selector_never_asks_are_not_waited_for(make):
    fleet = Fleet(even_fleet(3).keys, (4.0,) * 3, (1000.0,) * 3, (((0.0, 1000.0),), ((300.0, 1000.0),), ((0.0, 1000.0),)))
    choose = replace(of([0, 1]), members=np.array([0, 1]))
    events, _ = events_of(toy_plan(make(2, t_break=10.0), 3, choose=choose, stop=Stop(rounds=1)), world_of(fleet, steady=True))
    assert [e.time for e in only(CandidatesSeen, events)] == [300.0]


def test_late_reports_that_never_come_do_not_keep_a_round_waiting_for_ever():
    # Clients 0 and 1 take the first task and say nothing any more; with them nobody else is left but client 2.
    policy = deadline(2, seconds=10.0, t_break=2.0, max_staleness=1)
    ask = policy.decide(Book(now=22.0, opened_at=20.0, sent_at=2.0, running=2, kept=policy.initial))
    assert (ask.ask, ask.at_least, ask.wake_at) == (2, 2, 242.0)
    waiting_ask = Book(now=30.0, sent_at=2.0, asking=True, running=2, kept=policy.initial)
    assert policy.decide(waiting_ask) == Decision(wake_at=2.0 + 10 * 2 * 12.0)
    assert policy.decide(waiting_ask._replace(now=242.0)) == Decision(drop=0)
    assert policy.decide(waiting_ask._replace(running=0)) is NOTHING
