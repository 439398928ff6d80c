"""Layers in ONNX: their weights in PyTorch's order, and windows, directions and statistics that cannot be trained are refused."""

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.tasks.description.onnx_import import Untrainable
from fedfleet.tasks.description.onnx_layers import LAYERS
from fedfleet.tasks.description.onnx_operators import OPERATORS
from tests.tasks.description.onnx_nodes import computed, importer_for, node

WINDOW = {"kernel_shape": [2, 2]}


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_every_layer_is_an_operator():
    assert LAYERS.items() <= OPERATORS.items() and len(LAYERS) < len(OPERATORS)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [drawn(3), drawn(1, 3), None])
def test_a_product_with_a_bias_is_a_linear_layer_whatever_its_order(transposed, bias):
    x, weight = drawn(5, 4), drawn(3, 4)
    tensors = {"w": weight if transposed else weight.T, **({} if bias is None else {"b": bias})}
    importer = importer_for(4, **tensors)
    output = LAYERS["Gemm"](importer, node("Gemm", 0, *tensors, transB=transposed))
    np.testing.assert_allclose(computed(importer, output, x), x @ weight.T + (0 if bias is None else bias), atol=1e-6)
    assert "linear" in [o.name for o in importer.operations]


def test_a_product_with_a_matrix_of_weights_is_a_linear_layer_and_one_of_values_is_none():
    importer = importer_for(2, 3, w=drawn(3, 5))
    output = LAYERS["MatMul"](importer, node("MatMul", 0, "w"))
    x = drawn(4, 2, 3)
    np.testing.assert_allclose(computed(importer, output, x), x @ drawn(3, 5), atol=1e-6)
    assert [o.name for o in importer.operations] == ["permute", "linear"]
    squares = importer_for(3, 3)
    LAYERS["MatMul"](squares, node("MatMul", 0, 0))
    assert [o.name for o in squares.operations] == ["matmul"]


# Where the gates of PyTorch (input, forget, cell, output; reset, update, new) stand in ONNX.
GATES = {"LSTM": (nn.LSTM, (0, 3, 1, 2), {}), "GRU": (nn.GRU, (1, 0, 2), {"linear_before_reset": 1})}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("operator", GATES)
def test_gates_are_brought_into_the_order_of_pytorch(operator, bias):
    torch.manual_seed(1)
    make, order, attributes = GATES[operator]
    layer, x = make(3, 4, bias=bias), drawn(5, 6, 3)

    def reorder_gates(*names):
        gates = [np.split(getattr(layer, n).detach().numpy(), len(order)) for n in names]
        return np.concatenate([each[g] for each in gates for g in order])[None]

    tensors = {"w": reorder_gates("weight_ih_l0"), "r": reorder_gates("weight_hh_l0")}
    if bias:
        tensors["b"] = reorder_gates("bias_ih_l0", "bias_hh_l0")
    importer = importer_for(6, 3, **tensors)
    by_place = importer.add("permute", 0, axes=[1, 0, 2])
    given = node(operator, by_place, *tensors, hidden_size=4, **attributes)
    output = LAYERS[operator](importer, given)
    with torch.no_grad():
        expected = layer(torch.from_numpy(x).transpose(0, 1))[0].numpy()
    np.testing.assert_allclose(computed(importer, output, x)[:, 0], expected, atol=1e-6)


def test_statistics_of_batch_normalisation_do_not_learn():
    tensors = {"w": drawn(2), "b": drawn(2) + 1, "m": drawn(2) + 2, "v": np.array([2.0, 3.0], np.float32)}
    importer, x = importer_for(2, **tensors), drawn(4, 2)
    output = LAYERS["BatchNormalization"](importer, node("BatchNormalization", 0, *tensors, epsilon=0.5, momentum=0.75))
    assert importer.statistics == {"m", "v"} and importer.operations[-1].settings["momentum"] == 0.25
    w, b, m, v = tensors.values()
    np.testing.assert_allclose(computed(importer, output, x), (x - m) / np.sqrt(v + 0.5) * w + b, rtol=1e-5, atol=1e-6)


def test_normalisation_of_groups_and_of_each_channel():
    x, w, b = drawn(3, 4, 5), drawn(4), drawn(4) + 1
    for given, groups in (
        (node("GroupNormalization", 0, "w", "b", num_groups=2), 2),
        (node("InstanceNormalization", 0, "w", "b"), 4),
    ):
        importer = importer_for(4, 5, w=w, b=b)
        output = LAYERS[given.operator](importer, given)
        expected = torch.nn.functional.group_norm(*map(torch.from_numpy, (x,)), groups, *map(torch.from_numpy, (w, b))).numpy()
        np.testing.assert_allclose(computed(importer, output, x), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "shape", "says"),
    [
        (node("Conv", 0, "w", pads=[1, 1, 0, 0]), (1, 4, 4), "with other padding before than after"),
        (node("Conv", 0, "w", auto_pad=b"SAME_UPPER"), (1, 4, 4), "with auto_pad"),
        (node("Conv", 0, "w"), (1, 4, 4, 4), "in 3 dimensions"),
        (node("MaxPool", 0, **WINDOW, ceil_mode=1), (1, 4, 4), "with ceil_mode = 1"),
        (node("MaxPool", 0, **WINDOW, dilations=[2, 1]), (1, 4, 4), "with dilation or in three dimensions"),
        (node("AveragePool", 0, **WINDOW, pads=[1, 1, 1, 1]), (1, 4, 4), "with count_include_pad = 0"),
        (node("Gemm", 0, "w", transA=1), (2,), "with transA = 1"),
        (node("GroupNormalization", 0, "w", "w", num_groups=2), (4, 5), "with a weight for each group"),
        (node("BatchNormalization", 0, "w", "w", np.ones(2), np.ones(2)), (2,), "with statistics that are no tensors of the file"),
        (node("LSTM", 0, "w", "w", hidden_size=2, direction=b"reverse"), (3, 2), "in another direction than forward"),
        (node("LSTM", 0, "w", "w", None, None, 0, hidden_size=2), (3, 2), "with first states"),
        (node("GRU", 0, "w", "w", hidden_size=2), (3, 2), "with linear_before_reset = 0"),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_what_a_description_does_not_have_is_named(given, shape, says):
    with pytest.raises(Untrainable, match=says):
        LAYERS[given.operator](importer_for(*shape, w=np.ones((2, 2), np.float32)), given)
