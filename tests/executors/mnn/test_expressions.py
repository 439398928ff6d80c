"""Expressions of MNN: shapes as in numpy, and right gradients where MNN's own functions have none or a wrong one."""

import numpy as np
import pytest

from fedfleet.executors.mnn.expressions import OPERATIONS, Graph, log_shares, part, permute_axes, pieces, spread, with_rank
from fedfleet.executors.mnn.library import constant, read, write
from tests.executors.mnn.gradients import value_and_gradients

pytest.importorskip("_mnncengine")


def shown(var):
    return read(var).reshape(var.shape)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(4, 3, 6)).astype(np.float32)


def test_shapes_are_those_of_numpy(x):
    var = constant(x)
    np.testing.assert_array_equal(shown(with_rank(var, 5)), x[None, None])
    np.testing.assert_array_equal(shown(part(var, 2, 1, 6, 2)), x[:, :, 1:6:2])
    np.testing.assert_array_equal(shown(permute_axes(var, [2, 0, 1])), x.transpose(2, 0, 1))
    assert part(var, 1, 0, 3) is var
    for mine, theirs in zip(pieces(var, 3, 2), np.split(x, 3, 2), strict=True):
        np.testing.assert_array_equal(shown(mine), theirs)


@pytest.mark.parametrize(
    ("index", "taken"),
    [
        ([[None, None, None], -1], lambda x: x[:, -1]),
        (["new", "others", [1, None, 2]], lambda x: x[None, ..., 1::2]),
        ([[0, 2, None], "new", 1], lambda x: x[:2, None, 1]),
    ],
)
def test_an_index_takes_what_numpy_takes(x, index, taken):
    found = OPERATIONS["slice"]([constant(x)], {"index": index}, Graph(4, training=False))
    np.testing.assert_array_equal(shown(found), taken(x))


def test_the_gradient_of_what_is_repeated_adds_up():
    x = np.array([[1.0], [2.0]], np.float32)
    direction = np.random.default_rng(2).normal(size=(5, 2, 3)).astype(np.float32)
    y, (gradient,) = value_and_gradients(lambda v: spread(v, [5, 2, 3]), direction, x)
    np.testing.assert_array_equal(y, np.broadcast_to(x, (5, 2, 3)))
    np.testing.assert_allclose(gradient, direction.sum((0, 2), keepdims=True)[0], rtol=1e-5)


@pytest.mark.parametrize("exponent", [1, 2, 3, 8])
def test_powers_of_negative_numbers_have_a_gradient(exponent):
    x = np.array([-1.5, -0.5, 0.5, 1.5], np.float32)
    power = OPERATIONS["power"]
    y, (gradient,) = value_and_gradients(lambda v: power([v], {"exponent": exponent}, Graph(4, training=True)), 1.0, x)
    np.testing.assert_allclose(y, x**exponent, rtol=1e-5)
    np.testing.assert_allclose(gradient, exponent * x ** (exponent - 1), rtol=1e-5)


def test_logarithms_of_shares_of_large_numbers_are_finite_and_so_is_their_gradient():
    x, direction = np.array([[1e4, 1e4 - 1, 0.0]], np.float32), np.array([[0.0, 1.0, 0.0]])
    y, (gradient,) = value_and_gradients(lambda v: log_shares(v, 1), direction, x)
    exact = x.astype(np.float64) - x.max() - np.log(np.exp(x.astype(np.float64) - x.max()).sum())
    np.testing.assert_allclose(y, exact, rtol=1e-5)
    np.testing.assert_allclose(gradient, direction - np.exp(exact), atol=1e-5)


@pytest.mark.parametrize(("low", "high"), [(-1.0, None), (None, 1.0), (-1.0, 1.0)])
def test_a_limit_may_be_missing_and_no_gradient_passes_one(low, high):
    x = np.array([-3.0, -0.5, 0.5, 3.0], np.float32)
    clamp = OPERATIONS["clamp"]
    y, (gradient,) = value_and_gradients(lambda v: clamp([v], {"low": low, "high": high}, Graph(4, training=True)), 1.0, x)
    expected = np.clip(x, low, high)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(gradient, (expected == x).astype(np.float32))


def test_dropout_multiplies_by_what_is_written_before_each_step_and_only_in_training():
    x, settings = constant(np.ones((2, 3))), {"rate": 0.5, "layer": 0}
    assert OPERATIONS["dropout"]([x], settings, Graph(2, training=False)) is x
    graph = Graph(2, training=True)
    y = OPERATIONS["dropout"]([x], settings, graph)
    ((named, kept),) = graph.dropouts
    assert named is settings
    for mask in (np.eye(2, 3), 2 * np.eye(2, 3)[::-1]):
        write(kept, mask)
        np.testing.assert_array_equal(shown(y), mask)
