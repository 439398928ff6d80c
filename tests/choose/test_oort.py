"""Oort: what the method promises, what it learns from tasks that did not report, and odd input that it survives."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.client_columns import full_column
from fedfleet.choose.oort import oort
from fedfleet.core.parts import Draw
from fedfleet.core.records import DROPPED, FATES, FOLDED, LOST, REJECTED, WASTED, Ended, Roster
from fedfleet.core.rng import client_keys, stream
from fedfleet.testing import check_selector

pytestmark = pytest.mark.slow

ALL_BY_SCORE = {"explore": 0.0, "floor": 0.0, "cut_off": 0.0, "uncertainty": 0.0, "clip": 1.0}


def roster(n, samples=10):
    return Roster(np.arange(n), client_keys(n), np.broadcast_to(np.asarray(samples, np.int64), n).copy())


def ended(clients, *, squared=1.0, seconds=10.0, fate=FOLDED, samples=10.0):
    """Tasks of these clients; numbers stand for a column of themselves."""
    n = len(clients)
    fates = np.broadcast_to(np.asarray(fate, np.int8), n)
    columns = {"squared_loss": squared, "samples": samples, "loss": np.sqrt(np.abs(squared))}
    stats = {name: np.where(fates == FOLDED, v, np.nan).astype(np.float64) for name, v in columns.items()}
    return Ended(np.arange(n), np.array(clients, np.int64), np.broadcast_to(np.float64(seconds), n), fates, stats)


def taught(selector, n, *lessons):
    state = selector.initial(n)
    for lesson in lessons:
        state = selector.learn(state, lesson, 0.0)
    return state


def counted(selector, state, there, n, draws=3000):
    result = [selector.pick(state, there, n, Draw(7, 0, first)).clients for first in range(draws)]
    return np.bincount(np.concatenate(result), minlength=len(there.clients))


def test_without_penalty_durations_do_not_matter():
    some = np.arange(0, 60, 2)
    for penalty, same in ((0.0, True), (2.0, False)):
        choose = oort(penalty=penalty, explore=0.5)
        quick, slow = (
            taught(choose, 60, ended(some, squared=1.0 + some, seconds=seconds), ended(some, fate=DROPPED, seconds=9.0))
            for seconds in (10.0, np.linspace(1.0, 900.0, 30))
        )
        picks = [[choose.pick(s, roster(60), 20, Draw(1, r)).clients.tolist() for r in range(20)] for s in (quick, slow)]
        assert (picks[0] == picks[1]) is same


@pytest.mark.parametrize("ratio", [2.0, 3.0])
def test_whoever_is_r_times_slower_than_preferred_has_its_chance_divided_by_r_squared(ratio):
    choose = oort(preferred=0.5, **ALL_BY_SCORE)
    # Nobody preferred is slower than 10 s; the last two are worth the same, and the first next to nothing.
    lesson = ended(range(3), squared=np.array([1e-12, 4.0, 4.0]), seconds=np.array([10.0, 10.0, 10.0 * ratio]))
    _, fast, slow = counted(choose, taught(choose, 3, lesson), roster(3), 1, draws=6000)
    assert fast / slow == pytest.approx(ratio**2, rel=0.2)


def test_exploring_alone_is_uniform_where_everyone_holds_as_much():
    choose, clients, n, draws = oort(explore=1.0, decay=1.0), 20, 5, 2000
    counts = counted(choose, choose.initial(clients), roster(clients), n, draws)
    expected = n * draws / clients
    assert 4 < ((counts - expected) ** 2 / expected).sum() / (1 - n / clients) < 50  # 19 degrees of freedom


def test_newcomers_come_from_those_who_hold_most_by_how_much_they_hold():
    choose = oort(explore=1.0, window=2.0)
    counts = counted(choose, choose.initial(6), roster(6, [10, 20, 30, 60, 40, 5]), 2)
    assert counts[[0, 5]].tolist() == [0, 0] and counts[3] > counts[4] > counts[2] > counts[1] > 0


def test_chances_grow_with_the_loss():
    choose = oort(penalty=0.0, **ALL_BY_SCORE)
    counts = counted(choose, taught(choose, 5, ended(range(5), squared=np.arange(1.0, 6.0) ** 2)), roster(5), 1)
    assert (np.diff(counts) > 0).all() and counts[0] == 0


def test_the_cut_off_leaves_out_who_is_far_below_the_last_that_would_be_in():
    lesson = ended(range(4), squared=np.array([1.0, 64.0, 81.0, 100.0]))
    for cut_off, there in ((0.95, [False, False, True, True]), (0.5, [False, True, True, True])):
        choose = oort(penalty=0.0, **{**ALL_BY_SCORE, "cut_off": cut_off})
        assert (counted(choose, taught(choose, 4, lesson), roster(4), 2, 300) > 0).tolist() == there


def test_fractions_of_a_place_are_rounded_at_random():
    choose = oort(explore=0.3, floor=0.3, decay=1.0)
    state = taught(choose, 40, ended(range(20)))
    news = [int((choose.pick(state, roster(40), 1, Draw(3, r)).clients >= 20).sum()) for r in range(2000)]
    assert np.mean(news) == pytest.approx(0.3, abs=0.04)


def test_the_share_of_newcomers_falls_to_the_floor():
    choose = oort(explore=0.8, decay=0.5, floor=0.1)
    for rounds, share in ((0, 0.8), (1, 0.4), (2, 0.2), (3, 0.1), (9, 0.1)):
        state = taught(choose, 400, ended(range(200)), *[ended([0])] * 9)
        state["rounds"] = np.array([rounds])
        result = choose.pick(state, roster(400), 100, Draw(1, 0)).clients
        assert abs((result >= 200).sum() - 100 * share) <= 1


def test_each_side_fills_what_the_other_cannot():
    choose = oort(explore=0.5, decay=1.0)
    few_new = choose.pick(taught(choose, 10, ended(range(9))), roster(10), 6, Draw(1, 0)).clients
    assert len(set(few_new.tolist())) == 6
    few_known = choose.pick(taught(choose, 10, ended([0])), roster(10), 8, Draw(1, 0)).clients
    assert len(set(few_known.tolist())) == 8 and 0 in few_known
    assert sorted(choose.pick(choose.initial(3), roster(3), 9, Draw(1, 0)).clients.tolist()) == [0, 1, 2]
    assert len(choose.pick(choose.initial(3), roster(0), 2, Draw(1, 0)).clients) == 0


def test_a_dropped_task_never_makes_a_client_look_faster():
    choose = oort()
    state = taught(choose, 3, ended([0, 1], seconds=100.0), ended([0, 1, 2], seconds=np.array([30.0, 300.0, 30.0]), fate=DROPPED))
    assert full_column(state, "seconds").tolist() == [100.0, 300.0, 30.0]
    state = choose.learn(state, ended([1, 2], seconds=20.0, fate=np.array([WASTED, LOST])), 0.0)
    assert full_column(state, "seconds").tolist() == [100.0, 20.0, 30.0], "who reports again is as fast as that"


def test_who_cannot_do_the_work_is_asked_when_nobody_else_is_left():
    choose = oort(penalty=0.0)
    state = taught(choose, 6, ended([0, 1], seconds=math.nan, fate=LOST), ended([2, 3]))
    assert all(set(choose.pick(state, roster(6), 4, Draw(1, r)).clients) == {2, 3, 4, 5} for r in range(20))
    assert set(choose.pick(state, roster(6), 6, Draw(1, 0)).clients.tolist()) == set(range(6))
    state = choose.learn(state, ended([0], seconds=5.0), 0.0)
    assert any(0 in choose.pick(state, roster(6), 4, Draw(1, r)).clients for r in range(20))


def test_who_is_asked_in_vain_is_worth_less_as_a_newcomer():
    choose = oort(explore=1.0, window=100.0, penalty=0.0)
    state = taught(choose, 2, *[ended([0], fate=LOST)] * 3)
    counts = counted(choose, state, roster(2), 1)
    assert counts[1] / counts[0] == pytest.approx(4.0, rel=0.2)


@pytest.mark.parametrize("squared", [math.nan, math.inf, 1e308, 0.0])
def test_odd_losses_are_survived(squared):
    choose = oort()
    state = taught(choose, 9, *[ended(range(5), squared=squared)] * 3, ended([5, 6]))
    for r in range(5):
        assert len(set(choose.pick(state, roster(9), 6, Draw(1, r)).clients.tolist())) == 6
    assert np.isfinite(full_column(state, "utility")).all()
    told = full_column(state, "last")[:5] > 0
    assert told.all() == math.isfinite(squared) and told.any() == math.isfinite(squared)


def test_reports_without_statistics_are_survived():
    choose = oort()
    lesson = replace(ended([0, 1]), stats={})
    assert not full_column(taught(choose, 3, lesson), "last").any()
    only_loss = replace(ended([0, 1]), stats={"loss": np.array([3.0, np.nan])})
    assert full_column(taught(choose, 3, only_loss), "utility").tolist() == [3.0, 0.0, 0.0]


def test_the_pacer_is_patient_when_utility_stands_still_and_impatient_when_it_leaps():
    choose = oort(preferred=0.1, pacer_step=3, pacer_delta=0.3)
    flat = taught(choose, 4, *[ended(range(4))] * 7)
    assert flat["preferred"].tolist() == [0.4]
    assert taught(choose, 4, *[ended(range(4))] * 40)["preferred"].tolist() == [1.0]
    leaps = taught(oort(preferred=0.7, pacer_step=3, pacer_delta=0.3), 4, *[ended(range(4), squared=100.0**r) for r in range(6)])
    assert leaps["preferred"] == pytest.approx([0.4])
    grows = taught(choose, 4, *[ended(range(4), squared=1.5**r) for r in range(12)])
    assert grows["preferred"].tolist() == [0.1]
    silent = taught(choose, 4, *[ended(range(4), fate=LOST)] * 12)
    assert silent["preferred"].tolist() == [0.1], "who hears nothing learns nothing"


def test_whoever_had_enough_tasks_is_left_out_but_never_more_than_three_in_ten():
    choose = oort(blacklist=2)
    state = taught(choose, 10, *[ended([0, 1])] * 3)
    assert all(not {0, 1} & set(choose.pick(state, roster(10), 8, Draw(1, r)).clients.tolist()) for r in range(9))
    assert len(choose.pick(state, roster(10), 10, Draw(1, 0)).clients) == 10
    state = taught(choose, 10, *[ended(range(10))] * 3, ended([4, 5]))
    left = [set(range(10)) - set(choose.pick(state, roster(10), 7, Draw(1, r)).clients.tolist()) for r in range(30)]
    assert all(len(out) == 3 and {4, 5} <= out for out in left) and len(set().union(*left)) > 5


TIMES = st.sampled_from([0.5, 1.0, 8.0, 300.0, math.nan])
FATE = st.integers(0, len(FATES) - 1)
tasks = st.tuples(st.integers(0, 7), TIMES, FATE, st.sampled_from([0.0, 1.0, 9.0, math.nan, math.inf]))


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.lists(tasks, min_size=1, max_size=10), max_size=6))
def test_it_learns_what_a_plain_loop_would(rounds):
    choose = oort()
    state, known = choose.initial(8), {c: [0.0, 0, 0.0, 0] for c in range(8)}  # utility, last, seconds, times
    for number, lesson in enumerate(rounds, start=1):
        lesson = [(c, s if f != FOLDED or s == s else 1.0, f, q) for c, s, f, q in lesson]
        lesson = [(c, math.nan if s != s and f == LOST else (1.0 if s != s else s), f, q) for c, s, f, q in lesson]
        clients, seconds, fate, squared = (np.array(column) for column in zip(*lesson, strict=True))
        state = choose.learn(state, ended(clients, seconds=seconds, fate=fate, squared=squared), 0.0)
        reports = [t for t in lesson if t[2] in (FOLDED, REJECTED, WASTED)]
        for client, took, what, loss in reports:
            known[client][2] = took
            if what == FOLDED and math.isfinite(loss):
                known[client][:2] = 10.0 * math.sqrt(loss), number
        for client, took, what, _ in lesson:
            known[client][3] += 1
            if what in (LOST, DROPPED) and took == took:
                known[client][2] = max(known[client][2], took)
        for client, took, _, _ in lesson:
            if took != took:
                known[client][2] = math.inf
    for i, name in enumerate(("utility", "last", "seconds", "times")):
        assert full_column(state, name).tolist() == [known[c][i] for c in range(8)]


def test_the_choice_follows_the_keys_and_not_the_index():
    choose, order = oort(explore=0.4, blacklist=1), stream(0, "names").permutation(40)
    new = np.argsort(order)  # where each old client stands now
    lesson = ended(range(25), squared=np.arange(25.0), seconds=10.0 + np.arange(25) % 4)
    before, after = (taught(choose, 40, *[replace(lesson, clients=who[:25])] * 2, ended(who[:3])) for who in (np.arange(40), new))
    sizes = 5 + np.arange(40) % 3
    renamed = Roster(np.arange(40), client_keys(40)[order], sizes[order])
    for r in range(10):
        old = choose.pick(before, roster(40, sizes), 12, Draw(5, r)).clients
        assert order[choose.pick(after, renamed, 12, Draw(5, r)).clients].tolist() == old.tolist()


def test_it_is_a_selector_as_others_are():
    check_selector(oort())
    check_selector(oort(explore=0.0, floor=0.0, blacklist=1, pacer_step=2, preferred=0.5))
