"""Tasks on photographs: sides and heads that do not divide are refused before anything is read."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.photos import (
    PATCHES_ACROSS,
    celeba_cnn,
    check_side,
    covid_cnn,
    covidfl_vit,
    openimage_vit,
    pneumonia_cnn,
    transformer,
    vit_tiny,
)


def test_pictures_are_cut_into_eight_patches_across():
    check_side(24)
    with pytest.raises(BadInput, match=r"task\.side = 12 cannot be cut into 8 patches"):
        openimage_vit(side=12)
    tokens = transformer((3, 48, 48), 5, width=6, depth=1, heads=2).positions.table.shape[0]
    assert tokens == PATCHES_ACROSS**2 + 1, "whatever the side, and one class token"


def test_heads_must_share_the_width_evenly():
    recipe = vit_tiny(width=10, heads=3, depth=1, synthetic=True, samples=10)
    with pytest.raises(BadInput, match=r"task\.width = 10 cannot be shared among 3 heads"):
        recipe(0).init(0)


def test_celebrities_smile_or_do_not():
    task = celeba_cnn(hidden=3, synthetic=True, samples=12)(0)
    assert task.dataset.x.shape == (12, 3, 84, 84) and task.dataset.classes == 2
    assert task.init(0)["head.weight"].shape == (2, 3)


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
