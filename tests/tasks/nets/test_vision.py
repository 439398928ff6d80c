"""Convolutional networks have the shapes of the papers they come from."""

import numpy as np

from fedfleet.tasks.dropout import AddressedDropout
from fedfleet.tasks.nets.vision import CifarCnn, TwoConvNet


def test_the_femnist_model_is_convnet2():
    shapes = {n: tuple(p.shape) for n, p in TwoConvNet((1, 28, 28), 1024, 62).named_parameters()}
    assert shapes["conv1.weight"] == (32, 1, 5, 5) and shapes["conv2.weight"] == (64, 32, 5, 5)
    assert shapes["hidden.weight"] == (1024, 7 * 7 * 64) and shapes["head.weight"] == (62, 1024)


def test_the_cifar_model_starts_as_pfls():
    module = CifarCnn((3, 32, 32), 10)
    assert module.hidden.weight.shape == (128, 14 * 14 * 64)
    bound = np.sqrt(6 / (14 * 14 * 64 + 128))
    assert bound * 0.99 < module.hidden.weight.abs().max() <= bound
    assert [(d.p, d.layer) for d in module.modules() if isinstance(d, AddressedDropout)] == [(0.25, 0), (0.5, 1)]
