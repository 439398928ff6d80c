"""Where data lie: what is missing is named with its cure, limits take the same rows, damaged files are named."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder
from fedfleet.tasks import small_images
from fedfleet.tasks.data_files import data_from, limit_samples, locate, number_names, sample_rows
from fedfleet.tasks.small_images import CHARS74K, chars74k_cnn
from fedfleet.tasks.synthetic import synthetic_data
from tests.tasks.files import written
from tests.tasks.test_nets import MADE_UP


@pytest.mark.parametrize("name", MADE_UP)
def test_missing_data_is_named_with_its_cure(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    for source in ("MNIST", "FASHION"):  # packages of this machine do not count here
        monkeypatch.setattr(small_images, source, replace(getattr(small_images, source), elsewhere=("no/where",)))
    with pytest.raises(BadInput) as told:
        builder("tasks", name)()(0)
    assert str(tmp_path) in str(told.value) and "synthetic = true" in str(told.value)
    assert "\n" not in str(told.value)


def test_limits_take_the_same_rows_every_time():
    assert sample_rows(10, None).tolist() == list(range(10)) == sample_rows(10, 10).tolist()
    rows = sample_rows(1000, 50)
    assert len(np.unique(rows)) == 50 and np.array_equal(rows, sample_rows(1000, 50)) and (np.diff(rows) > 0).all()
    data = synthetic_data("any", (3,), 4)(100)
    few = limit_samples(data, 9)
    assert len(few.y) == len(few.x) == len(few.owner) == 9 and limit_samples(data, 500) is data
    assert number_names(["b", "a", "b"]).tolist() == [1, 0, 1]


def test_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    assert locate(("a/*.txt", "b.txt")) is None
    second = written(tmp_path / "b.txt", "")
    assert locate(("a/*.txt", "b.txt")) == second
    first = written(tmp_path / "a" / "1.txt", "")
    assert locate(("a/*.txt", "b.txt")) == first
    monkeypatch.delenv("FEDFLEET_DATA")
    monkeypatch.chdir(tmp_path)
    mine = written(tmp_path / "data" / "c.txt", "")
    assert locate(("c.txt",)) is not None and locate(("c.txt",)).resolve() == mine
    assert locate((), ("b.txt", str(first))) is not None


def test_damaged_sets_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    path = written(tmp_path / "chars74k" / "chars74k_28.npz", b"no zip")
    with pytest.raises(BadInput, match=f"Chars74K cannot be read from {path}"):
        chars74k_cnn()(0)
    with path.open("wb") as file:
        np.savez(file, x=np.zeros((1, 28, 28), np.uint8), y=np.zeros(1, np.uint8))
    with pytest.raises(BadInput, match="user"):
        data_from((CHARS74K,), synthetic_data("a", (1,), 2), samples=None, synthetic=False)()
