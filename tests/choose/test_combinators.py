"""Around a selector: a share for the never tried, and few devices of one user."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.choose.baselines import fair, fastest
from fedfleet.choose.combinators import add_state, explore, merge_picks, only, per_user, restrict_candidates
from fedfleet.choose.flame import flame
from fedfleet.choose.power_of_choice import power_of_choice
from fedfleet.choose.timely import timely, timely_interval
from fedfleet.choose.uniform import uniform
from fedfleet.core.edges import UserSource
from fedfleet.core.errors import BadInput
from fedfleet.core.events import TaskArrived, TaskLost, TasksDropped, TasksSent, TasksSpent
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Draw, Selector
from fedfleet.core.records import LOST, Assignments, Stop, whole_work
from fedfleet.core.rng import client_keys
from fedfleet.simulation.simulator import simulate
from fedfleet.testing import check_selector
from tests.choose.rosters import ended, roster
from tests.worlds import events_of, fleets, paces, toy_plan, world_of
from tests.worlds import only as events_of_kind

pytestmark = pytest.mark.slow


def counting(name):
    """A selector that counts what it hears, in columns of its own."""
    return Selector(
        name,
        lambda state, roster, n, draw: whole_work(roster.clients[:n] * int(state["heard"][0])),
        lambda state, ended, now: {**state, "heard": state["heard"] + now},
        probe=lambda state, roster, n, draw: (roster.clients[: int(state["heard"][0])], "loss"),
        initial=lambda clients: {"heard": np.ones(clients), "charged": np.zeros(1)},
        sees=("steps",),
        probe_seconds=7.0,
        charge=lambda state, spent: {**state, "charged": state["charged"] + 1},
        by_round=True,
    )


def wrapped(inner):
    return add_state(
        inner,
        lambda clients: {"heard": np.zeros(1)},
        lambda state, ended: {"heard": state["heard"] + 10},
        ("untold", "steps"),
    )


def test_both_keep_columns_of_the_same_name():
    part = wrapped(wrapped(counting("x")))
    state = part.initial(3)
    assert {name: len(column) for name, column in state.items()} == {
        "heard": 1, "inner.heard": 1, "inner.inner.heard": 3, "inner.inner.charged": 1,
    }  # fmt: skip
    state = part.learn(state, ended([0]), 1.0)
    assert [state[n][0] for n in ("heard", "inner.heard", "inner.inner.heard")] == [10, 10, 2]
    state = part.charge(state, TasksSpent(0.0, np.zeros(0, np.int64), np.zeros(0, np.int64), {}))
    assert [state[n][0] for n in ("heard", "inner.heard", "inner.inner.heard", "inner.inner.charged")] == [10, 10, 2, 1]
    assert part.pick(state, roster(3), 2, Draw(0, 0)).clients.tolist() == [0, 2]
    assert part.probe(state, roster(3), 2, Draw(0, 0))[0].tolist() == [0, 1]


def test_what_the_inner_one_sees_and_wants_is_kept():
    part = wrapped(counting("x"))
    assert (part.sees, part.probe_seconds, part.by_round, part.name) == (("steps", "untold"), 7.0, True, "x")
    plain = wrapped(Selector("y", counting("y").pick))
    assert plain.probe is plain.charge is None
    assert plain.learn(plain.initial(2), ended([0]), 1.0) == {"heard": [10.0]}


def test_who_is_left_out_is_neither_probed_nor_picked():
    part = restrict_candidates(power_of_choice(6), lambda state, roster: roster.clients % 2 == 0, "even")
    there = roster(9, loss=np.arange(9.0))
    assert set(part.probe({}, there, 2, Draw(0, 0))[0].tolist()) == {0, 2, 4, 6, 8}
    assert part.pick({}, there, 3, Draw(0, 0)).clients.tolist() == [8, 6, 4]
    assert part.pick({}, there, 9, Draw(0, 0)).clients.tolist() == [8, 6, 4, 2, 0]
    assert part.name == "even" and restrict_candidates(counting("x"), part.pick, "z").probe is not None


def test_picks_are_put_together_with_all_their_columns():
    def pick(clients, due):
        n = len(clients)
        return Assignments(np.array(clients, np.int64), np.arange(n), np.ones(n), {"lr": np.full(n, float(n))}, due)

    result = merge_picks([pick([3, 1], 5.0), pick([2], 9.0), pick([], 99.0)])
    assert (result.clients.tolist(), result.steps.tolist(), result.settings["lr"].tolist()) == (
        [3, 1, 2],
        [0, 1, 0],
        [2, 2, 1],
    )
    assert result.due == 9.0
    assert not len(merge_picks([pick([], None)]).clients) and merge_picks([pick([1], None)]).due is None


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
    counts = np.bincount(np.concatenate([part.pick(state, there, 4, Draw(2, r)).clients for r in range(1500)]), minlength=20)[10:]
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
            per_user(inner).pick({}, there, 9, Draw(1, 2)).clients.tolist() == inner.pick({}, there, 9, Draw(1, 2)).clients.tolist()
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


FLEET = FleetFacts(
    keys=client_keys(6), kinds=["a", "b", "a", "c", "b", "a"], tags={"night": np.array([1, 5]), "day": np.array([0])}
)


def members(**named):
    return sorted(only(**named, fleet=FLEET).pick({}, roster(6), 6, Draw(0, 0)).clients.tolist())


def test_clients_are_named_by_number_kind_or_tag_and_any_of_them_will_do():
    assert members(ids=[4, 2, 4]) == [2, 4]
    assert members(kinds=["a"]) == [0, 2, 5]
    assert members(tags=["night"]) == [1, 5]
    assert members(ids=[3], kinds=["b"], tags=["day", "night"]) == [0, 1, 3, 4, 5]


def test_two_of_them_nest_and_both_must_hold():
    part = only(only(kinds=["a"], fleet=FLEET), tags=["night"], fleet=FLEET)
    assert part.pick({}, roster(6), 6, Draw(0, 0)).clients.tolist() == [5]


def test_naming_everyone_changes_nothing_and_the_selector_picks_among_the_named():
    there = roster(30, seconds=np.arange(30.0) + 1)
    for inner in (uniform(), fastest()):
        everyone = only(inner, ids=list(range(30))).pick({}, there, 7, Draw(2, 1)).clients.tolist()
        assert everyone == inner.pick({}, there, 7, Draw(2, 1)).clients.tolist()
    assert only(fastest(), ids=[28, 9, 11]).pick({}, there, 2, Draw(0, 0)).clients.tolist() == [9, 11]


def test_it_is_a_selector_as_others_are():
    check_selector(only(fastest(), ids=list(range(0, 50, 2))))


WORLD = {"clients": 12, "devices": {"use": "pool72"}, "tags": {"night": [1, 2], "office": [3]}}
WRONG = {
    "nobody": ({}, "choose: the selector 'only' does not name any client; give ids = "),
    "nobody in common": (
        {"ids": [1], "selector": {"use": "fair", "cap": 2.0, "selector": {"use": "only", "ids": [2]}}},
        r"'fair\(only\(uniform\)\)' inside it",
    ),
    "client": ({"ids": [3, 12]}, "choose.ids: there is no client 12 in a fleet of 12; .* 0 to 11"),
    "tag": ({"tags": ["nigth"]}, "choose.tags: .*'nigth'; did you mean 'night'?"),
}


@pytest.mark.parametrize("name", WRONG)
def test_naming_nobody_or_a_stranger_is_refused_before_the_run(name):
    named, says = WRONG[name]
    with pytest.raises(BadInput) as wrong:
        assemble(resolve({"world": WORLD, "pace": {"cohort": 2}, "choose": {"use": "only", **named}}))
    assert re.search(says, str(wrong.value))


def test_an_unknown_kind_is_answered_with_the_nearest():
    kind = assemble(resolve({"world": WORLD, "pace": {"cohort": 2}})).world.devices.kinds[0]
    with pytest.raises(BadInput, match=f"choose.kinds: no device is of kind '{kind}x'; did you mean"):
        assemble(resolve({"world": WORLD, "pace": {"cohort": 2}, "choose": {"use": "only", "kinds": [f"{kind}x"]}}))
    with pytest.raises(BadInput, match=r"no device is of kind 'x'$"):
        only(kinds=["x"])
    with pytest.raises(BadInput, match=r"choose.tags: .* 'x'; name clients under it with world.tags"):
        only(tags=["x"])


@pytest.mark.parametrize(
    ("named", "edge", "expected"), [({"tags": ["night"]}, {}, {1, 2}), ({"ids": [0, 3]}, {"edge": "hierfl"}, {0, 3})]
)
def test_in_a_run_only_those_are_asked_and_with_edges_they_are_users(named, edge, expected):
    world = {**WORLD, "clients": 12, "users": {"use": "groups", "count": 4}, "devices": "spread"}
    spec = {
        "task": "digits_logreg", "world": world, "pace": {"cohort": 2, "min_clients": 1}, "stop": {"rounds": 2},
        "choose": {"use": "only", **named}, **edge,
    }  # fmt: skip
    setup, events = assemble(resolve(spec)), []
    with open_executor(setup) as execute:
        simulate(setup.plan, setup.world, execute, watch=events.extend)
    assert {c for e in events_of_kind(TasksSent, events) for c in e.clients.tolist()} == expected
