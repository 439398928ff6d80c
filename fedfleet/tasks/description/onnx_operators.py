"""How each operator of ONNX is written as operations of a description: arithmetic and shapes here, layers in `onnx_layers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfleet.tasks.description.onnx_import import Fixed, Importer, Node, Untrainable, Value
from fedfleet.tasks.description.onnx_inputs import Reader, check_attributes, fixed_integers, fixed_number, needed_input
from fedfleet.tasks.description.onnx_layers import LAYERS

# ---- arithmetic and functions ---------------------------------------------------------------------------------------


def _arithmetic(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        left, right = needed_input(node, 0), needed_input(node, 1)
        numbers = [fixed_number(importer, v) if isinstance(v, Fixed) else None for v in (left, right)]
        inputs = [v for v, n in zip((left, right), numbers, strict=True) if n is None]
        return importer.add(name, *inputs, left=numbers[0], right=numbers[1])

    return read


def _power(importer: Importer, node: Node) -> Value:
    exponent = fixed_number(importer, needed_input(node, 1))
    if exponent is None:
        raise Untrainable("with an exponent that is computed")
    return importer.add("power", needed_input(node, 0), exponent=exponent)


def _function(name: str) -> Reader:
    return lambda importer, node: importer.add(name, needed_input(node, 0))


def _clip(importer: Importer, node: Node) -> Value:
    limits = [fixed_number(importer, v) for v in [*node.inputs[1:], None, None][:2]]
    if any(v is not None and n is None for v, n in zip(node.inputs[1:], limits, strict=False)):
        raise Untrainable("with limits that are computed")
    return importer.add("clamp", needed_input(node, 0), low=limits[0], high=limits[1])


def _hard_sigmoid(importer: Importer, node: Node) -> Value:
    scaled = importer.add("multiply", needed_input(node, 0), left=None, right=float(node.attributes.get("alpha", 0.2)))
    moved = importer.add("add", scaled, left=None, right=float(node.attributes.get("beta", 0.5)))
    return importer.add("clamp", moved, low=0.0, high=1.0)


def _softmax(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        x = needed_input(node, 0)
        rank = importer.rank(x)
        axis = node.attributes.get("axis", -1 if node.version >= 13 else 1) % rank
        if node.version < 13 and axis != rank - 1:
            raise Untrainable("over several axes, as files of old versions have it")
        return importer.add(name, x, axis=axis)

    return read


def _dropout(importer: Importer, node: Node) -> Value:
    ratio = fixed_number(importer, node.inputs[1]) if len(node.inputs) > 1 else float(node.attributes.get("ratio", 0.5))
    importer.dropouts += 1
    return importer.add("dropout", needed_input(node, 0), rate=0.5 if ratio is None else ratio, layer=importer.dropouts - 1)


def _reduction(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        x = needed_input(node, 0)
        rank, axes = importer.rank(x), fixed_integers(importer, node, 1, "axes")
        chosen = sorted(a % rank for a in axes) if axes else list(range(rank))
        return importer.add(name, x, axes=chosen, keep=bool(node.attributes.get("keepdims", 1)))

    return read


# ---- shapes ---------------------------------------------------------------------------------------------------------


def _to_shape(importer: Importer, x: Value, small: Sequence[int], large: Sequence[int]) -> Value:
    shape = Fixed((np.array(small), np.array(large))).joint_shape()
    return importer.add("reshape", x, shape=shape)


def _reshape(importer: Importer, node: Node) -> Value:
    check_attributes(node, allowzero=0)
    x, wanted = needed_input(node, 0), importer.fixed_value(needed_input(node, 1))
    assert wanted is not None
    found: list[list[int]] = []
    for before, after in zip(importer.shapes(x), wanted.values, strict=True):
        shape = [before[i] if n == 0 else int(n) for i, n in enumerate(after.reshape(-1))]
        if -1 in shape:
            shape[shape.index(-1)] = int(np.prod(before)) // -int(np.prod(shape))
        found.append(shape)
    return _to_shape(importer, x, *found)


def _flatten(importer: Importer, node: Node) -> Value:
    x, axis = needed_input(node, 0), node.attributes.get("axis", 1)
    return _to_shape(importer, x, *([int(np.prod(s[:axis])), int(np.prod(s[axis:]))] for s in importer.shapes(x)))


def _squeeze(importer: Importer, node: Node) -> Value:
    x, axes, rank = needed_input(node, 0), fixed_integers(importer, node, 1, "axes"), importer.rank(needed_input(node, 0))
    if axes is None:
        raise Untrainable("without axes")
    gone = {a % rank for a in axes}
    return _to_shape(importer, x, *([n for i, n in enumerate(s) if i not in gone] for s in importer.shapes(x)))


def _unsqueeze(importer: Importer, node: Node) -> Value:
    x, axes = needed_input(node, 0), fixed_integers(importer, node, 1, "axes") or []
    rank = importer.rank(x) + len(axes)
    new = {a % rank for a in axes}
    shapes = [list(s) for s in importer.shapes(x)]
    return _to_shape(importer, x, *([1 if i in new else s.pop(0) for i in range(rank)] for s in shapes))


def _transpose(importer: Importer, node: Node) -> Value:
    x = needed_input(node, 0)
    axes = list(node.attributes.get("perm", reversed(range(importer.rank(x)))))
    return importer.add("permute", x, axes=axes)


def _concatenate(importer: Importer, node: Node) -> Value:
    inputs = [v for v in node.inputs if v is not None]
    return importer.add("concatenate", *inputs, axis=node.attributes["axis"] % importer.rank(inputs[0]))


def _expand(importer: Importer, node: Node) -> Value:
    x, wanted = needed_input(node, 0), importer.fixed_value(needed_input(node, 1))
    assert wanted is not None
    shapes = [np.broadcast_shapes(s, tuple(int(n) for n in w)) for s, w in zip(importer.shapes(x), wanted.values, strict=True)]
    return importer.add("broadcast", x, shape=Fixed((np.array(shapes[0]), np.array(shapes[1]))).joint_shape())


def _slice(importer: Importer, node: Node) -> Value:
    x, rank = needed_input(node, 0), importer.rank(needed_input(node, 0))
    starts, stops = fixed_integers(importer, node, 1, "starts") or [], fixed_integers(importer, node, 2, "ends") or []
    axes = fixed_integers(importer, node, 3, "axes") or list(range(len(starts)))
    steps = fixed_integers(importer, node, 4, "steps") or [1] * len(starts)
    index: list[Any] = [[None, None, None] for _ in range(rank)]
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        if step < 1:
            raise Untrainable("backwards")
        index[axis % rank] = [start or None, None if stop > 1 << 31 else stop, step if step != 1 else None]
    return importer.add("slice", x, index=index)


def _split(importer: Importer, node: Node) -> list[Value]:
    x = needed_input(node, 0)
    axis = node.attributes.get("axis", 0) % importer.rank(x)
    sizes = fixed_integers(importer, node, 1, "split")
    if sizes is None:
        whole = importer.shapes(x)[0][axis]
        each = -(-whole // node.outputs)
        sizes = [min(each, whole - i * each) for i in range(node.outputs)]
    whole_axes: list[Any] = [[None, None, None]] * axis
    stops = np.cumsum(sizes).tolist()
    return [importer.add("slice", x, index=[*whole_axes, [b - n, b, None]]) for b, n in zip(stops, sizes, strict=True)]


def _gather(importer: Importer, node: Node) -> Value:
    """Rows of a table by the samples, or pieces at fixed places."""
    data, places = needed_input(node, 0), needed_input(node, 1)
    axis = node.attributes.get("axis", 0) % importer.rank(data)
    if isinstance(places, int):
        if axis or importer.rank(data) != 2 or isinstance(data, int):
            raise Untrainable("with places that are computed")
        return importer.add("embedding", places, data)
    fixed = importer.fixed_value(places)
    assert fixed is not None
    before: list[Any] = [[None, None, None]] * axis
    if fixed.same.ndim == 0:
        return importer.add("slice", data, index=[*before, int(fixed.same)])
    pieces = [importer.add("slice", data, index=[*before, int(i)]) for i in fixed.same.reshape(-1)]
    if fixed.same.ndim != 1 or len(pieces) > 1024:
        raise Untrainable("with places in several axes")
    return importer.add("stack", *pieces, axis=axis)


def _cast(importer: Importer, node: Node) -> Value:
    x = needed_input(node, 0)
    if isinstance(x, int) and not importer.operations and node.attributes["to"] == 7:
        return x  # integer samples
    if node.attributes["to"] != 1:
        raise Untrainable("to another type")
    return x


OPERATORS: dict[str, Reader] = {
    **LAYERS,
    "Add": _arithmetic("add"),
    "Sub": _arithmetic("subtract"),
    "Mul": _arithmetic("multiply"),
    "Div": _arithmetic("divide"),
    "Neg": lambda importer, node: importer.add("multiply", needed_input(node, 0), left=None, right=-1.0),
    "Pow": _power,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _function("hardswish"),
    "LeakyRelu": lambda importer, node: importer.add(
        "leaky_relu", needed_input(node, 0), slope=float(node.attributes.get("alpha", 0.01))
    ),
    "Gelu": lambda importer, node: importer.add(
        "gelu", needed_input(node, 0), tanh=node.attributes.get("approximate", b"none") == b"tanh"
    ),
    **{o: _function(o.lower()) for o in ("Relu", "Tanh", "Sigmoid", "Exp", "Log", "Sqrt", "Erf")},
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "Dropout": _dropout,
    "ReduceMean": _reduction("mean"),
    "ReduceSum": _reduction("sum"),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concatenate,
    "Expand": _expand,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Cast": _cast,
    "Identity": lambda importer, node: needed_input(node, 0),
}
