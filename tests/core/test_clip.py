"""Clipping: no update goes farther than it may, and every kernel finds the same factor."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.clip import clip_factor, pairwise_sum, slack, squares_of
from fedfleet.core.errors import Refused
from fedfleet.core.exact import scale_for


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 2000), st.integers(0, 5))
def test_sums_have_the_same_bits_in_numpy_and_torch_and_are_right(n, seed):
    drawn = np.random.default_rng(seed).normal(size=(2, n))
    mine, theirs = pairwise_sum(drawn.copy()), pairwise_sum(torch.from_numpy(drawn.copy()))
    assert mine.tolist() == theirs.tolist()
    assert mine.tolist() == pytest.approx([math.fsum(row) for row in drawn.tolist()], abs=1e-11)
    assert pairwise_sum(drawn[0].copy()) == mine[0], "alone or in a stack"


@given(st.floats(1e-6, 1e3), st.lists(st.floats(0, 1e6), min_size=1, max_size=4))
def test_what_is_shrunk_is_no_longer_than_the_limit_and_hardly_shorter(clip, squares):
    factor = clip_factor(clip, squares, 0.0)
    norm = math.sqrt(math.fsum(squares))
    assert 0.0 < factor <= 1.0 and factor * norm <= clip
    assert factor == 1.0 or factor * norm == pytest.approx(clip, rel=1e-9)


def test_rounding_to_fixed_point_is_inside_the_limit():
    like = {"w": np.zeros(1000, np.float32)}
    scales = {"w": scale_for(2.0**10, 2.0**24)}
    room = slack(like, scales)
    assert room == pytest.approx(0.5 * math.sqrt(1000) * 2.0**-28)
    update = {"w": np.random.default_rng(0).normal(size=1000).astype(np.float32)}
    factor = clip_factor(1e-3, squares_of(update, scales), room)
    rounded = np.rint(update["w"].astype(np.float64) * math.ldexp(factor, 28)) * 2.0**-28
    assert np.linalg.norm(rounded) <= 1e-3


def test_a_limit_finer_than_rounding_is_refused_with_the_cure():
    with pytest.raises(Refused, match=r"rounding alone .* raise the limit, or lower algorithm.bound"):
        clip_factor(1e-9, [1.0], 1e-8)
