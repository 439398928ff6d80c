"""The judgement of the built-in base, over again: two draws cell by cell, and fresh ones against the bands. Some minutes."""

import numpy as np
import pytest

from benchmarks import builtin_bands, builtin_likeness
from fedfleet.world.bases import builtin
from tests.real import needs_data

FRESH = range(3000, 3010)


@pytest.fixture(scope="module")
def goal():
    return builtin_likeness.real_goal()


@needs_data
def test_what_was_found_is_found_again(goal):
    own, rows = builtin.load_parameters(), builtin_bands.found_before()
    first = builtin_bands.compared(goal, builtin_bands.DRAWS.start, builtin_bands.DRAWS.start)
    shipped = builtin_bands.compared(goal, own["devices"]["seed"], own["states"]["seed"])
    for row, one, two in zip(rows, first, shipped, strict=True):
        got = one.what, one.real, one.ours, two.ours
        assert got[0] == row["what"]
        assert got[1:] == pytest.approx((row["real"], row["first"], row["shipped"]), rel=1e-4), row["what"]


@needs_data
def test_nine_of_ten_fresh_figures_lie_in_the_bands(goal):
    rows = builtin_bands.found_before()
    drawn = [builtin_bands.compared(goal, seed, seed) for seed in FRESH]
    inside = [[row["low"] <= one.ours <= row["high"] for row, one in zip(rows, draw, strict=True)] for draw in drawn]
    assert 0.83 < np.mean(inside) < 0.96
