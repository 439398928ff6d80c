"""Who is left out: those with slow links under a deadline, those who are seldom there, and nobody on an ideal fleet."""

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict.exclusion import exclusion_summary
from fedfleet.app.studies.predict.participation import expected_participation, other_seeds
from tests.app.studies.predict.conftest import TABLE

EVEN = np.ones(10)


def left(clock=EVEN, rounds=60, **changes):
    setup = assemble(resolve(TABLE | {"stop": {"rounds": rounds}} | changes))
    return exclusion_summary(setup, expected_participation(setup, other_seeds(3, 2))[0], clock)


def test_slow_links_are_named():
    result = left()
    assert result["never"] > 0 and result["too_slow"] > 0
    assert result["trip_seconds"]["left_out"] > result["trip_seconds"]["others"]
    assert "will be in no model" in result["sentence"] and "than a round waits" in result["sentence"]


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
    assert "Label 7 is shown" in left(clock)["sentence"]


def test_on_an_ideal_fleet_nobody_is():
    result = left(world=TABLE["world"] | {"devices": {"use": "homogeneous"}}, pace={"use": "readiness", "cohort": 6})
    assert result["never"] == result["hardly"] == 0 and result["sentence"] == "Nobody will be left out."
    assert result["trip_seconds"]["left_out"] is None
