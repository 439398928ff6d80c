"""Values go into MNN and come out as they were, integers as integers, and what was read is the reader's own."""

import numpy as np
import pytest

from fedfleet.executors.mnn.library import constant, gradient_graphs, mnn, placeholder, read, write

pytest.importorskip("_mnncengine")


@pytest.mark.parametrize(
    ("value", "comes_out"),
    [
        (np.arange(6.0).reshape(2, 3), np.float32),
        (np.arange(6, dtype=np.int64).reshape(3, 2), np.int32),
        (np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2], np.float32),
        (0.25, np.float32),
    ],
)
def test_a_fixed_value_comes_out_as_it_went_in(value, comes_out):
    found = read(constant(value))
    assert found.dtype == comes_out
    np.testing.assert_array_equal(found.reshape(np.shape(value)), value)


@pytest.mark.parametrize("integers", [False, True])
def test_what_was_read_does_not_change_with_the_next_value(integers):
    var = placeholder((2, 2), integers=integers)
    doubled = var + var
    first, second = np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])
    write(var, first)
    kept = read(doubled)
    write(var, second)
    np.testing.assert_array_equal(read(doubled).reshape(2, 2), 2 * second)
    np.testing.assert_array_equal(kept.reshape(2, 2), 2 * first)


def test_functions_have_gradients_and_a_cast_stops_one():
    lib, x, other = mnn(), placeholder((3,)), placeholder((3,))
    x.name, other.name = "x", "other"
    y = lib.tanh(x) + lib.cast(lib.tanh(other), lib.float)
    have, gradients = gradient_graphs().grad([y], [constant(np.ones(3))], [x, other])
    assert [v.name for v in have] == ["x"]
    value = np.array([-1.0, 0.0, 2.0])
    write(x, value)
    np.testing.assert_allclose(read(gradients[0]), 1 - np.tanh(value) ** 2, atol=1e-6)
