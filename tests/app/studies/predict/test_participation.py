"""Who will take part: by walks where they are enough, by dry runs elsewhere; what cannot be foreseen is said or refused."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict.participation import (
    closed_form,
    exclusion_summary,
    expected_participation,
    fleet_of,
    mean_samples,
    other_seeds,
    predictable_plan,
    reachable_share,
    staleness_factors,
    trip_seconds,
    walkable_rules,
)
from fedfleet.core.errors import BadInput
from fedfleet.simulation.dry_run import dry_run
from tests.app.studies.predict.conftest import TABLE

DEADLINE = TABLE["pace"]


def setup_of(**changes):
    return assemble(resolve(TABLE | changes))


@pytest.mark.parametrize(
    ("changes", "walked"),
    [
        ({}, True),
        ({"pace": {"use": "readiness", "cohort": 6, "ready_share": 0.7}}, True),
        ({"world": TABLE["world"] | {"charge": 500}}, True),
        ({"algorithm": {"use": "scaffold"}}, True),
        ({"pace": {**DEADLINE, "max_staleness": 2}}, False),
        ({"pace": {**DEADLINE, "if_few": "fail"}}, True),
        ({"pace": {"use": "buffered", "k": 3, "concurrency": 6}}, False),
        ({"world": TABLE["world"] | {"faults": {"use": "lossy"}}}, False),
        ({"choose": {"use": "flame"}}, True),  # a uniform choice stands in for it
        ({"choose": {"use": "tifl"}}, False),
    ],
)
def test_what_is_foreseen_is_the_run_of_that_seed(changes, walked):
    setup = setup_of(**changes)
    plan, _ = predictable_plan(setup)
    assert (walkable_rules(plan, setup.world) is not None) == walked
    result, wanted = expected_participation(setup, [setup.plan.seed])[0][0], dry_run(plan, setup.world)
    assert result.times.tolist() == wanted.times.tolist() and result.clients.tolist() == wanted.clients.tolist()
    assert result.failed == wanted.failed and result.commits > 0


def test_draws_are_never_the_runs_own():
    assert 3 not in other_seeds(3, 5) and len(set(other_seeds(3, 5))) == 5


def test_labels_are_those_that_clients_train_on():
    setup = setup_of()
    fleet = fleet_of(setup)
    assert fleet.labels.shape == (24, 10) and fleet.test.sum() == pytest.approx(1.0)
    assert fleet.labels.sum(axis=1).tolist() == setup.world.data.sizes(0).tolist()


def test_who_chooses_by_reports_is_replaced_and_that_is_said():
    plan, notes = predictable_plan(setup_of(choose={"use": "oort"}, stop={"rounds": 5, "target_accuracy": 0.9}))
    assert plan.choose.name == "uniform" and "oort chooses by what trained reports say" in notes[0]
    assert "the curve goes on to the last round" in notes[1]


def test_what_has_no_fleet_is_refused():
    with pytest.raises(BadInput, match="trains in one place"):
        predictable_plan(setup_of(algorithm={"use": "centralized"}))
    users = {"clients": 12, "users": {"use": "households"}}
    with pytest.raises(BadInput, match=r"remove \[edge\]"):
        predictable_plan(setup_of(world=users, edge={"use": "hierfl"}, pace={"use": "readiness", "cohort": 2}))


def test_the_closed_form_is_near_the_walks():
    setup = setup_of(stop={"rounds": 400})
    labels = fleet_of(setup).labels
    result = closed_form(setup, labels, cohort=6, noise=1.0)
    walked = np.mean([part.commits for part in expected_participation(setup, other_seeds(3, 3))[0]])
    assert result is not None and result["commits"] == pytest.approx(walked, rel=0.05) and len(result["clock"]) == 10
    assert closed_form(setup_of(pace={"use": "readiness", "cohort": 6}), labels, cohort=6, noise=1.0) is None
    away = TABLE["world"] | {"states": {"use": "daily"}}
    assert closed_form(setup_of(world=away), labels, cohort=6, noise=1.0) is None


def test_trips_and_reach_are_those_of_the_world():
    setup = setup_of(world=TABLE["world"] | {"states": {"use": "daily", "ready": 0.3}})
    trips, reach = trip_seconds(setup), reachable_share(setup.world, 10 * 86400.0)
    assert trips.shape == (24,) and (trips > 0).all() and reach.mean() == pytest.approx(0.3, abs=0.05)
    assert mean_samples(setup_of(world=TABLE["world"] | {"charge": 70})) == 70.0


BUFFERED = {"use": "buffered", "k": 3, "concurrency": 12}


def test_late_reports_are_shortened_as_the_algorithm_shortens_them():
    setup = setup_of(pace=BUFFERED, algorithm={"use": "fedbuff", "lr": 0.3})
    (part,), _ = expected_participation(setup, [5])
    assert part.staleness.max() > 1
    assert staleness_factors(setup.plan, part) == pytest.approx((1.0 + part.staleness) ** -0.5)
    for other in ({"use": "fedavg"}, {"use": "fedbuff", "average": "normalised"}):
        got = staleness_factors(setup_of(pace=BUFFERED, algorithm=other).plan, part)
        assert got is None or got == pytest.approx(1.0)
    assert staleness_factors(setup.plan, replace(part, staleness=0 * part.staleness)) is None


EVEN = np.ones(10)


def left(clock=EVEN, rounds=60, **changes):
    setup = assemble(resolve(TABLE | {"stop": {"rounds": rounds}} | changes))
    return exclusion_summary(setup, expected_participation(setup, other_seeds(3, 2))[0], clock)


def test_slow_links_are_named():
    result = left()
    assert result["never"] > 0 and result["too_slow"] > 0
    assert result["trip_seconds"]["left_out"] > result["trip_seconds"]["others"]
    assert "contribute to no model" in result["sentence"] and "than a round waits" in result["sentence"]


def test_who_is_seldom_there_is_named():
    alike = TABLE["world"] | {
        "devices": {"use": "homogeneous", "mbps": 100.0},
        "states": {"use": "daily", "ready": 0.15},
    }
    result = left(world=alike, rounds=30)
    assert result["never"] > 0 and result["too_slow"] == 0
    assert result["reachable"]["left_out"] < result["reachable"]["others"] and "can be reached" in result["sentence"]


def test_labels_that_are_shown_less_are_named():
    clock = np.ones(10)
    clock[7] = 0.1
    assert "Label 7 " in left(clock)["sentence"]


def test_on_an_ideal_fleet_nobody_is():
    result = left(world=TABLE["world"] | {"devices": {"use": "homogeneous"}}, pace={"use": "readiness", "cohort": 6})
    assert result["never"] == result["hardly"] == 0 and result["sentence"] == "No client will be left out."
    assert result["trip_seconds"]["left_out"] is None
