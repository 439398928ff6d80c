"""Partial sums stopped at every step under many seeds, and killed at forty random moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network.frontend.test_partial_sums import kill_often, stop_everywhere


@pytest.mark.parametrize("seed", range(1, 41))
def test_lost_power_loses_nothing_that_was_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    stop_everywhere(tmp_path, monkeypatch, power=True, seed=seed)


@pytest.mark.parametrize("seed", range(10, 14))
def test_ten_kills_in_a_row(tmp_path: Path, seed: int) -> None:
    kill_often(tmp_path, seed, kills=10)
