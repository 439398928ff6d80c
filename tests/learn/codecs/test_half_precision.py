"""Floats of 16 bits."""

import numpy as np
import torch

from fedfleet.learn.codecs.half_precision import bf16, fp16
from fedfleet.learn.codecs.messages import encode, nbytes
from tests.learn.codecs.codecs import femnist_like, travelled


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
