"""Bounds: everyone in turn, the least first, the fastest first, and a cap around any selector."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.baselines import fair, fastest, round_robin
from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.events import CandidatesSeen, ReportsGathered, TasksSent
from fedfleet.core.parts import Draw
from fedfleet.core.records import DROPPED, Stop
from fedfleet.core.rng import stream
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.testing import check_selector
from tests.choose.rosters import ended, roster
from tests.worlds import even_fleet, events_of, fleets, only, paces, toy_plan, world_of

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=25)


def run(fleet, policy, choose, rounds=8):
    return events_of(toy_plan(policy, len(fleet), choose=choose, stop=Stop(rounds=rounds, virtual_seconds=1e6)), world_of(fleet))[0]


def asked_with_candidates(events):
    """Every pick: who was there, and who was asked."""
    there = None
    for event in events:
        if isinstance(event, CandidatesSeen):
            there = event.roster
        elif isinstance(event, TasksSent):
            yield there, event.clients.tolist()


@pytest.mark.parametrize("cohort", [1, 3, 4])
def test_everyone_is_served_once_before_anyone_twice(cohort):
    events = run(even_fleet(12, [float(3 + c) for c in range(12)]), readiness(cohort, min_clients=1), round_robin(), 24 // cohort)
    order = [c for sent in only(TasksSent, events) for c in sent.clients.tolist()]
    assert [sorted(order[:12]), sorted(order[12:])] == [list(range(12))] * 2


@law
@given(fleets(), paces())
def test_nobody_is_asked_who_was_asked_more_often_than_another_who_is_there(fleet, pace):
    counts = Counter()
    for there, asked in asked_with_candidates(run(fleet, pace.policy(), round_robin())):
        left = set(there.clients.tolist()) - set(asked)
        assert max(counts[c] for c in asked) <= min((counts[c] for c in left), default=np.inf)
        counts.update(asked)


def test_fair_asks_those_first_who_contributed_least_whatever_became_of_other_tasks():
    part = fair()
    state = part.learn(part.initial(4), ended([0, 0, 1, 2], fate=np.array([0, 0, 0, DROPPED])), 0.0)
    assert state["contributions"].tolist() == [2, 1, 0, 0]
    asked = part.pick(state, roster(4), 4, Draw(0, 0)).clients.tolist()
    assert set(asked[:2]) == {2, 3} and asked[2:] == [1, 0]
    waiting = roster(4, untold=[0, 0, 3, 0])
    assert part.pick(state, waiting, 4, Draw(0, 0)).clients.tolist() == [3, 1, 0, 2], "their reports wait to be folded"


def test_fair_evens_out_contributions_where_uniform_does_not():
    fleet = even_fleet(12, [5.0 + c for c in range(12)])

    def folded(choose):
        events = run(fleet, deadline(4, seconds=60.0), choose, 30)
        client = {e.first + i: c for e in only(TasksSent, events) for i, c in enumerate(e.clients.tolist())}
        return np.bincount([client[t] for e in only(ReportsGathered, events) for t in e.tasks.tolist()], minlength=12)

    assert np.ptp(folded(fair())) <= 1 < np.ptp(folded(uniform()))


@law
@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.floats(1.0, 4.0), st.integers(1, 20))
def test_whoever_has_had_more_than_the_cap_is_left_out_and_the_others_are_picked_as_before(given_, cap, n):
    part, counts = fair(uniform(), cap=cap), np.array(given_)
    state = part.learn(part.initial(len(counts)), ended(np.repeat(np.arange(len(counts)), counts)), 0.0)
    there = roster(len(counts))
    below = np.flatnonzero(counts <= np.ceil(cap * counts.mean()))
    asked = part.pick(state, there, n, Draw(1, 1)).clients.tolist()
    assert asked == uniform().pick({}, there.only(below), n, Draw(1, 1)).clients.tolist()
    assert asked, "somebody is at the mean or below"


def test_the_fastest_that_are_there_are_asked():
    seconds = stream(0, "s").uniform(1, 99, 30)
    asked = fastest().pick({}, roster(30, seconds=seconds), 6, Draw(0, 0)).clients
    assert asked.tolist() == np.argsort(seconds)[:6].tolist()
    slow = roster(3, seconds=[np.inf, 50.0, np.nan])
    assert fastest().pick({}, slow, 1, Draw(0, 0)).clients.tolist() == [1]


@law
@given(fleets(), paces())
def test_nobody_slower_is_asked_while_someone_faster_is_there(fleet, pace):
    for there, asked in asked_with_candidates(run(fleet, pace.policy(), fastest())):
        left = set(there.clients.tolist()) - set(asked)
        assert max(fleet.seconds[c] for c in asked) <= min((fleet.seconds[c] for c in left), default=np.inf)


@pytest.mark.parametrize("part", [round_robin(), fair(), fair(cap=1.5), fair(fastest(), cap=1.0), fastest()])
def test_they_are_selectors_as_others_are(part):
    check_selector(part)


def test_around_a_selector_it_must_know_the_cap():
    with pytest.raises(BadInput, match=r"choose.cap: .* cap = 2"):
        fair(uniform())
