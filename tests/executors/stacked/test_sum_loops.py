"""Compiled sums have the integers of core.exact, and see what is not finite."""

import numpy as np
import pytest
import torch

from fedfleet.core import exact
from fedfleet.executors.stacked import sum_loops
from fedfleet.executors.stacked.sum_loops import COMPILE_MIN_ELEMENTS, add_exactly, peaks_and_squares

loops = sum_loops._compile_loops()
pytestmark = pytest.mark.skipif(loops is None, reason="numba is missing")
ELEMENTS = 10_001


def updates(clients=3):
    return torch.randn(clients, ELEMENTS, generator=torch.Generator().manual_seed(0))


def test_the_integers_are_those_of_the_exact_sum():
    x, weights = updates(), (3.0, 1 / 3, 17.0)
    scales = {"w": exact.scale_for(2.0**10, 2.0**24)}
    acc = exact.zero({"w": x[0].numpy()}, scales)
    for update, weight in zip(x, weights, strict=True):
        exact.add(acc, {"w": update.numpy()}, weight, scales)
    total = torch.zeros(ELEMENTS, dtype=torch.int64)
    add_exactly(loops, total, x, torch.from_numpy(np.ldexp(weights, scales["w"].power)))
    assert np.array_equal(total.numpy(), acc.sums["w"])


def test_what_was_refused_adds_nothing_whatever_it_holds():
    x = updates()
    x[1] = torch.nan
    total, other = torch.zeros(2, ELEMENTS, dtype=torch.int64)
    add_exactly(loops, total, x, torch.tensor([2.0**28, 0.0, 2.0**28], dtype=torch.float64))
    add_exactly(loops, other, x[[0, 2]], torch.full((2,), 2.0**28, dtype=torch.float64))
    assert torch.equal(total, other)


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_peaks_show_what_is_not_finite_and_whose_it_is(odd):
    x = updates()
    x[1, 77] = odd
    peaks, squares = peaks_and_squares(loops, x)
    assert not peaks[1].isfinite()
    for c in (0, 2):
        assert peaks[c] == x[c].abs().max()
        assert squares[c] == pytest.approx(float(x[c].double().square().sum()), rel=1e-12)


def test_a_sum_of_another_size_is_refused():
    with pytest.raises(ValueError, match="their sum has 5"):
        add_exactly(loops, torch.zeros(5, dtype=torch.int64), updates(), torch.ones(3, dtype=torch.float64))


def test_loops_are_for_large_leaves_in_single_precision():
    large = torch.zeros(2, COMPILE_MIN_ELEMENTS)
    assert sum_loops.sum_loops(large) is loops
    assert sum_loops.sum_loops(large[:, 1:]) is None
    assert sum_loops.sum_loops(large.double()) is None
    assert sum_loops.sum_loops(large.expand(2, -1).transpose(0, 1)) is None
