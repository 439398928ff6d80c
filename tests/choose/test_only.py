"""Only some clients: by number, kind or tag; whoever is not there is named."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.choose.baselines import fastest
from fedfleet.choose.only import only
from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.events import TasksSent
from fedfleet.core.part_facts import FleetFacts
from fedfleet.core.parts import Draw
from fedfleet.core.rng import client_keys
from fedfleet.simulation.simulator import simulate
from fedfleet.testing import check_selector
from tests.choose.rosters import roster
from tests.worlds import only as events_of_kind

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
    "nobody": ({}, "choose: only names nobody; name clients with ids = "),
    "nobody in common": (
        {"ids": [1], "selector": {"use": "fair", "cap": 2.0, "selector": {"use": "only", "ids": [2]}}},
        "only names nobody whom 'fair(only(uniform))' inside it may ask",
    ),
    "client": ({"ids": [3, 12]}, "choose.ids: there is no client 12 in a fleet of 12; they are 0 to 11"),
    "tag": ({"tags": ["nigth"]}, "choose.tags: nobody has the tag 'nigth'; did you mean 'night'?"),
}


@pytest.mark.parametrize("name", WRONG)
def test_naming_nobody_or_a_stranger_is_refused_before_the_run(name):
    named, says = WRONG[name]
    with pytest.raises(BadInput) as wrong:
        assemble(resolve({"world": WORLD, "pace": {"cohort": 2}, "choose": {"use": "only", **named}}))
    assert says in str(wrong.value)


def test_an_unknown_kind_is_answered_with_the_nearest():
    kind = assemble(resolve({"world": WORLD, "pace": {"cohort": 2}})).world.devices.kinds[0]
    with pytest.raises(BadInput, match=f"choose.kinds: no device is of kind '{kind}x'; did you mean"):
        assemble(resolve({"world": WORLD, "pace": {"cohort": 2}, "choose": {"use": "only", "kinds": [f"{kind}x"]}}))
    with pytest.raises(BadInput, match=r"no device is of kind 'x'$"):
        only(kinds=["x"])
    with pytest.raises(BadInput, match=r"nobody has the tag 'x'; name clients under it with world.tags"):
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
