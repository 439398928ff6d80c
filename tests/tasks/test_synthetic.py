"""Made-up data: only when asked for, the same every time, and learnable."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder
from fedfleet.tasks.synthetic import SAMPLES, glyphs, synthetic_data, synthetic_text
from tests.tasks.test_nets import MADE_UP

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", MADE_UP)
def test_made_up_data(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    a, b = (builder("tasks", name)(synthetic=True, samples=250)(seed).dataset for seed in (0, 1))
    assert np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y) and np.array_equal(a.owner, b.owner)
    assert len(a.x) == len(a.y) == len(a.owner) == 250
    assert a.x.dtype == (np.int64 if name.endswith(("lstm", "gpt")) else np.float32)
    assert a.y.dtype == a.owner.dtype == np.int64
    assert a.y.min() >= 0 and a.y.max() < a.classes


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 200), (50,)])
def test_made_up_data_can_be_learnt(shape):
    data = synthetic_data("any", shape, 5, owners=10)(1000)
    flat = data.x.reshape(1000, -1)
    means = np.stack([flat[:500][data.y[:500] == c].mean(0) for c in range(5)])
    guess = ((flat[500:, None] - means) ** 2).sum(2).argmin(1)
    assert (guess == data.y[500:]).mean() > 0.9
    styles = np.stack([(flat - means[data.y])[data.owner == o].mean(0) for o in range(10)])
    assert styles.std(0).mean() > 0.2  # owners differ
    assert np.bincount(data.y).tolist() == [200] * 5


def test_made_up_text_can_be_learnt():
    data = synthetic_text("any", 20, 30)(2000)
    assert data.x.shape == (2000, 20) and data.x.dtype == np.int64
    follows = np.zeros((30, 30), int)
    np.add.at(follows, (data.x[:, :-1].ravel(), data.x[:, 1:].ravel()), 1)
    assert (follows.argmax(1)[data.x[:, -1]] == data.y).mean() > 0.5


def test_made_up_data_is_kept_within_memory():
    assert len(synthetic_data("a", (3, 84, 84), 2)(None).y) == 2**24 // (3 * 84 * 84)
    assert len(synthetic_data("a", (4,), 2)(None).y) == SAMPLES


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
