"""Integers of few bits: levels, scales, packing, rounding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedfleet.core.registry import builder
from fedfleet.core.trees import tree_nbytes
from fedfleet.learn.codecs.messages import encode, encode_bytes, nbytes, round_trip
from fedfleet.learn.codecs.quantisation import _pack_bits, _unpack_bits, bf16, channels, fp16, int2, int4, int8
from tests.learn.codecs.codecs import femnist_like, travelled

pytestmark = pytest.mark.slow

BITS = range(2, 9)


@pytest.mark.parametrize("bits", BITS)
@given(st.data())
def test_integers_survive_lying_side_by_side(bits, data):
    most = 2 ** (bits - 1) - 1
    levels = data.draw(hnp.arrays(np.int8, st.integers(0, 40), elements=st.integers(-most, most)))
    packed = _pack_bits(levels, bits)
    assert packed.nbytes == -(-len(levels) * bits // 8)
    assert _unpack_bits({"|codes": packed}, {"|codes": levels}, bits)["|codes"].tolist() == levels.tolist()


@pytest.mark.parametrize("bits", BITS)
def test_bytes_of_the_femnist_model_are_bits_over_32_within_3_percent(bits):
    like = femnist_like()
    made = builder("codecs", f"int{bits}")()
    really = len(encode_bytes(made, like))
    assert abs(really / (tree_nbytes(like) * bits / 32) - 1) < 0.03


def test_each_channel_has_a_scale_of_its_own():
    rows = np.outer([1.0, 1000.0], np.linspace(-1, 1, 64)).astype(np.float32)
    off = np.abs(travelled(int8(), {"w": rows})["w"] - rows).max(1)
    assert off[0] <= 1 / 254 + 1e-6 < 1 < off[1] <= 1000 / 254 + 1e-3
    assert [channels(s) for s in ((2, 64), (64,), (200, 3), (5,), (), (0, 4), (4, 16), (4, 15))] == [
        2,
        1,
        1,
        0,
        0,
        0,
        4,
        1,
    ]


def test_few_numbers_travel_as_they_are():
    tree = {"few": np.array([0.1, 1e-9], np.float32), "scalar": np.float32(0.3).reshape(())}
    assert travelled(int2(), tree)["few"].tobytes() == tree["few"].tobytes()
    assert list(encode(int2(), tree)) == ["few", "scalar"]


def test_levels_are_their_own_answer():
    """What lies on a level stays there: encoding twice loses nothing more."""
    scale = np.float32(0.25)
    tree = {"w": (np.arange(-127, 128) * scale).astype(np.float32)}
    assert travelled(int8(), tree)["w"].tobytes() == (tree["w"] + np.float32(0)).tobytes()


def test_stochastic_rounding_is_right_on_average_and_addressed():
    made = int2(rounding="stochastic")
    value = np.full((1, 64), 0.3, np.float32)
    value[0, 0] = 1.0
    stack = {"w": torch.from_numpy(np.repeat(value, 4000, 0))}
    result = round_trip(made, stack, np.arange(4000))["w"].numpy()[:, 1:]
    assert set(np.unique(result)) == {0.0, 1.0}
    assert abs(result.mean() - 0.3) < 3 * 0.46 / np.sqrt(result.size)
    per_place = result.mean(0)
    assert np.abs(per_place - 0.3).max() < 5 * 0.46 / np.sqrt(4000)
    one, again, other = (travelled(made, {"w": value}, a)["w"] for a in (5, 5, 6))
    assert one.tobytes() == again.tobytes() != other.tobytes()


def test_unlike_leaves_draw_unlike_numbers():
    value = np.full(200, 0.5, np.float32)
    value[0] = 1.0
    back = travelled(int2(rounding="stochastic"), {"a": value, "b": value}, 1)
    assert back["a"].tobytes() != back["b"].tobytes()


def test_a_channel_that_is_not_finite_arrives_as_nothing_that_is():
    tree = {"w": np.ones((2, 20), np.float32)}
    for bad in (np.nan, np.inf, -np.inf):
        tree["w"][1, 7] = bad
        with np.errstate(all="ignore"):
            back = travelled(int4(), tree)["w"]
        assert np.isnan(back[1]).all() and np.isfinite(back[0]).all()


def test_half_the_bytes():
    like = femnist_like()
    for made in (fp16(), bf16()):
        assert abs(nbytes(made, like) / (2 * 3_327_934) - 1) < 0.001


def test_numbers_are_rounded_as_ieee_says():
    values = np.array([1 + 2**-11, 1 + 3 * 2**-11, 65504.0, 65520.0, 2.0**-24, 2.0**-26, -0.0], np.float32)
    back = travelled(fp16(), {"w": values})["w"]
    with np.errstate(over="ignore"):
        assert back.tobytes() == values.astype(np.float16).astype(np.float32).tobytes()
    assert np.isinf(back[3]) and back[5] == 0.0


def test_brain_floats_travel_as_their_bits():
    values = np.array([1.0, 1 + 2**-8, 1e38, -1e-38, 3.0], np.float32)
    coded = encode(bf16(), {"w": values})["w"]
    assert coded.dtype == np.int16
    back = travelled(bf16(), {"w": values})["w"]
    assert back.tobytes() == torch.from_numpy(values).bfloat16().float().numpy().tobytes()
    assert np.isfinite(back).all()
