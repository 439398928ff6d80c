"""Around a selector: a share for the never tried, and few devices of one user."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.baselines import fair, fastest
from fedfleet.choose.combinators import explore, per_user
from fedfleet.choose.flame import flame
from fedfleet.choose.only import only
from fedfleet.choose.power_of_choice import power_of_choice
from fedfleet.choose.timely import timely, timely_interval
from fedfleet.choose.uniform import uniform
from fedfleet.core.edges import UserSource
from fedfleet.core.events import TaskArrived, TaskLost, TasksDropped, TasksSent
from fedfleet.core.parts import Draw
from fedfleet.core.records import LOST, Stop
from fedfleet.testing import check_selector
from tests.choose.rosters import ended, roster
from tests.worlds import events_of, fleets, paces, toy_plan, world_of

law = settings(deadline=None, derandomize=True, max_examples=60)
users_of = st.lists(st.integers(-1, 4), min_size=1, max_size=25)


def tried(part, clients, fleet):
    """The state after these clients ended a task."""
    return part.learn(part.initial(fleet), ended(clients, fate=LOST), 0.0)


def test_a_share_of_each_pick_goes_to_the_never_tried_rounded_at_random():
    part = explore(fastest(), share=0.25)
    state = tried(part, range(20), 40)
    there = roster(40, seconds=np.arange(40.0) + 1)
    new = [int((part.pick(state, there, 10, Draw(1, r)).clients >= 20).sum()) for r in range(1000)]
    assert set(new) == {2, 3}
    assert np.mean(new) == pytest.approx(2.5, abs=0.06)
    asked = part.pick(state, there, 10, Draw(1, 0)).clients
    assert sorted(asked[asked < 20].tolist()) == list(range(int((asked < 20).sum()))), "the rest is the selector's"


def test_explorers_are_drawn_evenly():
    part = explore(fastest(), share=0.5)
    state, there = tried(part, range(10), 20), roster(20, seconds=np.arange(20.0) + 1)
    counts = np.bincount(
        np.concatenate([part.pick(state, there, 4, Draw(2, r)).clients for r in range(1500)]), minlength=20
    )[10:]
    assert ((counts - 300) ** 2 / 300).sum() / 0.8 < 28  # 9 degrees of freedom


def test_the_share_decays_round_by_round_down_to_its_floor():
    part = explore(fastest(), share=0.8, decay=0.5, floor=0.1)
    state = tried(part, range(50), 100)
    there = roster(100, seconds=np.arange(100.0) + 1)

    def new(r):
        return int((part.pick(state, there, 20, Draw(1, r)).clients >= 50).sum())

    assert [new(r) for r in range(6)] == [16, 8, 4, 2, 2, 2]


def test_whoever_ended_a_task_that_was_not_yet_learnt_of_has_been_tried():
    part = explore(fastest(), share=1.0)
    there = roster(4, untold=[0, 1, 1, 1], seconds=[9.0, 3.0, 2.0, 1.0])
    assert part.pick(part.initial(4), there, 2, Draw(0, 0)).clients.tolist() == [0, 3]


@law
@given(st.integers(1, 25), st.integers(0, 25), st.integers(1, 25), st.floats(0.0, 1.0))
def test_exploring_never_changes_how_many_are_picked_and_nobody_is_picked_twice(clients, known, n, share):
    part = explore(share=share)
    state = tried(part, range(min(known, clients)), clients)
    asked = part.pick(state, roster(clients), n, Draw(0, 3)).clients.tolist()
    assert len(set(asked)) == len(asked) == min(n, clients)
    if share == 0.0:
        assert asked == uniform().pick({}, roster(clients), n, Draw(0, 3)).clients.tolist()


def test_explorers_have_settings_as_all_have():
    part = explore(timely(seconds=6.0), share=0.5)
    there = roster(10, seconds=8.0, upload_seconds=2.0)
    asked = part.pick(tried(part, range(5), 10), there, 6, Draw(0, 0))
    assert len(asked.settings["portion"]) == len(asked.clients) == 6


@law
@given(users_of, st.integers(1, 3), st.integers(1, 25))
def test_no_user_has_more_than_the_most_and_as_many_are_picked_as_can_be(users, most, n):
    there = roster(len(users), user=users)
    asked = per_user(most=most).pick({}, there, n, Draw(4, 4)).clients.tolist()
    counts = Counter(users[c] for c in asked)
    assert all(count <= most for user, count in counts.items() if user >= 0)
    able = sum(min(most, k) if user >= 0 else k for user, k in Counter(users).items())
    assert len(set(asked)) == len(asked) == min(n, able)


@law
@given(users_of, st.integers(1, 3), st.integers(1, 25))
def test_those_stay_whom_the_selector_likes_best(users, most, n):
    seconds = np.arange(len(users))[::-1] + 1.0
    there = roster(len(users), user=users, seconds=seconds)
    asked = per_user(fastest(), most=most).pick({}, there, n, Draw(0, 0)).clients.tolist()
    expected, counts = [], Counter()
    for c in np.argsort(seconds).tolist():
        counts[users[c]] += 1
        if len(expected) < n and (users[c] < 0 or counts[users[c]] <= most):
            expected.append(c)
    assert asked == expected


def test_devices_that_are_at_work_count():
    there = roster(4, user=[0, 0, 1, 1], user_tasks=[1, 1, 0, 0])
    assert set(per_user().pick({}, there, 4, Draw(0, 0)).clients.tolist()) < {2, 3}
    assert len(per_user(most=2).pick({}, there, 4, Draw(0, 0)).clients) == 3


def test_a_device_for_each_user_changes_nothing():
    there = roster(30, user=np.arange(30)[::-1])
    for inner in (uniform(), fastest()):
        assert (
            per_user(inner).pick({}, there, 9, Draw(1, 2)).clients.tolist()
            == inner.pick({}, there, 9, Draw(1, 2)).clients.tolist()
        )


@settings(law, max_examples=25)
@given(fleets(), paces(), st.integers(1, 2))
def test_in_a_run_no_user_has_more_devices_at_work(fleet, pace, most):
    users = np.arange(len(fleet)) // 3
    plan = toy_plan(pace.policy(), len(fleet), choose=per_user(most=most), stop=Stop(rounds=5, virtual_seconds=1e6))
    running = {}
    for event in events_of(plan, replace(world_of(fleet), users=UserSource(users)))[0]:
        match event:
            case TasksSent():
                running |= {event.first + i: users[c] for i, c in enumerate(event.clients.tolist())}
                assert max(Counter(running.values()).values()) <= most
            case TaskArrived() | TaskLost():
                running.pop(event.task)
            case TasksDropped():
                for task in event.tasks.tolist():
                    running.pop(task)


@pytest.mark.parametrize(
    "part",
    [
        explore(share=0.3), per_user(), only(per_user(flame(energy=True)), ids=list(range(40))),
        per_user(explore(power_of_choice(9), share=0.5), most=2), explore(fair(explore(flame(), share=0.2), cap=3.0), share=0.2),
    ],
    ids=lambda p: p.name,
)  # fmt: skip
def test_they_nest_and_are_selectors_as_others_are(part):
    check_selector(part)


@pytest.mark.parametrize(
    "around",
    [
        lambda inner: per_user(inner),
        lambda inner: timely(inner, seconds=20.0, least=0.9),
        lambda inner: timely_interval(inner, k=2),
        lambda inner: explore(inner, share=0.5),
        lambda inner: explore(per_user(inner), share=1.0),
    ],
)
def test_nobody_is_probed_in_vain(around):
    # Every second device is at work for its user, too slow and broken: the others are as many as are looked at.
    odd = np.arange(24) % 2 == 1
    seconds, users = np.where(odd, np.inf, 8.0), np.where(odd, 1.0, 2.0 + np.arange(24))
    there = roster(24, seconds=seconds, user=users, user_tasks=odd * 1.0, upload_seconds=1.0, steps=4.0)
    part, draw = around(power_of_choice(6)), Draw(3, 2, 5)
    state = part.initial(24)
    looked, stat = part.probe(state, there, 4, draw)
    column = np.full(24, np.nan)
    column[looked] = np.arange(24)[looked] / 8
    asked = part.pick(state, replace(there, stats={**there.stats, stat: column}), 4, draw).clients
    if not part.name.startswith("explore"):
        assert len(looked) == 6 and not odd[looked].any()
        assert set(asked.tolist()) == set(np.sort(looked)[-4:].tolist()), "those of the probed whose losses are highest"
    elif "per_user" in part.name:
        assert not len(looked) and len(asked), "all places are for the never tried"
    else:
        explorers = np.setdiff1d(asked, looked)
        assert len(looked) == 6 and len(explorers) == 2 and set(np.sort(looked)[-2:].tolist()) <= set(asked.tolist())
