"""TiFL: tiers of like speed, one a round, credits, and odds that follow the losses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.choose.tifl import ranked_odds, tier_of, tifl
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Draw
from fedfleet.core.records import DROPPED
from fedfleet.core.rng import client_keys
from fedfleet.testing import check_selector
from tests.choose.rosters import ended, roster

pytestmark = pytest.mark.slow


def known(*seconds):
    """Facts of a fleet whose trips are foreseen to take so long."""
    return FleetFacts(keys=client_keys(len(seconds)), trip_seconds=lambda: np.array(seconds, np.float64))


TWENTY = known(*range(1, 21))


@given(st.lists(st.integers(1, 9).map(float), min_size=1, max_size=40), st.integers(1, 8))
def test_tiers_are_by_speed_and_none_is_larger_than_its_share_but_for_ties(seconds, tiers):
    column = np.array(seconds)
    result = tier_of(column, tiers)
    assert (np.diff(result[np.argsort(column)]) >= 0).all() and result.min() == 0 and result.max() < tiers
    assert all(len(set(result[column == s])) == 1 for s in set(seconds))
    if len(set(seconds)) == len(seconds) >= tiers:
        assert np.ptp(np.bincount(result, minlength=tiers)) <= 1


def test_every_round_asks_one_tier_and_each_as_often():
    part = tifl(5, fleet=TWENTY)
    state = part.initial(20)
    assert state["tier"].tolist() == np.repeat(np.arange(5), 4).tolist()
    seen = np.zeros(5)
    for r in range(1000):
        tiers = set(state["tier"][part.pick(state, roster(20), 4, Draw(2, r)).clients].tolist())
        assert len(tiers) == 1
        seen[tiers.pop()] += 1
    assert ((seen - 200) ** 2 / 200).sum() < 18.5  # 4 degrees of freedom


def test_shares_decide_how_often_a_tier_is_asked():
    part = tifl(2, shares=[3.0, 1.0], fleet=known(1, 1, 9, 9))
    fast = [set(part.pick(part.initial(4), roster(4), 2, Draw(1, r)).clients.tolist()) == {0, 1} for r in range(2000)]
    assert np.mean(fast) == pytest.approx(0.75, abs=0.04)


def test_within_a_tier_everyone_has_the_same_chance():
    part = tifl(1, fleet=known(*range(10)))
    counts = np.bincount(
        np.concatenate([part.pick(part.initial(10), roster(10), 2, Draw(3, r)).clients for r in range(1500)]),
        minlength=10,
    )
    assert ((counts - 300) ** 2 / 300).sum() / 0.8 < 28  # 9 degrees of freedom


def test_a_tier_that_is_too_small_is_filled_from_faster_ones_first():
    part = tifl(4, shares=[0, 0, 1, 0], fleet=known(*range(8)))  # tiers of two
    asked = part.pick(part.initial(8), roster(8), 5, Draw(0, 0)).clients.tolist()
    assert set(asked[:2]) == {4, 5} and set(asked[2:4]) == {2, 3} and asked[4] in {0, 1}
    assert set(part.pick(part.initial(8), roster(8), 8, Draw(0, 0)).clients.tolist()) == set(range(8))
    there = roster(2, clients=[6, 7])
    assert sorted(part.pick(part.initial(8), there, 2, Draw(0, 0)).clients.tolist()) == [6, 7], "nobody else is there"


def test_picks_of_one_round_come_from_one_tier():
    part = tifl(5, fleet=TWENTY)
    state = part.initial(20)
    for r in range(20):
        tiers = {state["tier"][c] for first in (0, 2) for c in part.pick(state, roster(20), 2, Draw(2, r, first)).clients}
        assert len(tiers) == 1


def test_tiers_follow_what_is_seen_and_dropped_tasks_took_at_least_so_long():
    part = tifl(2, every=2, fleet=known(1, 2, 3, 4))
    state = part.learn(part.initial(4), ended([0], seconds=90.0), 0.0)
    assert state["tier"].tolist() == [0, 0, 1, 1]
    state = part.learn(state, ended([1], seconds=80.0, fate=DROPPED), 0.0)
    assert state["tier"].tolist() == [1, 1, 0, 0]


def test_without_facts_tiers_are_by_chance_at_first_and_then_by_what_was_seen():
    part = tifl(2, every=1)
    state = part.initial(6)
    assert set(state["tier"]) == {-1}
    groups = {frozenset(part.pick(state, roster(6), 2, Draw(0, r)).clients.tolist()) for r in range(40)}
    assert len(groups) > 1
    state = part.learn(state, ended(range(6), seconds=[5, 1, 6, 2, 7, 3]), 0.0)
    assert state["tier"].tolist() == [1, 0, 1, 0, 1, 0]


def test_the_worst_tier_is_drawn_most_often_and_the_best_not_at_all():
    assert ranked_odds(np.array([0.1, 0.4, 0.3, 0.2]), np.ones(4)) == pytest.approx([0, 3 / 6, 2 / 6, 1 / 6])
    assert ranked_odds(np.array([0.1, np.nan, 0.3]), np.ones(3)) == pytest.approx([0, 2 / 3, 1 / 3])
    assert ranked_odds(np.array([0.1, 0.4, 0.3]), np.array([1, 0, 1])) == pytest.approx([0, 0, 1])
    assert ranked_odds(np.array([0.1, 0.4]), np.array([1, 0])) == pytest.approx([1, 0])
    assert ranked_odds(np.array([0.1, 0.4]), np.zeros(2)) == pytest.approx([0.5, 0.5])


def reported(part, state, clients, loss):
    seconds = [1.0 if client < 2 else 9.0 for client in clients]
    return part.learn(state, ended(clients, seconds=seconds, loss=[loss] * len(clients)), 0.0)


def test_odds_change_only_when_the_tier_at_work_did_not_improve():
    part = tifl(2, mode="adaptive", every=2, credits=100, fleet=known(1, 1, 9, 9))
    state = part.initial(4)
    for loss_of_fast, loss_of_slow in ((2.0, 3.0), (1.0, 2.5)):  # two reviews, in which the slow tier worked last
        state = reported(part, state, [0, 1], loss_of_fast)
        state = reported(part, state, [2, 3], loss_of_slow)
    assert state["loss"].tolist() == [1.0, 2.5]
    assert state["weights"].tolist() == [0.0, 1.0], "at the first review nothing had been better yet"
    state = {**state, "weights": np.array([0.5, 0.5])}
    better = reported(part, reported(part, state, [0], 0.9), [2], 2.4)
    assert better["weights"].tolist() == [0.5, 0.5]
    worse = reported(part, reported(part, state, [0], 2.9), [2], 2.6)
    assert worse["weights"].tolist() == [1.0, 0.0]


def test_a_tier_without_credits_is_not_drawn_while_another_has_some():
    part = tifl(2, mode="adaptive", credits=1, fleet=known(1, 1, 9, 9))
    state = reported(part, part.initial(4), [2, 3], 1.0)
    assert state["credits"].tolist() == [1.0, 0.0]
    for r in range(30):
        assert set(part.pick(state, roster(4), 2, Draw(0, r)).clients.tolist()) == {0, 1}
    spent = reported(part, state, [0, 1], 1.0)
    both = {int(part.pick(spent, roster(4), 1, Draw(0, r)).clients[0]) // 2 for r in range(30)}
    assert both == {0, 1}, "when nobody has any they no longer count"


def test_credits_are_twice_a_tiers_share_of_the_planned_rounds():
    part = tifl(4, mode="adaptive", run=RunFacts(clients=8, seed=0, rounds=10))
    assert part.initial(8)["credits"].tolist() == [5.0] * 4


@pytest.mark.parametrize("part", [tifl(), tifl(3, mode="adaptive", every=1), tifl(60, every=2)])
def test_it_is_a_selector_as_others_are_and_needs_rounds(part):
    check_selector(part)
    assert part.by_round


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tiers": 9}, "choose.tiers: 9 tiers cannot be made of 8 clients; lower choose.tiers"),
        ({"tiers": 2, "shares": [1.0]}, r"choose.shares = \[1.0\]: give 2 numbers"),
        ({"tiers": 2, "shares": [0.0, 0.0]}, "at least one of them above 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings, says):
    with pytest.raises(BadInput, match=says):
        assemble(resolve({"world": {"clients": 8}, "pace": {"cohort": 2}, "choose": {"use": "tifl", **settings}}))
