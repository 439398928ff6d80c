"""The adaptive timeout: sequences by hand, through the real engine; what doubles t_o and what does not; nights of silence."""

import math

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.events import CandidatesSeen, ModelCommitted, PaceSet, RoundFailed, TasksDropped, TasksSent
from fedfleet.core.records import Book, Decision, Stop
from fedfleet.core.sources import DeviceSource, World
from fedfleet.measure.participation import staleness_histogram
from fedfleet.measure.tasks import task_table
from fedfleet.pace.combinators import overcommit
from fedfleet.pace.timeout import timeout
from fedfleet.testing.toys import no_data
from fedfleet.world.states import always_on, interval_states
from tests.worlds import Fleet, even_fleet, events_of, only, toy_plan, traces_of, world_of

SILENT = 1e9


def small(**changes):
    usual = {
        "goal": 2,
        "seconds": 8.0,
        "quiet_rounds": 2,
        "step": 3.0,
        "floor": 5.0,
        "ceiling": 32.0,
        "most": 2,
        "t_break": 1.0,
    }
    return timeout(3, **{**usual, **changes})


def run(policy, world, clients, *, rounds=6, horizon=1e6):
    return events_of(toy_plan(policy, clients, stop=Stop(rounds=rounds, virtual_seconds=horizon)), world)[0]


def waits(events):
    return [(e.time, e.seconds) for e in only(PaceSet, events)]


def waking_at(moment, clients=12):
    """A world in which whoever is asked before a moment never reports, and everyone else after 2 seconds."""
    keys = even_fleet(clients).keys

    def seconds(who, cost, start, tasks):
        return np.full(len(who), SILENT if start < moment else 2.0)

    return World(keys, DeviceSource(seconds, ["toy"] * clients), always_on()(keys, 0), no_data(clients))


def test_with_everybody_silent_rebroadcasts_fire_at_t_o_exactly_and_come_to_an_end():
    events = run(small(), world_of(even_fleet(12, SILENT)), 12, rounds=2)
    # 1 + 8 = 9, 9 + 16 = 25, 25 + 32 = 57; then a break, and t_o stays at its ceiling.
    assert [e.time for e in only(TasksSent, events)] == [1.0, 9.0, 25.0, 58.0, 90.0, 122.0]
    assert [len(e.clients) for e in only(TasksSent, events)] == [3] * 6
    assert [(e.time, e.reason) for e in only(RoundFailed, events)] == [
        (57.0, "0 of at least 1 reports arrived"),
        (154.0, "0 of at least 1 reports arrived"),
    ]
    assert waits(events) == [(0.0, 8.0), (9.0, 16.0), (25.0, 32.0)]
    assert [len(e.tasks) for e in only(TasksDropped, events)] == [9, 9]


def test_t_o_falls_by_a_step_after_quiet_rounds_and_the_count_restarts():
    events = run(small(), waking_at(50.0), 12, rounds=24)
    # From 57 on a round takes 1 + 2 seconds, and every second one lowers t_o by 3, down to the floor.
    falling = [(63.0 + 6 * i, 29.0 - 3 * i) for i in range(9)]
    assert waits(events) == [(0.0, 8.0), (9.0, 16.0), (25.0, 32.0), *falling]
    assert falling[-1][1] == 5.0
    assert len(only(ModelCommitted, events)) == 23


def test_a_rebroadcast_starts_the_count_of_quiet_rounds_again():
    # Every third round is noisy: two of the three asked are silent then, and the goal is two.
    policy, kept, seen = small(quiet_rounds=3), small().initial, []
    for number in range(6):
        for book in (
            Book(now=10.0 * number, round=number, opened_at=10.0 * number - 1.0),
            Book(
                now=10.0 * number,
                round=number,
                sent_at=10.0 * number,
                wanted=3,
                selected=3,
                running=3,
                asks=1,
                answered=True,
            ),
        ):
            kept = policy.decide(book._replace(kept=kept)).keep or kept
        if number == 2:
            late = book._replace(now=book.now + kept[0], answered=False, kept=kept)
            kept = policy.decide(late).keep
        seen.append((kept[0], kept[1]))
    assert seen == [(8.0, 0.0), (8.0, 1.0), (8.0, 2.0), (8.0, 0.0), (8.0, 1.0), (8.0, 2.0)]


def test_others_join_and_whoever_comes_after_t_o_still_counts():
    # The first three take 12 s, longer than t_o = 8; of those asked at 9 nobody is faster.
    events = run(small(), world_of(even_fleet(12, 12.0), steady=True), 12, rounds=1)
    first, second = only(TasksSent, events)
    assert not set(first.clients.tolist()) & set(second.clients.tolist())
    (made,) = only(ModelCommitted, events)
    assert (made.time, made.folded) == (13.0, 2)
    assert [len(e.tasks) for e in only(TasksDropped, events)] == [4], "who was not needed is given up"


def test_late_reports_are_folded_by_the_next_rounds_where_that_is_allowed():
    fleet = even_fleet(6, [4.0, 4.0, 4.0, 4.0, 15.0, 15.0])
    policy = timeout(6, goal=4, seconds=60.0, t_break=1.0, max_staleness=3)
    events = run(policy, world_of(fleet, steady=True), 6, rounds=6)
    late = staleness_histogram(task_table(events)).tolist()
    assert len(late) > 1 and sum(late[1:]) >= 2
    none = run(timeout(6, goal=4, seconds=60.0, t_break=1.0), world_of(fleet, steady=True), 6, rounds=6)
    assert len(staleness_histogram(task_table(none))) == 1


def test_with_too_few_in_the_end_what_is_there_is_committed_or_the_round_fails():
    fleet = even_fleet(9, [2.0] + [SILENT] * 8)
    for share, kind in ((0.5, ModelCommitted), (1.0, RoundFailed)):
        events = run(small(min_share=share), world_of(fleet, steady=True), 9, rounds=1)
        (closed,) = only(kind, events)
        assert closed.time == 57.0


def test_a_round_without_rebroadcasts_is_possible():
    events = run(small(most=0), world_of(even_fleet(4, SILENT)), 4, rounds=3)
    assert [e.time for e in only(RoundFailed, events)] == [9.0, 18.0, 27.0]
    assert waits(events) == [(0.0, 8.0)]


def test_it_does_not_double_when_a_broadcast_reached_nobody():
    # Three clients in all: the first broadcast has them, and later ones find nobody.
    events = run(small(), world_of(even_fleet(3, SILENT)), 3, rounds=1)
    assert [len(e.roster.clients) for e in only(CandidatesSeen, events)] == [3, 0, 0]
    assert [e.time for e in only(CandidatesSeen, events)] == [1.0, 9.0, 17.0]
    assert only(RoundFailed, events)[0].time == 25.0
    assert waits(events) == [(0.0, 8.0)]


def test_nor_when_nobody_had_been_waited_for():
    # Nobody is there before 5: the second broadcast is the first that anybody hears.
    fleet = Fleet(even_fleet(3).keys, (SILENT,) * 3, (1000.0,) * 3, (((5.0, 1000.0),),) * 3)
    events = run(small(if_few="fail"), world_of(fleet), 3, rounds=1)
    assert [e.time for e in only(TasksSent, events)] == [9.0]
    assert waits(events) == [(0.0, 8.0)]


def test_t_o_recovers_after_three_silent_nights():
    # Days and nights of 4,000 s; a trip takes 30 s of the day, so that whoever is asked at dusk answers in the morning.
    n, day = 40, 8000.0
    keys = even_fleet(n).keys

    def seconds(who, cost, start, tasks):
        return np.full(len(who), 30.0)

    states = interval_states(traces_of((((0.0, day / 2),),) * n, (day,) * n))
    world = World(keys, DeviceSource(seconds, ["toy"] * n), states, no_data(n))
    events = run(timeout(15), world, n, rounds=10_000, horizon=3 * day + 2000.0)
    commits = np.array([e.time for e in only(ModelCommitted, events)])
    for night in range(3):
        assert not ((commits > night * day + 4100.0) & (commits < (night + 1) * day)).any()
        assert ((commits > (night + 1) * day) & (commits < (night + 1) * day + 2000.0)).sum() > 15
    told = waits(events)
    assert max(s for _, s in told) == 60.0, "silence of those who cannot be reached is no reason to wait longer"
    assert min(s for t, s in told if t > 2 * day) < 30.0, "and by day it goes on to look for the shortest wait that will do"


def test_rounds_may_wait_for_enough_clients():
    policy = small(if_few="wait", min_share=1.0)
    assert policy.decide(Book(now=1.0, kept=policy.initial)) == Decision(ask=3, at_least=2)
    failing = small(if_few="fail")
    assert failing.decide(Book(now=1.0, kept=failing.initial)) == Decision(ask=3)


def test_broadcasts_that_reach_nobody_do_not_use_a_round_up():
    policy = small(most=1)
    nobody = Book(now=9.0, opened_at=0.0, sent_at=0.0, wanted=3, asks=1, kept=(8.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0))
    asked = policy.decide(nobody)
    assert (asked.ask, asked.others, asked.at_least, asked.keep) == (3, True, 1, None)
    assert policy.decide(nobody._replace(asks=20, kept=(8.0, 0.0, 0.0, 1.0, 20.0, 0.0, 1.0))).abandon


def test_the_goal_is_two_thirds_of_the_cohort():
    # FS-REAL asked 135, 269, 539 and 1,078 for 90, 179, 359 and 718 reports.
    assert [timeout(n).holds for n in (135, 269, 539, 1078)] == [90, 180, 360, 719]
    assert (timeout(3).holds, timeout(1).holds, timeout(30).cohort) == (2, 1, 30)


def test_what_is_known_of_its_rounds():
    policy = timeout(30, seconds=60.0, most=3)
    assert (policy.patience, policy.least, policy.endless, policy.rounds) == (4 * 480.0, 1, False, True)
    assert timeout(30, most=0).least == 2
    assert timeout(30, max_staleness=1).patience == math.inf


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"goal": 4}, "goal: one broadcast to 3 clients never brings 4 reports; lower goal or raise cohort"),
        ({"floor": 9.0}, "floor: 9 s is more than seconds = 8, the first timeout; lower floor"),
        ({"ceiling": 7.0}, "ceiling: 7 s is less than seconds = 8, the first timeout; raise ceiling"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(wrong, says):
    with pytest.raises(BadInput, match=says):
        small(**wrong)


def test_overcommitted_it_asks_more_each_time_and_waits_as_long():
    events = run(overcommit(small(), factor=1.5), world_of(even_fleet(20, SILENT)), 20, rounds=1)
    assert [(e.time, len(e.clients)) for e in only(TasksSent, events)] == [(1.0, 5), (9.0, 5), (25.0, 5)]
    assert waits(events) == [(0.0, 8.0), (9.0, 16.0), (25.0, 32.0)]
