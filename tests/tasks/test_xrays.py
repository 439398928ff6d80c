"""Tasks on X-rays, from small files in the prepared formats."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.xrays import covid_cnn, covidfl_vit, pneumonia_cnn


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    return tmp_path


def saved(path, **arrays):
    path.parent.mkdir(parents=True)
    np.savez(path, **arrays)


def test_covid_belongs_to_patients(data):
    saved(
        data / "covid_cxr" / "xray64.npz",
        x=np.full((4, 64, 64), 255, np.uint8), y=np.array([0, 1, 2, 1]), patient=np.array([12, 3, 12, 7]),
    )  # fmt: skip
    result = covid_cnn()(0).dataset
    assert result.x.shape == (4, 1, 64, 64) and result.x.max() == 1.0
    assert (result.owner.tolist(), result.classes) == ([2, 0, 2, 1], 3)


def test_pneumonia_joins_three_parts_and_knows_no_owner(data):
    parts = {"train": 3, "val": 1, "test": 2}
    images = {f"{p}_images": np.full((n, 28, 28), i, np.uint8) for i, (p, n) in enumerate(parts.items())}
    labels = {f"{p}_labels": np.full((n, 1), i % 2) for i, (p, n) in enumerate(parts.items())}
    saved(data / "pneumonia" / "pneumoniamnist.npz", **images, **labels)
    result = pneumonia_cnn()(0).dataset
    assert result.y.tolist() == [0, 0, 0, 1, 0, 0] and result.owner is None
    assert (result.x[:, 0, 0, 0] * 255).round().tolist() == [0, 0, 0, 1, 2, 2]


def test_a_file_without_its_arrays_is_named(data):
    saved(data / "covid_cxr" / "xray64.npz", x=np.zeros((1, 64, 64), np.uint8))
    with pytest.raises(BadInput, match="covid-chestxray-dataset cannot be read"):
        covid_cnn()(0)


def test_sides_that_cannot_be_cut_into_patches_are_refused_at_once():
    with pytest.raises(BadInput, match=r"task\.side = 30"):
        covidfl_vit(side=30)
