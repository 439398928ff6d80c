"""Canonical files as .npz: damaged archives, and rows that share a name."""

import contextlib

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import take_devices, unshared_devices
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical_files import write_devices
from fedfleet.world.bases.npz_files import devices_npz
from tests.world.bases.test_canonical_files import DEVICES


@pytest.mark.parametrize("cut", [0, 10, 100, -30, -1])
def test_a_damaged_archive_is_refused(tmp_path, cut):
    path = tmp_path / "d.npz"
    write_devices(str(path), DEVICES)
    path.write_bytes(path.read_bytes()[:cut])
    for load in (load_devices, load_states):
        with pytest.raises(BadInput):
            load(str(path))


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_byte_is_refused_or_read_as_some_fleet(tmp_path, seed):
    path = tmp_path / "d.npz"
    write_devices(str(path), DEVICES)
    rng, raw = np.random.default_rng(seed), bytearray(path.read_bytes())
    raw[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(bytes(raw))
    with contextlib.suppress(BadInput):
        assert len(devices_npz(str(path))) == 3


def test_rows_that_repeat_a_device_are_one_device_for_many_clients(tmp_path):
    fleet = take_devices(DEVICES, np.array([1, 1, 0, 2, 1]))
    write_devices(str(tmp_path / "d.npz"), fleet)
    assert devices_npz(str(tmp_path / "d.npz")).ids.tolist() == unshared_devices(fleet).ids.tolist()
