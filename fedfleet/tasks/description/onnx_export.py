"""A described model and its weights as an ONNX file, which other programs compute: for phones, browsers and servers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.trees import Array, Tree
from fedfleet.tasks.description.format import ModelDescription, check_leaves
from fedfleet.tasks.description.module import shapes_of

OPSET = 17
TRAINED = "fedfleet.trained"  # the key of the file's metadata that names the leaves that learn
_BATCH = 2  # ranks and widths are read from shapes at this size of batch
_LSTM_GATES, _GRU_GATES = (0, 3, 1, 2), (1, 0, 2)  # PyTorch's order as ONNX has it

Writer = Callable[["_Graph", Sequence[str], Mapping[str, Any], Sequence[tuple[int, ...]]], str]


def require_onnx() -> Any:
    """The package onnx; `BadInput` where it is missing."""
    try:
        import onnx
    except ImportError:
        raise BadInput("ONNX files need the package onnx, which is not installed; pip install 'fedfleet[onnx]'") from None
    return onnx


def to_onnx(description: ModelDescription, leaves: Tree, notes: Mapping[str, str] | None = None) -> bytes:
    """The bytes of an ONNX file that computes what the description computes in evaluation; the first axis is the batch.

    `notes` become metadata of the file.
    """
    onnx = require_onnx()
    check_leaves(description, leaves)
    graph, shapes = _Graph(), shapes_of(description, leaves, _BATCH)
    names: list[str] = ["input"]
    of_leaves = {n: shape for n, (shape, _) in description.leaves.items()} | {n: v.shape for n, v in description.constants.items()}
    constants = {n: graph.constant(v) for n, v in description.constants.items()}
    used = {i for o in description.operations for i in o.inputs if isinstance(i, str)}
    for operation in description.operations:
        taken = [names[i] if isinstance(i, int) else constants.get(i, i) for i in operation.inputs]
        inputs = [shapes[i] if isinstance(i, int) else of_leaves[i] for i in operation.inputs]
        graph.result = shapes[len(names)]
        names.append(WRITERS[operation.name](graph, taken, operation.settings, inputs))
    graph.nodes.append(onnx.helper.make_node("Identity", [names[description.output]], ["output"]))
    kinds = {"<f4": onnx.TensorProto.FLOAT, "<i8": onnx.TensorProto.INT64, "<i4": onnx.TensorProto.INT32}
    if description.sample_type not in kinds:
        raise BadInput(f"samples of type {description.sample_type} have no counterpart in an ONNX file")
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "fedfleet",
            [onnx.helper.make_tensor_value_info("input", kinds[description.sample_type], ["batch", *description.sample_shape])],
            [onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, ["batch", *shapes[description.output][1:]])],
            [onnx.numpy_helper.from_array(np.ascontiguousarray(leaves[n]), n) for n in description.leaves if n in used],
        ),
        producer_name="fedfleet",
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=8,
    )
    onnx.helper.set_model_props(model, {TRAINED: json.dumps(sorted(description.trained & used)), **(notes or {})})
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


class _Graph:
    """The nodes of a file."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.result: tuple[int, ...] = ()  # the shape of what is written now
        self._count = 0
        self._size = ""

    def name(self) -> str:
        """A name that no leaf has."""
        self._count += 1
        return f"value:{self._count}"

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """One node; the name of what it gives."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """One node that gives several values."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(require_onnx().helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def constant(self, value: Array | float | Sequence[int]) -> str:
        """A constant: integers stay integers, all else is single precision."""
        onnx, array = require_onnx(), np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float32)
        return self.add("Constant", value=onnx.numpy_helper.from_array(array))

    def shape(self, shape: Sequence[int], *, exact: bool = False) -> str:
        """A shape of a description; the size of the batch is read where it cannot be left open."""
        open_axes = [n for n in shape if n < 0]
        if len(open_axes) <= 1 and not (exact and open_axes):
            return self.constant(np.array([n if n >= 0 else -1 for n in shape], np.int64))
        if not self._size:
            self._size = self.add("Gather", self.add("Shape", "input"), self.constant([0]), axis=0)
        parts = [self.add("Mul", self._size, self.constant([-n])) if n < 0 else self.constant([n]) for n in shape]
        return self.add("Concat", *parts, axis=0)


# ---- layers -------------------------------------------------------------------------------------------------------


def _linear(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    del settings
    if len(shapes[0]) == 2:
        return graph.add("Gemm", *inputs, transB=1)
    y = graph.add("MatMul", inputs[0], graph.add("Transpose", inputs[1], perm=[1, 0]))
    return graph.add("Add", y, inputs[2]) if len(inputs) == 3 else y


def _convolution(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    del shapes
    return graph.add(
        "Conv", *inputs, strides=settings["stride"], pads=settings["padding"] * 2, dilations=settings["dilation"],
        group=settings["groups"],
    )  # fmt: skip


def _pool(operator: str, **attributes: Any) -> Writer:
    return lambda graph, inputs, settings, shapes: graph.add(
        operator, *inputs, kernel_shape=settings["size"], strides=settings["stride"], pads=settings["padding"] * 2, **attributes
    )


def _recurrence(operator: str, gates: Sequence[int]) -> Writer:
    def write(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
        x, count = graph.add("Transpose", inputs[0], perm=[1, 0, 2]), 4 if settings["biased"] else 2
        hidden = shapes[2][1]

        def reorder_gates(name: str) -> str:
            pieces = graph.several("Split", len(gates), name, graph.constant([hidden] * len(gates)), axis=0)
            return graph.add("Concat", *(pieces[i] for i in gates), axis=0)

        for layer in range(settings["layers"]):
            weights = [reorder_gates(n) for n in inputs[1 + layer * count : 1 + (layer + 1) * count]]
            parts = [graph.add("Unsqueeze", w, graph.constant([0])) for w in weights[:2]]
            if settings["biased"]:
                parts.append(graph.add("Unsqueeze", graph.add("Concat", *weights[2:], axis=0), graph.constant([0])))
            more = {"linear_before_reset": 1} if operator == "GRU" else {}
            y = graph.add(operator, x, *parts, hidden_size=hidden, **more)
            x = graph.add("Squeeze", y, graph.constant([1]))
        return graph.add("Transpose", x, perm=[1, 0, 2])

    return write


def _attention(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    rank = len(shapes[1])
    turned = graph.add("Transpose", inputs[1], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = graph.add("Mul", graph.add("MatMul", inputs[0], turned), graph.constant(settings["scale"]))
    if settings["causal"]:
        seen = np.tri(shapes[0][-2], shapes[1][-2], dtype=bool)
        scores = graph.add("Add", scores, graph.constant(np.where(seen, 0.0, -1e30)))
    return graph.add("MatMul", graph.add("Softmax", scores, axis=-1), inputs[2])


# ---- normalisation ------------------------------------------------------------------------------------------------


def _affine(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], first: int, shape: Sequence[int]) -> tuple[str, str]:
    """Weight and bias, ones and zeros where there are none."""
    rest = list(inputs[first:])
    weight = rest.pop(0) if settings["weighted"] else graph.constant(np.ones(shape))
    return weight, rest.pop(0) if settings["biased"] else graph.constant(np.zeros(shape))


def _layer_norm(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    axis = len(shapes[0]) - settings["axes"]
    weight, bias = _affine(graph, inputs, settings, 1, shapes[0][axis:])
    return graph.add("LayerNormalization", inputs[0], weight, bias, axis=axis, epsilon=settings["epsilon"])


def _group_norm(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    groups, shape = settings["groups"], shapes[0]
    grouped = graph.add("Reshape", inputs[0], graph.constant([0, groups, math.prod(shape[1:]) // groups]))
    ones, zeros = graph.constant(np.ones(groups)), graph.constant(np.zeros(groups))
    normal = graph.add("InstanceNormalization", grouped, ones, zeros, epsilon=settings["epsilon"])
    y, rest = graph.add("Reshape", normal, graph.constant([-1, *shape[1:]])), list(inputs[1:])
    for operator, present in (("Mul", settings["weighted"]), ("Add", settings["biased"])):
        if present:
            wide = graph.add("Reshape", rest.pop(0), graph.constant([1, shape[1], *([1] * (len(shape) - 2))]))
            y = graph.add(operator, y, wide)
    return y


def _batch_norm(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    weight, bias = _affine(graph, inputs, settings, 3, shapes[0][1:2])
    more = {"epsilon": settings["epsilon"], "momentum": 1 - settings["momentum"]}
    return graph.add("BatchNormalization", inputs[0], weight, bias, inputs[1], inputs[2], **more)


# ---- arithmetic and functions -------------------------------------------------------------------------------------


def _arithmetic(operator: str) -> Writer:
    def write(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
        del shapes
        if len(inputs) == 2:
            return graph.add(operator, *inputs)
        left = settings["left"] is not None
        number = graph.constant(float(settings["left"] if left else settings["right"]))
        return graph.add(operator, *((number, inputs[0]) if left else (inputs[0], number)))

    return write


def _function(operator: str, **attributes: Any) -> Writer:
    return lambda graph, inputs, settings, shapes: graph.add(operator, inputs[0], **attributes)


def _clamp(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    del shapes
    limits = ["" if v is None else graph.constant(float(v)) for v in (settings["low"], settings["high"])]
    return graph.add("Clip", inputs[0], *limits)


def _gelu(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    del shapes
    (x,) = inputs
    if settings["tanh"]:
        cube = graph.add("Mul", graph.add("Mul", graph.add("Mul", x, x), x), graph.constant(0.044715))
        inner = graph.add("Tanh", graph.add("Mul", graph.add("Add", x, cube), graph.constant(math.sqrt(2 / math.pi))))
    else:
        inner = graph.add("Erf", graph.add("Mul", x, graph.constant(math.sqrt(0.5))))
    return graph.add("Mul", graph.add("Mul", x, graph.add("Add", inner, graph.constant(1.0))), graph.constant(0.5))


# ---- shapes -------------------------------------------------------------------------------------------------------


def _slice(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    index, shape = list(settings["index"]), shapes[0]
    taken = sum(i not in ("new", "others") for i in index)
    place = index.index("others") if "others" in index else len(index)
    index[place : place + 1] = [[None, None, None]] * (len(shape) - taken)
    axis, starts, stops, axes, steps = 0, list[int](), list[int](), list[int](), list[int]()
    gone, new, kept = list[int](), list[int](), 0
    for entry in index:
        if entry == "new":
            new.append(kept)
            kept += 1
            continue
        if isinstance(entry, int):
            start, stop, step = entry, entry + 1 if entry != -1 else 1 << 62, 1
            gone.append(axis)
        else:
            start, stop, step = entry[0] or 0, (1 << 62) if entry[1] is None else entry[1], entry[2] or 1
            kept += 1
        if (start, stop, step) != (0, 1 << 62, 1):
            for values, value in zip((starts, stops, axes, steps), (start, stop, axis, step), strict=True):
                values.append(value)
        axis += 1
    x = inputs[0]
    x = graph.add("Slice", x, *(graph.constant(v) for v in (starts, stops, axes, steps))) if axes else x
    x = graph.add("Squeeze", x, graph.constant(gone)) if gone else x
    return graph.add("Unsqueeze", x, graph.constant(new)) if new else x


def _stack(graph: _Graph, inputs: Sequence[str], settings: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> str:
    del shapes
    axis = graph.constant([settings["axis"]])
    return graph.add("Concat", *(graph.add("Unsqueeze", x, axis) for x in inputs), axis=settings["axis"])


WRITERS: dict[str, Writer] = {
    "linear": _linear,
    "convolution": _convolution,
    "max_pool": _pool("MaxPool"),
    "average_pool": _pool("AveragePool", count_include_pad=1),
    "embedding": lambda graph, inputs, settings, shapes: graph.add("Gather", inputs[1], inputs[0], axis=0),
    "lstm": _recurrence("LSTM", _LSTM_GATES),
    "gru": _recurrence("GRU", _GRU_GATES),
    "attention": _attention,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
    "dropout": lambda graph, inputs, settings, shapes: graph.add("Dropout", inputs[0], graph.constant(settings["rate"])),
    "matmul": lambda graph, inputs, settings, shapes: graph.add("MatMul", *inputs),
    **{n: _arithmetic(o) for n, o in (("add", "Add"), ("subtract", "Sub"), ("multiply", "Mul"), ("divide", "Div"))},
    "power": lambda graph, inputs, settings, shapes: graph.add("Pow", inputs[0], graph.constant(settings["exponent"])),
    "softmax": lambda graph, inputs, settings, shapes: graph.add("Softmax", inputs[0], axis=settings["axis"]),
    "log_softmax": lambda graph, inputs, settings, shapes: graph.add("LogSoftmax", inputs[0], axis=settings["axis"]),
    "clamp": _clamp,
    "leaky_relu": lambda graph, inputs, settings, shapes: graph.add("LeakyRelu", inputs[0], alpha=settings["slope"]),
    "gelu": _gelu,
    "mean": lambda graph, inputs, settings, shapes: graph.add(
        "ReduceMean", inputs[0], axes=settings["axes"], keepdims=int(settings["keep"])
    ),
    "sum": lambda graph, inputs, settings, shapes: graph.add(
        "ReduceSum", inputs[0], graph.constant(settings["axes"]), keepdims=int(settings["keep"])
    ),
    "reshape": lambda graph, inputs, settings, shapes: graph.add("Reshape", inputs[0], graph.shape(settings["shape"])),
    "broadcast": lambda graph, inputs, settings, shapes: graph.add("Expand", inputs[0], graph.shape(settings["shape"], exact=True)),
    "permute": lambda graph, inputs, settings, shapes: graph.add("Transpose", inputs[0], perm=settings["axes"]),
    "slice": _slice,
    "concatenate": lambda graph, inputs, settings, shapes: graph.add("Concat", *inputs, axis=settings["axis"]),
    "stack": _stack,
    "silu": lambda graph, inputs, settings, shapes: graph.add("Mul", inputs[0], graph.add("Sigmoid", inputs[0])),
    "hardsigmoid": _function("HardSigmoid", alpha=1 / 6, beta=0.5),
    "hardswish": _function("HardSwish"),
    **{n: _function(n.capitalize()) for n in ("relu", "tanh", "sigmoid", "exp", "log", "sqrt", "erf")},
}
