"""Codecs are values: what they were built with tells them apart, not the functions that were made for it."""

import numpy as np

from fedfleet.core.codec import LEVELS, is_coded, no_error
from fedfleet.learn.codecs.quantisation import int4, int8


def test_equal_settings_are_equal_codecs_whatever_their_functions():
    assert int8() == int8() and hash(int8()) == hash(int8())
    assert int8().squeeze is not int8().squeeze
    assert len({int8(), int8(), int4(), int8(rounding="stochastic")}) == 3


def test_only_single_precision_is_coded():
    assert is_coded(np.zeros(1, np.float32))
    assert not any(is_coded(np.zeros(1, kind)) for kind in (np.float64, np.float16, np.int64, np.bool_))


def test_a_codec_that_loses_nothing_promises_so():
    assert {n: v.tolist() for n, v in no_error({"a": np.ones((1, 2)), "b": np.array(3)}).items()} == {
        "a": [[0.0, 0.0]],
        "b": 0.0,
    }
    assert LEVELS == ("select", "round", "compress")
