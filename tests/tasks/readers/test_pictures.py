"""Pictures of any kind: resized, in the channels that are asked for, refused by name."""

import io
import sys

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.readers.pictures import decode, fit_picture, read_pictures, resize
from tests.tasks.files import written

RNG = np.random.default_rng(0)


def test_resizing_keeps_the_mean_and_averages_areas():
    image = RNG.random((2, 105, 105)).astype(np.float32)
    small = resize(image, 28)
    assert small.shape == (2, 28, 28)
    assert np.allclose(small.mean((1, 2)), image.mean((1, 2)), atol=1e-5)
    assert np.allclose(resize(image[:, :84, :84], 28)[0, 0, 0], image[0, :3, :3].mean(), atol=1e-5)
    assert np.array_equal(resize(image, 105), image)


def test_pictures_become_the_channels_that_are_asked_for():
    colour = RNG.integers(256, size=(6, 6, 3)).astype(np.uint8)
    assert fit_picture(colour, 6, 3).shape == (3, 6, 6)
    assert fit_picture(colour, 6, 1)[0, 2, 3] == pytest.approx(colour[2, 3] @ [0.299, 0.587, 0.114] / 255, abs=1e-4)
    assert np.array_equal(fit_picture(colour[:, :, :1], 6, 3)[0], fit_picture(colour[:, :, :1], 6, 3)[2])


def test_npy_pictures_and_foreign_files(tmp_path):
    file = io.BytesIO()
    np.save(file, np.full((4, 5), 51, np.uint8))
    assert decode(file.getvalue()).shape == (4, 5, 1)
    bad = io.BytesIO()
    np.save(bad, np.zeros((4, 5), np.float64))
    for data, why in ((bad.getvalue(), "uint8"), (b"hello", "use PNG")):
        path = written(tmp_path / "a.png", data)
        with pytest.raises(BadInput, match=why):
            read_pictures([path], 4, 1)


def test_jpeg_says_what_it_needs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(BadInput, match="install pillow"):
        read_pictures([written(tmp_path / "a.jpg", b"\xff\xd8\xff\xe0rest")], 4, 3)
