"""Our PNG decoder against an encoder that follows the specification byte by byte."""

import io
import struct
import sys
import zlib

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.readers.pictures import decode, fit, read_pictures, resized
from fedfleet.tasks.readers.png import decode_png
from tests.tasks.files import png, written

RNG = np.random.default_rng(0)
ALL_FILTERS = (0, 1, 2, 3, 4)


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
@pytest.mark.parametrize("filters", [(0,), (1,), (2,), (3,), (4,), ALL_FILTERS])
def test_grey_of_every_depth_and_filter(depth, filters):
    values = RNG.integers(2**depth, size=(11, 13))
    found = decode_png(png(values, depth=depth, filters=filters))
    assert found.dtype == np.uint8
    assert np.array_equal(found[:, :, 0], values * (255 // (2**depth - 1)))


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


def test_resizing_keeps_the_mean_and_averages_areas():
    image = RNG.random((2, 105, 105)).astype(np.float32)
    small = resized(image, 28)
    assert small.shape == (2, 28, 28)
    assert np.allclose(small.mean((1, 2)), image.mean((1, 2)), atol=1e-5)
    assert np.allclose(resized(image[:, :84, :84], 28)[0, 0, 0], image[0, :3, :3].mean(), atol=1e-5)
    assert np.array_equal(resized(image, 105), image)


def test_pictures_become_the_channels_that_are_asked_for():
    colour = RNG.integers(256, size=(6, 6, 3)).astype(np.uint8)
    assert fit(colour, 6, 3).shape == (3, 6, 6)
    assert fit(colour, 6, 1)[0, 2, 3] == pytest.approx(colour[2, 3] @ [0.299, 0.587, 0.114] / 255, abs=1e-4)
    assert np.array_equal(fit(colour[:, :, :1], 6, 3)[0], fit(colour[:, :, :1], 6, 3)[2])


def test_npy_pictures_and_foreign_files(tmp_path):
    file = io.BytesIO()
    np.save(file, np.full((4, 5), 51, np.uint8))
    assert decode(file.getvalue()).shape == (4, 5, 1)
    bad = io.BytesIO()
    np.save(bad, np.zeros((4, 5), np.float64))
    for data, why in ((bad.getvalue(), "uint8"), (b"hello", "neither PNG")):
        path = written(tmp_path / "a.png", data)
        with pytest.raises(BadInput, match=why):
            read_pictures([path], 4, 1)


def test_jpeg_says_what_it_needs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInput, match="install pillow"):
        read_pictures([written(tmp_path / "a.jpg", b"\xff\xd8\xff\xe0rest")], 4, 3)
