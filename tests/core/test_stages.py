"""What seconds go into: the stages add up, whoever says them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.records import Cost
from fedfleet.core.registry import names
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import (
    COMPUTE,
    DOWNLOAD,
    STAGES,
    UPLOAD,
    seconds_before,
    source_from_stages,
    stages_after,
    stages_of,
    total,
)
from tests.testing.registered import built

TRIP = {
    "latency": np.array([1.0, 0.5]),
    "download": np.array([2.0, 4.0]),
    "compute": np.array([3.0, 0.0]),
    "upload": np.array([5.0, 8.0]),
}


def work(n):
    return Cost(np.full(n, 10.0), np.full(n, 1e6), np.full(n, 5e5), np.full(n, 2.0))


@pytest.mark.parametrize("name", [n for n in names("devices") if n != "device_file"])
def test_every_registered_source_says_what_its_seconds_go_into(name):
    keys = client_keys(12)
    source = built("devices", name)(keys, 3)
    who = np.arange(12)
    result = stages_of(source, who, work(12), 50.0, who + 7)
    assert set(result) <= set(STAGES)
    assert np.array_equal(total(result), source.seconds(who, work(12), 50.0, who + 7))
    assert all((column >= 0).all() for column in result.values())


def test_a_source_that_does_not_say_is_asked_for_less():
    """Additive sources come out stage by stage; what is not a sum of its stages counts as latency."""

    def stages(clients, cost, start, tasks):
        parts = {"download": cost.bytes_down / 1e6, "compute": cost.samples / 4.0, "upload": cost.bytes_up / 5e5}
        return {"latency": np.full(len(clients), 0.25), **parts}

    said = source_from_stages(stages, ["toy"] * 3)
    mute = DeviceSource(lambda *trip: said.seconds(*trip), ["toy"] * 3)
    who = np.arange(3)
    ours, theirs = (stages_of(source, who, work(3), 0.0, who) for source in (said, mute))
    assert {n: v.tolist() for n, v in ours.items()} == {n: v.tolist() for n, v in theirs.items()}
    flat = DeviceSource(lambda clients, cost, start, tasks: np.full(len(clients), 7.0), ["toy"] * 3)
    assert stages_of(flat, who, work(3), 0.0, who)["latency"].tolist() == [7.0] * 3


def test_a_device_that_cannot_do_it_takes_for_ever():
    source = DeviceSource(lambda clients, cost, start, tasks: np.where(cost.samples > 0, np.inf, 1.0), ["toy"])
    result = stages_of(source, np.arange(1), work(1), 0.0, np.arange(1))
    assert total(result).tolist() == [np.inf]
    assert not any(np.isnan(column).any() for column in result.values())


def test_other_seconds_are_not_explained_by_the_old_stages():
    source = built("devices", "homogeneous")(client_keys(2), 0)
    other = replace(source, seconds=lambda clients, cost, start, tasks: np.full(len(clients), 9.0))
    assert total(stages_of(other, np.arange(2), work(2), 0.0, np.arange(2))).tolist() == [9.0, 9.0]


@settings(deadline=None, derandomize=True)
@given(st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_work_passes_through_the_stages_in_order(first, second):
    worked = np.array([first, second])
    result = stages_after(TRIP, worked)
    assert np.allclose(total(result), np.minimum(worked, total(TRIP)), rtol=0, atol=1e-12)
    for a, b in pairwise(STAGES):
        if a in result and b in result:
            begun = result[b] > 0
            assert np.allclose(result[a][begun], TRIP[a][begun], atol=1e-12), "a stage begins when the one before is over"


@pytest.mark.parametrize(("stage", "part", "expected"), [(DOWNLOAD, 0.5, 2.0), (COMPUTE, 0.0, 3.0), (UPLOAD, 1.0, 11.0)])
def test_when_a_part_of_a_stage_is_done(stage, part, expected):
    result = seconds_before(TRIP, np.array([stage, stage]), np.array([part, part]))
    assert result[0] == expected
    assert np.allclose(total(stages_after(TRIP, result)), result)
