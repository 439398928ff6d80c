"""What decides a -T metric: named when it is one device, one state or a floor, and silent otherwise."""

import math

import numpy as np
import pytest

from fedfleet.core.fleet import StateTable, device_table, take_devices
from fedfleet.measure.montecarlo import reference_simulation
from fedfleet.measure.montecarlo.metric_notes import notes, suspect, trip_seconds, waiting
from fedfleet.measure.montecarlo.metrics import measure
from fedfleet.measure.montecarlo.settings import Settings
from tests.worlds import traces_of

ASKED = Settings(k=5, rounds=100, trips=400)


def devices(*speeds):
    return device_table([f"d{i}" for i in range(len(speeds))], [list(s) for s in speeds], [0.1] * len(speeds))


def said(name, d, s, settings=ASKED):
    return notes(name, settings, d, s, measure(name, settings, d, s))


EVEN = devices(*([[3e4, 4e4, 5e4]] * 20))


def test_an_even_fleet_is_decided_by_nobody():
    assert said("DevMC-T", EVEN, None) == []


def test_one_slow_device_is_named_with_what_would_be_without_it():
    fleet = devices([5.0], *([[3e4, 4e4, 5e4]] * 19))
    (note,) = said("DevMC-T", fleet, None)
    left_out = take_devices(fleet, np.array([1, *range(1, 20)]))
    hoped = measure("DevMC-T", ASKED, left_out, None).value
    assert note.startswith("one device, d0 (1 of 20 clients), decides DevMC-T: with the median in its place it would be ")
    assert f"{hoped:.4g} instead of {measure('DevMC-T', ASKED, fleet, None).value:.4g}" in note
    assert said("DevMC-R", fleet, None) == [], "a deadline bounds it"


def test_rows_of_one_name_are_one_device_whether_or_not_they_share_a_row():
    slow, fast = [5.0, 6.0], [3e4, 5e4]
    apart = device_table(["s", "s", *"abcdefghijklmnopqr"], [slow] * 2 + [fast] * 18, [0.1] * 20)
    shared = take_devices(
        device_table(["s", *"abcdefghijklmnopqr"], [slow] + [fast] * 18, [0.1] * 19), np.array([0, 0, *range(1, 19)])
    )
    for fleet in (apart, shared):
        (note,) = said("DevMC-T", fleet, None)
        assert "one device, s (2 of 20 clients)," in note


def test_a_floor_that_several_devices_share_is_named():
    fleet = devices(*([[1.0, 4e4, 5e4]] * 4), *([[3e4, 4e4, 5e4]] * 16))
    (note,) = said("DevMC-T", fleet, None)
    assert note.startswith("the floor under speeds, 1 kbit/s, at which 6.7 % of them lie (4 devices), decides DevMC-T")
    higher = devices(*([[2e4, 4e4, 5e4]] * 4), *([[3e4, 4e4, 5e4]] * 16))
    assert said("DevMC-T", higher, None) == [], "a lowest speed that harms nobody"


@pytest.mark.parametrize("name", ["StatMC-T", "InterMC-T"])
def test_one_state_is_named(name):
    good, bad = ((0.0, 900.0),), ((0.0, 130.0), (500_000.0, 500_130.0))
    ids = np.array([f"s{i}" for i in range(20)])
    states = StateTable(ids, traces_of([bad] + [good] * 19, [1_000_000.0] + [1000.0] * 19))
    asked = Settings(k=20, rounds=100, trips=4000, ready_share=1.0)
    (note,) = said(name, EVEN, states, asked)
    assert note.startswith(f"one state, s0 (1 of 20 clients), decides {name}")
    alike = StateTable(ids, traces_of([good] * 20, [1000.0] * 20))
    assert said(name, EVEN, alike, asked) == []


def test_a_fleet_in_which_nobody_would_be_left_is_no_error():
    # Rounds begin every 20 s: only the first client is ever ready then, and the median is not.
    spans = [((0.0, 5.0),), ((10.0, 11.0),), ((10.0, 11.0),)]
    states = StateTable(np.array(["a", "b", "c"]), traces_of(spans, [20.0, 20.0, 20.0]))
    assert said("StatMC-T", None, states, Settings(k=1, trips=20, t_cost=0.0)) == []


def test_the_mean_trip_is_that_of_the_simulation():
    own_up = device_table(["a", "b"], [[2e4, 6e4], [1e4]], [0.5, 0.2], [[1e4, 3e4], []])
    settings, draws = Settings(samples=10.0), reference_simulation.Draws(1)
    for c, hoped in enumerate(trip_seconds(settings, own_up)):
        seen = [reference_simulation._device_cost(settings, own_up, c, draws) for _ in range(4000)]
        assert np.mean(seen) == pytest.approx(hoped, rel=0.03)


def test_waiting_counts_sessions_that_end_before_the_work_does():
    states = StateTable(np.array(["a", "b"]), traces_of([((0.0, 10.0), (50.0, 51.0)), ((0.0, 100.0),)], [100.0, 100.0]))
    assert waiting(states, 5.0).tolist() == [(5 * 40 + 1 * 49) / 100, 0.0]


def test_the_suspect_carries_most_altogether():
    result = suspect(np.array(["x", "y", "x"]), np.array([0, 1, 2, 1]), np.array([2.0, 3.0, 2.5]))
    assert (result.name, result.clients, result.burden) == ("y", 2, 6.0)
    assert result.rows.tolist() == [0, 1, 2, 1], "the median client has it too"
    assert math.isclose(suspect(np.array(["x", "y"]), np.array([0, 0, 1]), np.array([1.0, 9.0])).burden, 9.0)
