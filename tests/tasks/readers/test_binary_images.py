"""IDX files, plain and gzipped; what is damaged is named."""

import gzip

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder
from fedfleet.tasks.data_files import read
from fedfleet.tasks.photos import cifar_cnn
from fedfleet.tasks.readers.binary_images import MEAN, SPREAD, read_idx
from fedfleet.tasks.small_images import FASHION, fashion_cnn, mlp
from tests.tasks.files import idx, written

RNG = np.random.default_rng(1)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def put_idx(folder, ending, pack=lambda b: b):
    parts = {"train": 6, "t10k": 3}
    images = {p: RNG.integers(256, size=(n, 28, 28)) for p, n in parts.items()}
    labels = {p: RNG.integers(10, size=n) for p, n in parts.items()}
    for p in parts:
        written(folder / f"{p}-images-idx3-ubyte{ending}", pack(idx(images[p])))
        written(folder / f"{p}-labels-idx1-ubyte{ending}", pack(idx(labels[p])))
    return np.concatenate(list(images.values())), np.concatenate(list(labels.values()))


@pytest.mark.parametrize("name", ["mnist_mlp", "mlp", "logreg"])
def test_mnist_is_read_plain(data, name):
    x, y = put_idx(data / "mnist", "")
    result = builder("tasks", name)()(0).dataset
    assert np.allclose(result.x[:, 0] * 255, x, atol=1e-3) and np.array_equal(result.y, y)
    assert result.x.dtype == np.float32 and result.y.dtype == np.int64


def test_fashion_is_read_gzipped_and_limited(data):
    x, y = put_idx(data / "fashion-mnist", ".gz", gzip.compress)
    assert np.array_equal(fashion_cnn()(0).dataset.y, y)
    few = fashion_cnn(samples=4)(0).dataset
    assert len(few.y) == 4 and len(few.x) == 4
    assert len(mlp()(0).dataset.y) == len(x)  # no MNIST here, so clothes


def test_damaged_idx_files_are_named(data):
    put_idx(data / "fashion-mnist", "")
    labels = data / "fashion-mnist" / "t10k-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    with pytest.raises(BadInput, match=r"Fashion-MNIST cannot be read from .*2 bytes instead of 3"):
        read(FASHION, data / "fashion-mnist" / "train-images-idx3-ubyte")
    with pytest.raises(ValueError, match="not an IDX file"):
        read_idx(written(data / "other", b"hello"))


def test_cifar_in_its_binary_version(data):
    records = {}
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        records[name] = RNG.integers(256, size=(4, 3073)).astype(np.uint8)
        records[name][:, 0] %= 10
        written(data / "cifar10" / f"{name}.bin", records[name].tobytes())
    result = cifar_cnn()(0).dataset
    every = np.concatenate(list(records.values()))
    assert np.array_equal(result.y, every[:, 0])
    blue = (every[5, 1 + 2048 : 3073].reshape(32, 32) / 255 - MEAN[2]) / SPREAD[2]
    assert np.allclose(result.x[5, 2], blue, atol=1e-5)
    records["test_batch"][0, 0] = 10
    written(data / "cifar10" / "test_batch.bin", records["test_batch"].tobytes())
    with pytest.raises(BadInput, match="ten classes"):
        cifar_cnn()(0)
