"""CIFAR-10 in its binary version."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.photos import cifar_cnn
from fedfleet.tasks.readers.cifar import MEAN, SPREAD
from tests.tasks.files import written

RNG = np.random.default_rng(1)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


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
