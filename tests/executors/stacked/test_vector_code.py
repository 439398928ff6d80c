"""Vectors in compiled loops: exponentials to the last bits, masks that are obeyed, and numbers that are none."""

import numpy as np
import pytest

from fedfleet.executors.stacked import products

if products._kernel() is None:
    pytest.skip("this processor has no vectors of 512 bits, or numba is missing", allow_module_level=True)

from numba import njit, types
from numba.extending import intrinsic

from fedfleet.executors.stacked.vector_code import LANES, VectorCode


def compiled(name):
    """16 numbers through one of the functions, as many of them as are there."""

    @intrinsic
    def apply(typingctx, source, target, columns):
        def build(context, builder, signature, args):
            code = VectorCode(builder)
            mask = code.mask(args[2])
            code.store(getattr(code, name)(code.load(args[0], mask)), args[1], mask)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), build

    @njit
    def run(x, y):
        for a in range(0, x.size, LANES):
            apply(x.ctypes.data + 4 * a, y.ctypes.data + 4 * a, x.size - a)

    def function(values):
        x, y = np.asarray(values, np.float32), np.full(len(values), 9.0, np.float32)
        run(x, y)
        return y

    return function


TRUTH = {"exp": np.exp, "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)), "tanh": np.tanh}


@pytest.mark.parametrize("name", TRUTH)
def test_functions_are_right_to_the_last_bits(name):
    x = np.linspace(-20.0, 20.0, 4001).astype(np.float32)
    wanted = TRUTH[name](x.astype(np.float64))
    allowed = 4e-7 if name == "tanh" else 4e-6 * wanted  # 2 sigmoid - 1 is as exact as sigmoid is near 1/2
    assert (np.abs(compiled(name)(x) - wanted) <= allowed).all()


@pytest.mark.parametrize(("name", "ends"), [("exp", (0.0, np.inf)), ("sigmoid", (0.0, 1.0)), ("tanh", (-1.0, 1.0))])
def test_what_is_too_large_ends_at_the_limits_and_what_is_no_number_stays_so(name, ends):
    low, high, odd = compiled(name)([-1e30, 1e30, np.nan])
    assert low == pytest.approx(ends[0], abs=1e-30)
    assert high == ends[1] or high > 1e37
    assert np.isnan(odd)
