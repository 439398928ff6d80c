"""Thin factors: the best of their rank, or of their energy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.learn.codecs.low_rank import factor_columns, lowrank
from fedfleet.learn.codecs.messages import encode, encode_bytes, nbytes
from tests.learn.codecs.codecs import travelled


def matrix(rows, columns, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(6, 30), columns=st.integers(6, 30), rank=st.integers(1, 2), seed=st.integers(0, 99))
def test_what_is_lost_is_exactly_the_tail_of_the_singular_values(rows, columns, rank, seed):
    values = matrix(rows, columns, seed)
    lost = travelled(lowrank(rank=rank), {"w": values})["w"] - values
    tail = np.linalg.svd(values, compute_uv=False)[rank:]
    assert np.linalg.norm(lost) == pytest.approx(np.linalg.norm(tail), rel=1e-4)


@pytest.mark.parametrize("energy", [0.5, 0.9, 0.99])
def test_by_energy_just_enough_columns_travel(energy):
    values = matrix(60, 40) * (0.8 ** np.arange(40, dtype=np.float32))
    coded = encode(lowrank(energy=energy), {"w": values})
    squares = np.square(np.linalg.svd(values, compute_uv=False))
    needed = int((np.cumsum(squares) / squares.sum() < energy).sum()) + 1
    assert coded["w|rank"].tolist() == [needed]
    assert coded["w|left"].shape == (60, needed) and coded["w|right"].shape == (40, needed)
    lost = travelled(lowrank(energy=energy), {"w": values})["w"] - values
    assert np.square(lost).sum() <= (1 - energy) * squares.sum() * (1 + 1e-4)


def test_a_matrix_of_low_rank_arrives_whole():
    values = (matrix(50, 2) @ matrix(2, 30, 1)).astype(np.float32)
    assert np.allclose(travelled(lowrank(rank=2), {"w": values})["w"], values, atol=1e-5)
    assert encode(lowrank(energy=0.999999), {"w": values})["w|rank"].tolist() == [2]


def test_convolutions_are_matrices_of_their_leading_axis_and_what_is_small_stays():
    tree = {"conv": matrix(64, 800).reshape(64, 32, 5, 5), "bias": matrix(1, 64)[0], "square": matrix(4, 4)}
    assert set(encode(lowrank(rank=4), tree)) == {"conv|left", "conv|right", "bias", "square"}
    assert travelled(lowrank(rank=4), tree)["square"].tobytes() == tree["square"].tobytes()
    assert factor_columns((64, 32, 5, 5), 4) == 4 and factor_columns((64, 800), 1000) == 0
    assert nbytes(lowrank(rank=4), tree) == len(encode_bytes(lowrank(rank=4), tree))


@pytest.mark.parametrize("given_", [{}, {"rank": 3, "energy": 0.5}])
def test_rank_or_energy_must_be_said(given_):
    with pytest.raises(BadInput, match="codec 'lowrank' needs either rank or energy"):
        lowrank(**given_)
