"""Devices whose speed changes: ShuffleFL's mobility and FLHetBench's state-only setting."""

import numpy as np
import pytest

from fedfleet.core.records import Cost
from fedfleet.core.rng import client_keys, normals
from fedfleet.world.devices import homogeneous
from fedfleet.world.dynamics import coefficient, mobile, state_only


def test_omega_is_read_without_its_hole():
    assert coefficient(np.array([-0.5, 0.0, 0.3, 1.0, 1.7, 5.0])).tolist() == [1.0, 1.0, 0.3, 1.0, 1.7, 2.0]


def test_mobility_changes_links_by_trip_and_compute_by_the_hour():
    keys = client_keys(500)
    everyone, none = np.arange(500), np.zeros(500)
    source = mobile(homogeneous(mbps=8.0, seconds_per_sample=0.1))(keys, 3)
    moved = source.seconds(everyone, Cost(none, none + 1e6, none), 0.0, everyone)
    assert moved.mean() == pytest.approx(1.0 / np.mean(coefficient(1 + 0.2 * normals(3, "omega", keys, everyone))), rel=0.1)
    now, later, same = (source.seconds(everyone, Cost(none + 10, none, none), t, everyone) for t in (0.0, 4000.0, 100.0))
    assert (now == same).all()
    assert (now != later).all()
    assert ((now >= 3.0 - 1e-9) & (now <= 6.0 + 1e-9)).all()


def test_the_state_only_setting_straddles_its_deadline():
    keys = client_keys(5000)
    everyone = np.arange(5000)
    took = state_only(deadline=120.0)(keys, 1).seconds(everyone, Cost(np.ones(5000), np.ones(5000), np.ones(5000)), 0.0, everyone)
    assert took.mean() == pytest.approx(120 / 1.05, rel=0.01)
    assert took.std() == pytest.approx(12 / 1.05, rel=0.05)
