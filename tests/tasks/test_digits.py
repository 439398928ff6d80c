"""The embedded digits, and the three models on them."""

import numpy as np
import pytest

from fedfleet.tasks.digits import digits, digits_cnn, digits_logreg, digits_mlp


def test_the_digits_are_small_images_between_0_and_1():
    data = digits()
    assert data.x.shape == (1797, 1, 8, 8) and data.x.dtype == np.float32
    assert (data.x.min(), data.x.max(), data.classes) == (0.0, 1.0, 10)
    assert np.bincount(data.y).min() > 170 and data.owner is None
    assert digits() is data, "loaded once"


@pytest.mark.parametrize(
    ("recipe", "size"),
    [
        (digits_logreg(), 650),
        (digits_mlp(), 64 * 64 + 64 + 650),
        (digits_mlp(hidden=5), 64 * 5 + 5 + 60),
        (digits_cnn(channels=2), 20 + 76 + 4 * 16 * 10 + 10),
    ],
)
def test_models_have_the_sizes_that_were_asked_for(recipe, size):
    assert sum(value.size for value in recipe(0).init(0).values()) == size


def test_a_fifth_is_held_out_by_the_seed():
    task = digits_logreg()
    assert len(task(0).holdout) == round(0.2 * 1797)
    assert np.array_equal(task(0).holdout, task(0).holdout)
    assert not np.array_equal(task(0).holdout, task(1).holdout)


def test_the_digits_are_those_that_scikit_learn_gives():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    assert np.array_equal(digits().x.reshape(-1, 64), (x / 16.0).astype(np.float32)) and np.array_equal(digits().y, y)
