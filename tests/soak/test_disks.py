"""Runs on fifteen real disks that are too small: with more room each ends with the same bytes."""

import pytest

from fedfleet.core.registry import register
from fedfleet.store.journal import digest_of
from tests.simulation.disks import FULL, attempt, mount, resize, unmount
from tests.simulation.killing import controlled

SIZES = [4, 8, 12, 20, 28, 40, 56, 72, 96, 120, 144, 168, 200, 240, 280]


def test_fifteen_sizes_of_full_disks(tmp_path):
    register("algorithms", "controlled", controlled)
    assert attempt(tmp_path / "straight") == 0
    digest, model = digest_of(tmp_path / "straight/run.db"), (tmp_path / "straight/model.safetensors").read_bytes()
    full = 0
    for size in SIZES:
        disk = tmp_path / f"disk{size}"
        if not mount(disk, f"{size}k"):
            pytest.skip("disks cannot be mounted here")
        try:
            code = attempt(disk / "run")
            full += code == FULL
            assert code in (0, FULL), size
            resize(disk, "8m")
            assert attempt(disk / "run") == 0, size
            assert digest_of(disk / "run/run.db") == digest, size
            assert (disk / "run/model.safetensors").read_bytes() == model, size
        finally:
            unmount(disk)
    assert full >= 10
