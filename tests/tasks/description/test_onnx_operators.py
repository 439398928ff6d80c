"""Operators of arithmetic and shapes: each computes what ONNX says of it, and its forms that cannot be written are refused."""

import numpy as np
import pytest
import torch

from fedfleet.tasks.description.onnx_import import Fixed, Untrainable
from fedfleet.tasks.description.onnx_operators import OPERATORS
from tests.tasks.description.onnx_nodes import computed, importer_for, node

X = np.random.default_rng(1).normal(size=(4, 5, 6)).astype(np.float32)
LAST = (1 << 63) - 1


def softmax(x):
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


CASES = [
    (node("Sub", np.float32([2.0]), 0), lambda x: 2 - x),
    (node("Mul", 0, 0), lambda x: x * x),
    (node("Div", 0, "row"), lambda x: x / np.arange(1, 7)),
    (node("Neg", 0), lambda x: -x),
    (node("Pow", 0, np.float32(2.0)), lambda x: x**2),
    (node("Clip", 0, None, np.float32(0.5)), lambda x: np.minimum(x, 0.5)),
    (node("HardSigmoid", 0), lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    (node("LeakyRelu", 0, alpha=0.3), lambda x: np.where(x < 0, 0.3 * x, x)),
    (node("Softmax", 0), softmax),
    (node("LogSoftmax", 0, axis=2, version=11), lambda x: np.log(softmax(x))),
    (node("ReduceMean", 0, axes=[-1]), lambda x: x.mean(-1, keepdims=True)),
    (node("ReduceSum", 0, np.array([1, 2]), keepdims=0), lambda x: x.sum((1, 2))),
    (node("Reshape", 0, np.array([0, -1])), lambda x: x.reshape(4, 30)),
    (node("Reshape", 0, np.array([-1, 3, 2])), lambda x: x.reshape(20, 3, 2)),
    (node("Flatten", 0), lambda x: x.reshape(4, 30)),
    (node("Unsqueeze", 0, np.array([1, -1])), lambda x: x[:, None, :, :, None]),
    (node("Transpose", 0, perm=[0, 2, 1]), lambda x: x.transpose(0, 2, 1)),
    (node("Concat", 0, 0, axis=-1), lambda x: np.concatenate([x, x], -1)),
    (node("Expand", 0, np.array([2, 1, 1, 1])), lambda x: np.broadcast_to(x, (2, 4, 5, 6))),
    (node("Slice", 0, np.array([-2]), np.array([LAST]), np.array([-1])), lambda x: x[..., -2:]),
    (node("Slice", 0, np.array([1, 0]), np.array([4, -1]), np.array([1, 2]), np.array([2, 3])), lambda x: x[:, 1:4:2, :-1:3]),
    (node("Gather", 0, np.array(3), axis=1), lambda x: x[:, 3]),
    (node("Gather", 0, np.array([4, 0, -1]), axis=1), lambda x: x[:, [4, 0, -1]]),
    (node("Cast", 0, to=1), lambda x: x),
    (node("Identity", 0), lambda x: x),
]


@pytest.mark.parametrize(("given", "expected"), CASES, ids=lambda v: getattr(v, "operator", ""))
def test_it_computes_what_onnx_says(given, expected):
    importer = importer_for(5, 6, row=np.arange(1, 7, dtype=np.float32))
    output = OPERATORS[given.operator](importer, given)
    if output == 0:
        output = importer.add("multiply", 0, left=None, right=1.0)
    np.testing.assert_allclose(computed(importer, output, X), expected(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "sizes"), [(node("Split", 0, outputs=2, axis=1), (3, 2)), (node("Split", 0, np.array([1, 5]), axis=-1), (1, 5))]
)
def test_pieces_put_together_are_the_whole(given, sizes):
    importer = importer_for(5, 6)
    axis = given.attributes["axis"] % 3
    outputs = OPERATORS["Split"](importer, given)
    assert tuple(importer.shapes(o)[0][axis] for o in outputs) == sizes
    whole = importer.add("concatenate", *outputs, axis=axis)
    np.testing.assert_array_equal(computed(importer, whole, X), X)


def test_rows_of_a_table_are_read_by_samples():
    importer = importer_for(6, kind=torch.int64, table=np.ones((9, 2), np.float32))
    OPERATORS["Gather"](importer, node("Gather", "table", 0))
    assert [(o.name, o.inputs) for o in importer.operations] == [("embedding", (0, "table"))]


def test_layers_of_dropout_have_numbers():
    importer = importer_for(6)
    for given in (node("Dropout", 0), node("Dropout", 1, np.float32(0.25)), node("Dropout", 2, ratio=0.75, version=11)):
        OPERATORS["Dropout"](importer, given)
    settings = [o.settings for o in importer.operations]
    assert settings == [{"rate": rate, "layer": layer} for layer, rate in enumerate((0.5, 0.25, 0.75))]


def test_a_shape_grows_with_the_batch():
    importer = importer_for(5, 6)
    OPERATORS["Reshape"](importer, node("Reshape", 0, Fixed((np.array([4, 15]), np.array([6, 15])))))
    assert importer.operations[-1].settings["shape"] == [-2, 15]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (node("Pow", 0, 0), "with an exponent that is computed"),
        (node("Clip", 0, 0), "with limits that are computed"),
        (node("Softmax", 0, version=11), "over several axes"),
        (node("Squeeze", 0), "without axes"),
        (node("Slice", 0, np.array([3]), np.array([0]), np.array([1]), np.array([-1])), "backwards"),
        (node("Gather", 0, 0, axis=1), "with places that are computed"),
        (node("Gather", 0, np.zeros((2, 2), int), axis=1), "with places in several axes"),
        (node("Cast", 0, to=7), "to another type"),
        (node("Reshape", 0, np.array([0, -1]), allowzero=1), "with allowzero = 1"),
        (node("Relu"), "without an input that it needs"),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_a_form_that_cannot_be_written_is_named(given, says):
    importer = importer_for(5, 6)
    importer.add("relu", 0)
    with pytest.raises(Untrainable, match=says):
        OPERATORS[given.operator](importer, given)


def test_every_name_is_an_operator_of_onnx():
    onnx = pytest.importorskip("onnx")
    assert [name for name in OPERATORS if not onnx.defs.has(name)] == []
