"""Garbage is looked for seldom while a server runs, and as before when it has ended."""

from __future__ import annotations

import gc

import pytest

from fedfleet.network.frontend.garbage_collector import infrequent_gc


def test_garbage_is_looked_for_seldom_and_afterwards_as_before() -> None:
    before = gc.get_threshold()

    def served() -> None:
        with infrequent_gc():
            assert gc.get_threshold() == (50_000, 20, 50) and gc.get_freeze_count() > 0
            raise RuntimeError("the server failed")

    with pytest.raises(RuntimeError):
        served()
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0
