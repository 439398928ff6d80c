"""Asynchronous pacing: all places are filled, a full buffer or a period makes a model, and late or silent tasks are given up."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.asynchronous import utilisation
from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.events import (
    CandidatesSeen,
    ModelCommitted,
    ReportsGathered,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.records import NOTHING, Book, Decision, Stop, whole_work
from fedfleet.measure.participation import staleness_histogram
from fedfleet.measure.tasks import task_table
from fedfleet.pace.asynchronous import buffered, semi_async
from fedfleet.pace.rounds import readiness
from tests.worlds import Fleet, even_fleet, events_of, fleets, only, toy_plan, world_of

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=40)


def book(**changes):
    """Four tasks run since 10, of which nobody has reported at 12."""
    usual = {"now": 12.0, "sent_at": 10.0, "wanted": 4, "selected": 4, "running": 4, "kept": (10.0, 10.0, 0.0)}
    return Book(**{**usual, **changes})


def small(**changes):
    return buffered(**{"k": 2, "concurrency": 4, "refill": 5.0, **changes})


def run(policy, fleet, *, rounds=8, horizon=5000.0, steady=False):
    plan = toy_plan(policy, len(fleet), stop=Stop(rounds=rounds, virtual_seconds=horizon))
    return events_of(plan, world_of(fleet, steady=steady))[0]


def run_periods(policy, fleet, *, rounds=8, steady=False):
    return run(policy, fleet, rounds=rounds, horizon=1e5, steady=steady)


def test_it_fills_all_places_after_the_first_pause():
    policy = small()
    assert policy.decide(Book(kept=policy.initial)) == Decision(wake_at=5.0)
    assert policy.decide(Book(now=5.0, kept=policy.initial)) == Decision(ask=4)


def test_with_all_places_taken_it_waits():
    assert small().decide(book()) is NOTHING
    assert small(lease=80.0).decide(book()) == Decision(wake_at=20.0)


def test_enough_reports_are_committed_and_what_becomes_too_old_is_given_up():
    assert small().decide(book(arrived=2, running=2)) == Decision(commit=True)
    assert small(max_staleness=3).decide(book(arrived=2, running=2)) == Decision(commit=True, drop=3)


def test_places_are_refilled_together_when_the_pause_is_over():
    assert small().decide(book(arrived=1, running=3)) == Decision(wake_at=15.0)
    assert small().decide(book(now=15.0, arrived=1, running=1)) == Decision(ask=3)


def test_places_are_refilled_in_batches_unless_nobody_works():
    policy = small(k=9, batch=3)
    assert policy.decide(book(now=20.0, arrived=2, running=2)) is NOTHING
    assert policy.decide(book(now=20.0, arrived=3, running=1)) == Decision(ask=3)
    few = book(now=20.0, selected=2, arrived=2, running=0)
    assert small(k=9, concurrency=2, batch=2).decide(few) == Decision(ask=2)


def test_an_ask_that_is_out_grows_at_once():
    out = book(now=15.0, arrived=1, running=3, wanted=5, asking=True)
    assert small().decide(out) is NOTHING
    assert small(k=3).decide(out._replace(arrived=2, running=2)) == Decision(ask=1)


def test_too_few_candidates_make_the_next_ask_wait_for_one():
    short = book(now=10.0, selected=2, running=2, answered=True, kept=(0.0, 0.0, 0.0))
    told = small().decide(short)
    assert told == Decision(wake_at=15.0, keep=(10.0, 0.0, 1.0))
    again = short._replace(now=15.0, answered=False, kept=told.keep)
    assert small().decide(again) == Decision(ask=2, at_least=1)
    enough = book(now=15.0, answered=True, kept=told.keep)
    assert small().decide(enough) == Decision(keep=(15.0, 0.0, 0.0))


def test_tasks_lost_at_once_do_not_make_it_ask_in_the_same_instant():
    assert small().decide(book(now=10.0, running=0, lost=4)) == Decision(wake_at=15.0)


def test_a_lease_is_looked_after_every_eighth_of_it():
    policy = small(lease=80.0)
    assert policy.decide(book(now=20.0)) == Decision(wake_at=25.0, drop_before=-60.0, keep=(10.0, 20.0, 0.0))
    assert policy.decide(book(now=95.0)).drop_before == 15.0


def test_a_round_that_loses_everything_fails_in_the_end():
    assert small().decide(book(now=50.0, running=0, selected=79, wanted=79, lost=79)).ask == 4
    hopeless = small().decide(book(now=50.0, running=0, selected=80, wanted=80, lost=79, arrived=1))
    assert hopeless == Decision(abandon="1 of 2 reports came")


def test_a_selector_that_wants_nobody_in_reach_does_not_let_a_run_sleep_to_its_horizon():
    nobody = replace(uniform(), pick=lambda state, roster, n, draw: whole_work(roster.clients[:0]))
    plan = toy_plan(small(), 5, choose=nobody, stop=Stop(rounds=3, virtual_seconds=1e9))
    events = events_of(plan, world_of(even_fleet(5, [1.0] * 5)))[0]
    failed = only(RoundFailed, events)
    assert [e.reason for e in failed] == ["nobody in reach was picked, 80 times in a row"] * 3
    assert events[-1].reason == "rounds" and len(only(CandidatesSeen, events)) == 80 + 79 + 79
    pauses = np.diff([e.time for e in only(CandidatesSeen, events)])[:79]
    assert pauses.tolist() == [5.0 * 2 ** min(i, 6) for i in range(79)]


def test_a_client_that_alone_may_be_asked_is_asked_again_and_again():
    alone = replace(uniform(), pick=lambda state, roster, n, draw: whole_work(roster.clients[roster.clients == 2][:n]))
    plan = toy_plan(small(), 5, choose=alone, stop=Stop(rounds=4, virtual_seconds=1e9))
    events = events_of(plan, world_of(even_fleet(5, [1000.0] * 5)))[0]
    assert len(only(ModelCommitted, events)) == 4 and len(only(CandidatesSeen, events)) > 2 * 80


def test_a_batch_that_never_fits_is_refused():
    with pytest.raises(BadInput, match=r"batch: 5 .* concurrency = 4; lower batch or raise concurrency"):
        buffered(concurrency=4, batch=5)


def test_nobody_is_lost_twice_in_one_instant_and_the_run_ends():
    fleet = even_fleet(5, [math.inf] * 5)
    events = run(small(concurrency=3), fleet, rounds=3)
    assert len(only(RoundFailed, events)) == 3
    asked = Counter(e.time for e in only(CandidatesSeen, events))
    assert set(asked.values()) == {1}
    assert len(only(TaskLost, events)) == 3 * 60


def test_a_lease_gives_up_whoever_takes_too_long_and_others_take_the_place():
    fleet = even_fleet(6, [2.0, 2.0, 2.0, 1e9, 1e9, 1e9])
    policy = buffered(k=2, concurrency=3, lease=16.0, refill=1.0)
    events = run(policy, fleet, rounds=20, steady=True)
    assert len(only(ModelCommitted, events)) == 20
    ages = np.concatenate([e.seconds for e in only(TasksDropped, events)[:-1]])
    assert len(ages) and ages.min() > 16.0 and ages.max() <= 16.0 * 9 / 8 + 1.0


@law
@given(fleets(), st.integers(1, 4), st.integers(1, 5), st.sampled_from([None, 0, 1, 3]), st.integers(1, 9))
def test_every_model_is_made_of_exactly_k_reports(fleet, k, concurrency, max_staleness, refill):
    events = run(buffered(k=k, concurrency=concurrency, max_staleness=max_staleness, refill=float(refill)), fleet, horizon=1500.0)
    commits = only(ModelCommitted, events)
    assert sum(len(e.tasks) for e in only(ReportsGathered, events)) == k * len(commits)
    late = staleness_histogram(task_table(events)) if commits else np.zeros(0)
    assert max_staleness is None or len(late) <= max_staleness + 1


@law
@given(fleets(), st.integers(1, 3), st.integers(1, 5), st.integers(1, 9))
def test_staleness_is_the_versions_made_between_sending_and_folding(fleet, k, concurrency, refill):
    events = run(buffered(k=k, concurrency=concurrency, refill=float(refill)), fleet, horizon=1500.0)
    sent, version, result, running = {}, 0, [], 0
    for event in events:
        match event:
            case TasksSent():
                sent |= dict.fromkeys(range(event.first, event.first + len(event.clients)), version)
                running += len(event.clients)
                assert running <= concurrency
            case TaskArrived() | TaskLost():
                running -= 1
            case ReportsGathered():
                result += [version - sent[task] for task in event.tasks.tolist()]
            case ModelCommitted():
                version = event.version
            case _:
                pass
    told = staleness_histogram(task_table(events)).tolist()
    assert told == [result.count(tau) for tau in range(len(told))]
    assert sum(told) == len(result)


@law
@given(fleets(), st.integers(1, 5), st.integers(1, 9))
def test_nobody_asks_twice_within_a_pause(fleet, concurrency, refill):
    events = run(buffered(k=2, concurrency=concurrency, refill=float(refill)), fleet, horizon=1500.0)
    gaps = np.diff([e.time for e in only(CandidatesSeen, events)])
    assert (gaps >= refill).all()


def test_a_buffer_uses_more_of_the_clients_time_than_rounds_do_among_unlike_devices():
    result = utilisation(clients=30, concurrency=10)
    assert result["buffer"] > 1.2 * result["rounds"]


@law
@given(st.integers(1, 6), st.integers(0, 4), st.integers(1, 30), st.integers(1, 9))
def test_a_buffer_as_large_as_the_cohort_among_equals_is_readiness(cohort, more, seconds, t_break):
    # The pause of a buffer counts from the last broadcast, that of rounds from the last model; so its first is longer by a trip.
    fleet = even_fleet(cohort + more, float(seconds))
    rounds = run(readiness(cohort, t_break=float(t_break), min_clients=1), fleet, steady=True)
    policy = buffered(k=cohort, concurrency=cohort, refill=float(seconds + t_break))
    buffer = run(policy, fleet, steady=True)

    def models(events, later):
        return [(e.time + later, e.version, e.folded, e.model_hash) for e in only(ModelCommitted, events)]

    assert models(buffer, 0.0) == models(rounds, float(seconds)) and len(only(ModelCommitted, buffer)) == 8
    assert [e.clients.tolist() for e in only(TasksSent, buffer)] == [e.clients.tolist() for e in only(TasksSent, rounds)]


def test_what_is_known_of_it():
    assert (buffered().endless, buffered(lease=80.0).endless, buffered().rounds) == (True, False, False)
    assert buffered(lease=80.0, refill=2.0).patience == 92.0


def test_a_model_is_made_every_period_of_what_has_arrived():
    # Everyone needs 4 s: sent at 1, 5, 9, ..; three arrive by 10 twice each, and so on.
    events = run_periods(semi_async(10.0, concurrency=3), even_fleet(9, 4.0), rounds=4, steady=True)
    commits = only(ModelCommitted, events)
    assert [e.time for e in commits] == [10.0, 20.0, 30.0, 40.0]
    arrived = [e.time for e in only(TaskArrived, events)]
    assert [e.folded for e in commits] == [sum(t - 10.0 < a <= t for a in arrived) for t in (10.0, 20.0, 30.0, 40.0)]
    assert commits[0].folded == 6


def test_a_report_that_comes_with_the_tick_is_in():
    events = run_periods(semi_async(9.0, concurrency=2), even_fleet(4, 8.0), rounds=1, steady=True)
    assert [(e.time, e.folded) for e in only(ModelCommitted, events)] == [(9.0, 2)]


def test_a_period_in_which_nothing_came_fails_and_nobody_is_given_up_for_it():
    events = run_periods(semi_async(10.0, concurrency=2, if_few="fail"), even_fleet(4, 25.0), rounds=3, steady=True)
    assert [(e.time, e.reason) for e in only(RoundFailed, events)] == [
        (10.0, "nothing arrived in a whole period"),
        (20.0, "nothing arrived in a whole period"),
    ]
    assert [(e.time, e.folded) for e in only(ModelCommitted, events)] == [(30.0, 2)]


def test_by_default_an_empty_period_goes_on_for_another_one_and_no_round_is_burnt():
    events = run_periods(semi_async(10.0, concurrency=2), even_fleet(4, 25.0), rounds=3, steady=True)
    assert not only(RoundFailed, events)
    assert [e.time for e in only(ModelCommitted, events)] == [30.0, 60.0, 80.0], "always at the end of a period"


def test_a_night_in_which_nobody_can_be_asked_costs_neither_rounds_nor_events():
    night = Fleet(even_fleet(3).keys, (4.0,) * 3, (86_400.0,) * 3, (((40_000.0, 80_000.0),),) * 3)
    events = run_periods(semi_async(10.0, concurrency=2), night, rounds=5, steady=True)
    assert next(e.time for e in only(ModelCommitted, events)) == 40_010.0 and not only(RoundFailed, events)
    assert len([e for e in events if e.time < 40_000.0]) < 20


def test_a_fleet_that_can_do_nothing_fails_rounds_nonetheless():
    events = run_periods(semi_async(10.0, 0, concurrency=2, lease=5.0), even_fleet(4, 1e9), rounds=2, steady=True)
    assert len(only(RoundFailed, events)) == 2 and not only(ModelCommitted, events)
    assert sum(len(e.clients) for e in only(TasksSent, events)) >= 80


def test_silent_clients_do_not_hold_their_places_for_ever():
    policy = semi_async(10.0, 1, concurrency=2)
    events = run_periods(policy, even_fleet(8, [2.0, 2.0] + [1e9] * 6), rounds=40, steady=True)
    ages = np.concatenate([e.seconds for e in only(TasksDropped, events)])
    assert len(ages) > 4 and ages.max() <= policy.patience == 20.0 * 9 / 8 + 1.0
    assert {c for e in only(TasksSent, events) for c in e.clients.tolist()} == set(range(8)), "everyone had a turn"


@law
@given(fleets(), st.integers(1, 40), st.integers(0, 3), st.integers(1, 4))
def test_it_keeps_to_its_numbers(fleet, period, max_staleness, concurrency):
    policy = semi_async(float(period), max_staleness, concurrency=concurrency, if_few="fail")
    events = run_periods(policy, fleet)
    running = 0
    for event in events:
        match event:
            case TasksSent():
                running += len(event.clients)
                assert running <= concurrency
            case TaskArrived() | TaskLost():
                running -= 1
            case TasksDropped():
                running -= len(event.tasks)
    closed = [e.time for e in events if isinstance(e, ModelCommitted | RoundFailed)]
    assert closed == [period * (i + 1.0) for i in range(8)], "one round a period, whatever happens"
    if only(ModelCommitted, events):
        assert len(staleness_histogram(task_table(events))) <= max_staleness + 1


def test_by_example():
    policy = semi_async(60.0, 3, concurrency=4, refill=5.0)
    assert policy.decide(Book(now=1.0, kept=policy.initial)) == Decision(wake_at=5.0)
    assert policy.decide(Book(now=5.0, kept=policy.initial)) == Decision(ask=4, wake_at=60.0)
    full = Book(now=60.0, running=2, arrived=2, kept=(5.0, 5.0, 0.0))
    assert policy.decide(full)[:4] == (0, None, 3, True)
    assert (policy.rounds, policy.endless, policy.key) == (False, False, "concurrency")
    with pytest.raises(BadInput, match=r"batch: 5 .* concurrency = 4"):
        semi_async(concurrency=4, batch=5)
