"""PNG, decoded by the specification; what cannot be read says why."""

import struct
import zlib

import numpy as np
import pytest

from fedfleet.tasks.readers.png import decode_png
from tests.tasks.files import png

RNG = np.random.default_rng(0)


ALL_FILTERS = (0, 1, 2, 3, 4)


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
@pytest.mark.parametrize("filters", [(0,), (1,), (2,), (3,), (4,), ALL_FILTERS])
def test_grey_of_every_depth_and_filter(depth, filters):
    values = RNG.integers(2**depth, size=(11, 13))
    result = decode_png(png(values, depth=depth, filters=filters))
    assert result.dtype == np.uint8
    assert np.array_equal(result[:, :, 0], values * (255 // (2**depth - 1)))


@pytest.mark.parametrize(("colour", "samples", "kept"), [(2, 3, 3), (4, 2, 1), (6, 4, 3)])
def test_colour_and_alpha(colour, samples, kept):
    values = RNG.integers(256, size=(9, 7, samples))
    assert np.array_equal(decode_png(png(values, colour=colour, filters=ALL_FILTERS)), values[:, :, :kept])


@pytest.mark.parametrize("depth", [2, 8])
def test_palette(depth):
    palette = RNG.integers(256, size=(4, 3))
    values = RNG.integers(4, size=(6, 5))
    assert np.array_equal(decode_png(png(values, depth=depth, colour=3, palette=palette)), palette[values])


GREY = png(RNG.integers(256, size=(8, 8)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GIF89a", "begin like a PNG"),
        (GREY[:40], "checksum|ends before"),
        (GREY[:50] + b"\x00" + GREY[51:], "checksum"),
        (png(np.zeros((4, 4), int), interlaced=1), "interlaced"),
        (png(np.zeros((4, 4), int), depth=8, colour=3, palette=np.zeros((0, 3))), "palette"),
    ],
)
def test_what_cannot_be_read_says_why(data, why):
    with pytest.raises(ValueError, match=why):
        decode_png(data)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ((2**16, 2**16, 8, 0, 0, 0, 0), "65536 x 65536"),
        ((0, 4, 8, 0, 0, 0, 0), "0 x 4"),
        ((4, 4, 16, 0, 0, 0, 0), "16 bits"),
        ((4, 4, 8, 5, 0, 0, 0), "colour type 5"),
    ],
)
def test_headers_that_promise_what_is_not_read(header, why):
    body = b"IHDR" + struct.pack(">IIBBBBB", *header)
    first = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.raises(ValueError, match=why):
        decode_png(GREY[:8] + first + GREY[33:])


def test_too_few_pixels_are_noticed():
    short, tall = png(np.zeros((4, 4), int)), png(np.zeros((5, 4), int))
    with pytest.raises(ValueError, match="instead of"):
        decode_png(tall[:33] + short[33:])
