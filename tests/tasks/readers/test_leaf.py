"""LEAF's JSON sets: FEMNIST, CelebA, Shakespeare."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.photos import celeba_cnn
from fedfleet.tasks.readers.texts import LETTERS, as_numbers
from fedfleet.tasks.small_images import femnist_cnn
from fedfleet.tasks.text import char_lstm
from tests.tasks.files import leaf, png, written


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def white(n):
    """Images with one black pixel each, white being 1."""
    return [[0.0 if k == i else 1.0 for k in range(784)] for i in range(n)]


def test_femnist_from_several_files(data):
    leaf(data / "femnist" / "train" / "all_data_0.json", {"w1": (white(3), [0, 61, 5])})
    leaf(data / "femnist" / "test" / "all_data_0.json", {"w0": (white(2), [7, 8]), "w1": (white(1), [9])})
    result = femnist_cnn()(0).dataset
    assert result.x.shape == (6, 1, 28, 28) and result.x.dtype == np.float32
    assert result.x[1, 0, 0, 1] == 1.0 and result.x[1].sum() == 1.0  # ink is 1
    assert result.y.tolist() == [0, 61, 5, 7, 8, 9] and result.owner.tolist() == [1, 1, 1, 0, 0, 1]
    assert len(femnist_cnn(samples=2)(0).dataset.y) == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{}", "no user_data"),
        ("[1", "JSONDecodeError"),
        ('{"user_data": {"a": {"x": [], "y": [1]}}}', "0 inputs and 1"),
    ],
)
def test_what_is_not_leaf_is_refused(data, content, why):
    written(data / "femnist" / "all.json", content)
    with pytest.raises(BadInput, match=f"FEMNIST cannot be read from .*{why}"):
        femnist_cnn()(0)


def test_femnist_labels_are_checked(data):
    leaf(data / "femnist" / "all.json", {"a": (white(1), [62])})
    with pytest.raises(BadInput, match="62 classes"):
        femnist_cnn()(0)


def test_celeba_by_the_names_of_pictures(data):
    leaf(
        data / "celeba" / "data" / "all_data" / "all.json",
        {"7": (["1.png", "2.png"], [0.0, 1.0]), "9": (["3.png"], [1.0])},
    )
    for i in (1, 2, 3):
        red = np.zeros((30, 20, 3), int)
        red[:, :, 0] = 80 * i
        written(data / "celeba" / "data" / "raw" / "img_align_celeba" / f"{i}.png", png(red, colour=2))
    result = celeba_cnn()(0).dataset
    assert result.x.shape == (3, 3, 84, 84)
    assert np.allclose(result.x[:, 0].mean((1, 2)) * 255, [80, 160, 240], atol=0.1) and not result.x[:, 1:].any()
    assert result.y.tolist() == [0, 1, 1] and result.owner.tolist() == [0, 0, 1]
    (data / "celeba" / "data" / "raw" / "img_align_celeba" / "3.png").unlink()
    with pytest.raises(BadInput, match=r"CelebA's picture 3\.png"):
        celeba_cnn()(0)


def test_celeba_by_pixels(data):
    leaf(data / "celeba" / "all.json", {"7": ([[51] * (84 * 84 * 3)] * 2, [0, 1])})
    assert np.allclose(celeba_cnn()(0).dataset.x, 0.2)


def test_leafs_shakespeare(data):
    leaf(data / "shakespeare" / "all.json", {"A": (["a" * 80, "b" * 80], ["b", "c"]), "B": (["c" * 80], ["d"])})
    result = char_lstm()(0).dataset
    assert result.x.dtype == np.int64 and (result.x[1] == LETTERS.index("b")).all()
    assert result.y.tolist() == as_numbers("bcd").tolist() and result.owner.tolist() == [0, 0, 1]
