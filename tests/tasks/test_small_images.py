"""Tasks on small images: which set comes first, and models that fit it."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.tasks import small_images
from fedfleet.tasks.small_images import chars74k_cnn, fashion_mlp, logreg, mlp, mnist_mlp, omniglot_cnn
from tests.tasks.files import idx, written


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    for source in ("MNIST", "FASHION"):  # packages of this machine do not count here
        monkeypatch.setattr(small_images, source, replace(getattr(small_images, source), elsewhere=()))
    return tmp_path


def put(folder, level):
    for part, n in (("train", 4), ("t10k", 2)):
        written(folder / f"{part}-images-idx3-ubyte", idx(np.full((n, 28, 28), level)))
        written(folder / f"{part}-labels-idx1-ubyte", idx(np.arange(n) % 10))


def test_mnist_goes_before_fashion(data):
    put(data / "fashion-mnist", 51)
    assert mlp()(0).dataset.x.max() == pytest.approx(0.2)
    put(data / "mnist", 102)
    assert mlp()(0).dataset.x.max() == logreg()(0).dataset.x.max() == pytest.approx(0.4)
    assert mnist_mlp()(0).dataset.x.max() == pytest.approx(0.4)
    assert fashion_mlp()(0).dataset.x.max() == pytest.approx(0.2)


def test_chars74k_has_owners_and_62_classes(data):
    (data / "chars74k").mkdir()
    np.savez(
        data / "chars74k" / "chars74k_28.npz",
        x=np.full((3, 28, 28), 255, np.uint8), y=np.array([0, 61, 5], np.uint8), user=np.array(["b", "a", "b"]),
    )  # fmt: skip
    result = chars74k_cnn()(0).dataset
    assert result.x.shape == (3, 1, 28, 28) and result.x.max() == 1.0
    assert (result.y.tolist(), result.owner.tolist(), result.classes) == ([0, 61, 5], [1, 0, 1], 62)


def test_the_model_fits_the_data_and_the_width_that_is_asked_for():
    assert mlp(hidden=7, synthetic=True, samples=20)(0).init(0)["1.weight"].shape == (7, 784)
    assert omniglot_cnn(hidden=9, synthetic=True, samples=20)(0).init(0)["head.weight"].shape == (242, 9)
