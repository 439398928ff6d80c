"""Selectors are told of those whom they choose among: devices, or users where there are edges."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Selector
from fedfleet.core.records import whole_work
from fedfleet.core.registry import register

WORLD = {"clients": 12, "devices": "spread", "users": {"use": "groups", "count": 4}, "tags": {"odd": [1, 3]}}
TOLD = {}


def curious(run: RunFacts = RunFacts(0, 0, 0), fleet: FleetFacts = FleetFacts()) -> Selector:  # noqa: B008
    """Notes what it is told."""
    TOLD.update(run=run, fleet=fleet)
    return Selector("curious", lambda state, roster, n, draw: whole_work(roster.clients[:n]))


def told(**more):
    register("selectors", "curious", curious)
    spec = {
        "task": "digits_logreg",
        "world": WORLD,
        "pace": {"cohort": 2},
        "stop": {"rounds": 9},
        "choose": "curious",
        **more,
    }
    return assemble(resolve(spec)), TOLD["run"], TOLD["fleet"]


def test_of_devices():
    setup, run, fleet = told()
    assert (run.clients, run.rounds, len(fleet.keys), len(fleet.kinds)) == (12, 9, 12, 12)
    assert fleet.tags["odd"].tolist() == [1, 3]
    trips = fleet.trip_seconds()
    assert len(np.unique(trips)) == 12 and setup.plan.choose.name == "curious"


def test_of_users_where_there_are_edges():
    setup, run, fleet = told(edge="hierfl")
    assert (run.clients, len(fleet.keys), set(fleet.kinds)) == (4, 4, {"user with 3 devices"})
    assert fleet.keys.tolist() == setup.world.keys.tolist()
    assert (fleet.trip_seconds() > 0).all() and setup.plan.choose.name == "curious"


@pytest.mark.parametrize("name", ["pyramidfl", "timely", "timely_interval"])
def test_edges_cannot_be_given_work_of_their_own(name):
    choose = {"use": "per_user", "selector": {"use": "explore", "selector": name}}
    with pytest.raises(BadInput, match=r"gives each client work of its own .* and edges do all of theirs"):
        told(edge="hierfl", choose=choose)


def test_in_one_place_nobody_is_left_to_choose_among():
    setup, run, _ = told(algorithm="centralized")
    assert (run.clients, setup.plan.clients, setup.plan.choose.name) == (12, 1, "uniform")


@pytest.mark.parametrize(
    ("tags", "more", "says"),
    [
        ({"odd": [1, 12]}, {}, "world.tags.odd: there is no client 12 in a fleet of 12 clients"),
        ({"odd": [4]}, {"edge": "hierfl"}, "world.tags.odd: there is no client 4 in a fleet of 4 users"),
        ({"odd": []}, {}, "world.tags.odd: it names no client"),
    ],
)
def test_tags_name_clients_that_are_there(tags, more, says):
    with pytest.raises(BadInput, match=says):
        assemble(resolve({"world": {**WORLD, "tags": tags}, "pace": {"cohort": 2}, **more}))


def test_a_spec_without_tags_has_the_digest_that_it_had():
    assert "tags" not in resolve({}).table()["world"]
    assert resolve({"world": {"tags": {"a": [1]}}}).table()["world"]["tags"] == {"a": [1]}
