"""Assembling: parts that fit together become a plan, others are refused."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Selector
from fedfleet.core.records import whole_work
from fedfleet.core.registry import register
from fedfleet.core.trees import tree_nbytes


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"pace": {"cohort": 101}}, "more than the fleet of 100"),
        (
            {"pace": {"use": "buffered", "concurrency": 101}},
            "more than the fleet of 100 clients; lower pace.concurrency",
        ),
        (
            {"pace": {"use": "buffered"}, "choose": "pyramidfl"},
            "'buffered' has no rounds",
        ),
        (
            {"pace": {"use": "first_of", "first": "deadline", "second": {"use": "deadline", "cohort": 20}}},
            "pace: first and second are the same policy 'deadline'",
        ),
        (
            {"pace": {"use": "overcommit", "policy": {"use": "first_of", "first": "timeout", "second": "timeout"}}},
            "pace.policy: first and second are the same policy 'timeout'",
        ),
        (
            {"pace": {"use": "overcommit", "policy": {"use": "overcommit", "policy": "readiness"}}},
            "'overcommit.readiness.' already asks .* multiply the two factors",
        ),
        ({"pace": {"use": "timeout", "cohort": 101}}, "more than the fleet of 100 clients; lower pace.cohort"),
        ({"world": {"clients": 400}}, "use fewer clients"),
        ({"world": {"data": {"use": "by_owner"}}}, "does not say; use dirichlet"),
        ({"world": {"devices": {"use": "device_file", "path": "none.json"}}}, "no file none.json"),
        ({"world": {"charge": 1}, "choose": "pyramidfl"}, "with a flat charge any work takes the same time"),
        (
            {"world": {"charge": 1, "users": "households"}, "edge": "shufflefl"},
            "world.charge: edges plan",
        ),
        ({"world": {"unseen": 0.1}}, "do not name the owner of each sample"),
        ({"override": [{"clients": [100], "algorithm": {"lr": 0.1}}]}, "no client 100"),
        ({"override": [{"kinds": ["b"], "algorithm": {"lr": 0.1}}]}, "the fleet has no device of kind 'b'"),
    ],
)
def test_what_does_not_fit_together_is_refused(table, says):
    with pytest.raises(BadInput, match=says):
        assemble(resolve(table))


def test_a_plan_is_what_the_spec_says():
    setup = assemble(resolve({"seed": 3, "world": {"clients": 9}, "pace": {"use": "deadline", "cohort": 4}}))
    assert (setup.plan.seed, setup.plan.clients, setup.plan.pace.cohort, setup.plan.byte_scale) == (3, 9, 4, 1.0)
    assert setup.plan.pace.name == "deadline"
    assert setup.plan.spec_digest == setup.spec.digest
    assert len(setup.world.keys) == 9


def test_a_declared_model_size_scales_all_bytes():
    plan = assemble(resolve({"world": {"model_bytes": 1e9}})).plan
    assert plan.byte_scale * tree_nbytes(plan.params) == pytest.approx(1e9)


def test_a_task_may_be_given_instead_of_named():
    mine = assemble(resolve({"task": "digits_logreg"})).task
    assert assemble(resolve({}, content_id="mine"), mine).task is mine


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        ({"use": "fednova"}, r"edge: 'fednova' sends other values than updates of the model \(walked/steps\)"),
        ({"use": "fetchsgd"}, r"edge: 'fetchsgd' sends other values than updates of the model \(sketch\)"),
        ({"use": "ft"}, r"edge.use = 'hierfl': 'ft' lets every device tune the model"),
        ({"use": "fedavg", "fine_tune": 2}, "'fedavg' lets every device tune"),
    ],
)
def test_edges_refuse_before_the_run_what_they_cannot_average_or_tune(algorithm, says):
    world = {"clients": 12, "users": {"use": "groups", "count": 3}}
    table = {"task": "digits_logreg", "world": world, "edge": "hierfl", "pace": {"cohort": 2}, "algorithm": algorithm}
    with pytest.raises(BadInput, match=says):
        assemble(resolve(table))


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
    with pytest.raises(BadInput, match=r"gives each client its own amount of work .*remove \[edge\]"):
        told(edge="hierfl", choose=choose)


def test_in_one_place_nobody_is_left_to_choose_among():
    setup, run, _ = told(algorithm="centralized")
    assert (run.clients, setup.plan.clients, setup.plan.choose.name) == (12, 1, "uniform")


@pytest.mark.parametrize(
    ("tags", "more", "says"),
    [
        ({"odd": [1, 12]}, {}, "world.tags.odd: there is no client 12 in a fleet of 12 clients"),
        ({"odd": [4]}, {"edge": "hierfl"}, "world.tags.odd: there is no client 4 in a fleet of 4 users"),
        ({"odd": []}, {}, "world.tags.odd: the list is empty"),
    ],
)
def test_tags_name_clients_that_are_there(tags, more, says):
    with pytest.raises(BadInput, match=says):
        assemble(resolve({"world": {**WORLD, "tags": tags}, "pace": {"cohort": 2}, **more}))


def test_a_spec_without_tags_has_the_digest_that_it_had():
    assert "tags" not in resolve({}).table()["world"]
    assert resolve({"world": {"tags": {"a": [1]}}}).table()["world"]["tags"] == {"a": [1]}


@pytest.mark.parametrize("edge", [None, "hierfl"])
def test_every_plan_has_room_for_the_largest_clients_of_a_commit_at_each_layer(edge):
    table = {
        "world": {"clients": 40, "users": "households"} if edge else {"clients": 40},
        "pace": {"use": "readiness", "cohort": 4},
    }
    setup = assemble(resolve(table | ({"edge": edge} if edge else {})))
    fold = setup.plan.algorithm.fold
    assert (fold.most_reports, fold.total_weight) == (4, 2.0**24) and fold.heaviest >= setup.world.data.sizes(0).max()
    half = setup.plan.algorithm.local(0, {})
    assert edge is None or half.algorithm.fold == fold, "edges and the server add up alike"


def test_a_plan_whose_largest_clients_would_not_fit_gets_more_room():
    cohort = 30
    plan = assemble(resolve({"world": {"clients": 40}, "pace": {"cohort": cohort, "max_staleness": 2}})).plan
    assert plan.algorithm.fold.most_reports == cohort + 40
    small = assemble(resolve({"world": {"clients": 40}, "algorithm": {"fold": {"use": "mean", "total_weight": 64.0}}})).plan
    assert small.algorithm.fold.total_weight > 64.0, "else the reports of a commit would push each other out"
