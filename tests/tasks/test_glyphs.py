"""Generated strokes: seeded, in range, of any shape, and learnable."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.glyphs import glyphs


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 16, 12), (1, 28, 28)])
def test_pictures_of_the_shape_that_is_asked_for(shape):
    result = glyphs(shape, classes=7, samples=30)
    assert result.x.shape == (30, *shape) and result.x.dtype == np.float32 and result.classes == 7
    assert result.x.min() >= 0.0 and result.x.max() <= 1.0
    assert np.bincount(result.y, minlength=7).min() >= 4


def test_the_same_every_time_and_never_the_same_twice():
    a, b = glyphs((1, 8, 8), classes=3, samples=40), glyphs((1, 8, 8), classes=3, samples=40)
    assert np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y)
    assert len({row.tobytes() for row in a.x}) == 40


def test_letters_of_one_kind_are_more_alike_than_others():
    result = glyphs((1, 12, 12), classes=6, samples=240)
    means = np.stack([result.x[result.y == k].mean(0).ravel() for k in range(6)])
    nearest = ((result.x.reshape(240, 1, -1) - means) ** 2).sum(2).argmin(1)
    assert (nearest == result.y).mean() > 0.5, "guessing would get a sixth"


def test_more_than_fits_is_refused():
    with pytest.raises(BadInput, match="generated pictures"):
        glyphs((3, 100_000, 100_000))
