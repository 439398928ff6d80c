"""How each operator of ONNX is written as operations of a description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedfleet.core.trees import Array
from fedfleet.tasks.description.onnx_import import Fixed, Importer, Node, Untrainable, Value

Reader = Callable[[Importer, Node], Value | list[Value]]


def _only(node: Node, **expected: Any) -> None:
    """Refuse attributes that say something else than a description can."""
    for name, value in expected.items():
        if node.attributes.get(name, value) != value:
            raise Untrainable(f"with {name} = {node.attributes[name]!r}")


def _input(node: Node, place: int) -> Value:
    value = node.inputs[place] if place < len(node.inputs) else None
    if value is None:
        raise Untrainable("without an input that it needs")
    return value


def _integers(importer: Importer, node: Node, place: int, attribute: str) -> list[int] | None:
    """A setting that is an input in newer files and an attribute in older ones."""
    if place < len(node.inputs) and node.inputs[place] is not None:
        fixed = importer.fixed(node.inputs[place])
        assert fixed is not None
        return [int(v) for v in fixed.same.reshape(-1)]
    found = node.attributes.get(attribute)
    return None if found is None else [int(v) for v in found]


def _number(importer: Importer, value: Value | None) -> float | None:
    """A number that no training changes; None if it is none."""
    if isinstance(value, str) and importer.leaves[value].size == 1:
        return float(importer.leaves[value].reshape(-1)[0])
    if isinstance(value, Fixed) and value.values[0].size == 1:
        return float(value.same.reshape(-1)[0])
    return None


# ---- layers -------------------------------------------------------------------------------------------------------


def _product(importer: Importer, x: Value, weight: Value) -> Value:
    """A product of matrices; that with a weight is a linear layer."""
    if not isinstance(weight, int) and importer.rank(weight) == 2:
        return importer.add("linear", x, importer.add("permute", weight, axes=[1, 0]))
    return importer.add("matmul", x, weight)


def _gemm(importer: Importer, node: Node) -> Value:
    _only(node, alpha=1.0, beta=1.0, transA=0)
    x, weight, bias = _input(node, 0), _input(node, 1), node.inputs[2:3]
    if not node.attributes.get("transB", 0):
        weight = importer.add("permute", weight, axes=[1, 0])
    plain = bool(bias) and bias[0] is not None and importer.rank(bias[0]) == 1
    y = importer.add("linear", x, weight, *(bias if plain else ()))  # type: ignore[arg-type]
    return y if plain or not bias or bias[0] is None else importer.add("add", y, bias[0], left=None, right=None)


def _windows(node: Node, *, dimensions: int) -> tuple[list[int], list[int], list[int]]:
    """Stride, padding and dilation of a window."""
    if node.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise Untrainable("with auto_pad")
    pads = list(node.attributes.get("pads", [0] * (2 * dimensions)))
    if pads[:dimensions] != pads[dimensions:]:
        raise Untrainable("with other padding before than after")
    stride = list(node.attributes.get("strides", [1] * dimensions))
    return stride, pads[:dimensions], list(node.attributes.get("dilations", [1] * dimensions))


def _convolution(importer: Importer, node: Node) -> Value:
    dimensions = importer.rank(_input(node, 0)) - 2
    if dimensions not in (1, 2):
        raise Untrainable(f"in {dimensions} dimensions")
    stride, padding, dilation = _windows(node, dimensions=dimensions)
    inputs = [v for v in node.inputs if v is not None]
    groups = node.attributes.get("group", 1)
    return importer.add("convolution", *inputs, stride=stride, padding=padding, dilation=dilation, groups=groups)


def _pool(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        _only(node, ceil_mode=0, storage_order=0)
        size = list(node.attributes["kernel_shape"])
        stride, padding, dilation = _windows(node, dimensions=len(size))
        if any(d != 1 for d in dilation) or len(size) not in (1, 2):
            raise Untrainable("with dilation or in three dimensions")
        if name == "average_pool" and any(padding):
            _only(node, count_include_pad=1)
            if "count_include_pad" not in node.attributes:
                raise Untrainable("with count_include_pad = 0")
        return importer.add(name, _input(node, 0), size=size, stride=stride, padding=padding)

    return read


def _global_average(importer: Importer, node: Node) -> Value:
    x = _input(node, 0)
    return importer.add("mean", x, axes=list(range(2, importer.rank(x))), keep=True)


def _batch_norm(importer: Importer, node: Node) -> Value:
    _only(node, training_mode=0)
    x, weight, bias, mean, variance = (_input(node, i) for i in range(5))
    if not isinstance(mean, str) or not isinstance(variance, str):
        raise Untrainable("with statistics that are no tensors of the file")
    importer.statistics |= {mean, variance}
    settings = {"epsilon": float(node.attributes.get("epsilon", 1e-5)), "momentum": 1 - float(node.attributes.get("momentum", 0.9))}
    return importer.add("batch_norm", x, mean, variance, weight, bias, **settings, weighted=True, biased=True, counter=None)


def _layer_norm(importer: Importer, node: Node) -> Value:
    x, rank = _input(node, 0), importer.rank(_input(node, 0))
    inputs = [v for v in node.inputs if v is not None]
    axes = rank - node.attributes.get("axis", -1) % rank
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return importer.add("layer_norm", x, *inputs[1:], axes=axes, epsilon=epsilon, weighted=True, biased=len(inputs) == 3)


def _group_norm(importer: Importer, node: Node) -> Value:
    x, weight, bias = (_input(node, i) for i in range(3))
    alone = node.operator == "InstanceNormalization"
    channels = importer.shapes(x)[0][1]
    if importer.shapes(weight)[0] != (channels,):
        raise Untrainable("with a weight for each group; write it with opset 21")
    groups = channels if alone else int(node.attributes["num_groups"])
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return importer.add("group_norm", x, weight, bias, groups=groups, epsilon=epsilon, weighted=True, biased=True)


def _recurrence(name: str, gates: Sequence[int]) -> Reader:
    """One layer, whose gates are brought into PyTorch's order."""

    def read(importer: Importer, node: Node) -> Value:
        if node.attributes.get("direction", b"forward") != b"forward":
            raise Untrainable("in another direction than forward")
        lengths, states = node.inputs[4:5], node.inputs[5:]
        if (
            any(v is not None for v in lengths)
            or not all(v is None or _is_zero(v) for v in states)
            or "activations" in node.attributes
            or "clip" in node.attributes
        ):
            raise Untrainable("with first states, lengths of sequences, peepholes, activations or clip")
        _only(node, layout=0, input_forget=0)
        if name == "gru" and node.attributes.get("linear_before_reset", 0) != 1:
            raise Untrainable("with linear_before_reset = 0")
        hidden = node.attributes["hidden_size"]

        def reordered(value: Value, start: int) -> Value:
            pieces = [importer.add("slice", value, index=[0, [start + g * hidden, start + (g + 1) * hidden, None]]) for g in gates]
            return importer.add("concatenate", *pieces, axis=0)

        weights = [reordered(_input(node, 1), 0), reordered(_input(node, 2), 0)]
        bias = node.inputs[3] if len(node.inputs) > 3 else None
        if bias is not None:
            weights += [reordered(bias, 0), reordered(bias, len(gates) * hidden)]
        x = importer.add("permute", _input(node, 0), axes=[1, 0, 2])
        y = importer.add(name, x, *weights, layers=1, biased=bias is not None)
        # Back to [places, directions, batch, hidden].
        return importer.add("slice", importer.add("permute", y, axes=[1, 0, 2]), index=[[None, None, None], "new"])

    return read


def _is_zero(value: Value) -> bool:
    return isinstance(value, Fixed) and not any(v.any() for v in value.values)


# ---- arithmetic and functions -------------------------------------------------------------------------------------


def _arithmetic(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        left, right = _input(node, 0), _input(node, 1)
        numbers = [_number(importer, v) if isinstance(v, Fixed) else None for v in (left, right)]
        inputs = [v for v, n in zip((left, right), numbers, strict=True) if n is None]
        return importer.add(name, *inputs, left=numbers[0], right=numbers[1])

    return read


def _power(importer: Importer, node: Node) -> Value:
    exponent = _number(importer, _input(node, 1))
    if exponent is None:
        raise Untrainable("with an exponent that is computed")
    return importer.add("power", _input(node, 0), exponent=exponent)


def _function(name: str) -> Reader:
    return lambda importer, node: importer.add(name, _input(node, 0))


def _clip(importer: Importer, node: Node) -> Value:
    limits = [_number(importer, v) for v in [*node.inputs[1:], None, None][:2]]
    if any(v is not None and n is None for v, n in zip(node.inputs[1:], limits, strict=False)):
        raise Untrainable("with limits that are computed")
    return importer.add("clamp", _input(node, 0), low=limits[0], high=limits[1])


def _hard_sigmoid(importer: Importer, node: Node) -> Value:
    scaled = importer.add("multiply", _input(node, 0), left=None, right=float(node.attributes.get("alpha", 0.2)))
    moved = importer.add("add", scaled, left=None, right=float(node.attributes.get("beta", 0.5)))
    return importer.add("clamp", moved, low=0.0, high=1.0)


def _softmax(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        x = _input(node, 0)
        rank = importer.rank(x)
        axis = node.attributes.get("axis", -1 if node.version >= 13 else 1) % rank
        if node.version < 13 and axis != rank - 1:
            raise Untrainable("over several axes, as files of old versions have it")
        return importer.add(name, x, axis=axis)

    return read


def _dropout(importer: Importer, node: Node) -> Value:
    ratio = _number(importer, node.inputs[1]) if len(node.inputs) > 1 else float(node.attributes.get("ratio", 0.5))
    importer.dropouts += 1
    return importer.add("dropout", _input(node, 0), rate=0.5 if ratio is None else ratio, layer=importer.dropouts - 1)


def _reduction(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        x = _input(node, 0)
        rank, axes = importer.rank(x), _integers(importer, node, 1, "axes")
        chosen = sorted(a % rank for a in axes) if axes else list(range(rank))
        return importer.add(name, x, axes=chosen, keep=bool(node.attributes.get("keepdims", 1)))

    return read


# ---- shapes -------------------------------------------------------------------------------------------------------


def _to_shape(importer: Importer, x: Value, small: Sequence[int], large: Sequence[int]) -> Value:
    shape = Fixed((np.array(small), np.array(large))).merged()
    return importer.add("reshape", x, shape=shape)


def _reshape(importer: Importer, node: Node) -> Value:
    _only(node, allowzero=0)
    x, wanted = _input(node, 0), importer.fixed(_input(node, 1))
    assert wanted is not None
    found: list[list[int]] = []
    for before, after in zip(importer.shapes(x), wanted.values, strict=True):
        shape = [before[i] if n == 0 else int(n) for i, n in enumerate(after.reshape(-1))]
        if -1 in shape:
            shape[shape.index(-1)] = int(np.prod(before)) // -int(np.prod(shape))
        found.append(shape)
    return _to_shape(importer, x, *found)


def _flatten(importer: Importer, node: Node) -> Value:
    x, axis = _input(node, 0), node.attributes.get("axis", 1)
    return _to_shape(importer, x, *([int(np.prod(s[:axis])), int(np.prod(s[axis:]))] for s in importer.shapes(x)))


def _squeeze(importer: Importer, node: Node) -> Value:
    x, axes, rank = _input(node, 0), _integers(importer, node, 1, "axes"), importer.rank(_input(node, 0))
    if axes is None:
        raise Untrainable("without axes")
    gone = {a % rank for a in axes}
    return _to_shape(importer, x, *([n for i, n in enumerate(s) if i not in gone] for s in importer.shapes(x)))


def _unsqueeze(importer: Importer, node: Node) -> Value:
    x, axes = _input(node, 0), _integers(importer, node, 1, "axes") or []
    rank = importer.rank(x) + len(axes)
    new = {a % rank for a in axes}
    shapes = [list(s) for s in importer.shapes(x)]
    return _to_shape(importer, x, *([1 if i in new else s.pop(0) for i in range(rank)] for s in shapes))


def _transpose(importer: Importer, node: Node) -> Value:
    x = _input(node, 0)
    axes = list(node.attributes.get("perm", reversed(range(importer.rank(x)))))
    return importer.add("permute", x, axes=axes)


def _concatenate(importer: Importer, node: Node) -> Value:
    inputs = [v for v in node.inputs if v is not None]
    return importer.add("concatenate", *inputs, axis=node.attributes["axis"] % importer.rank(inputs[0]))


def _expand(importer: Importer, node: Node) -> Value:
    x, wanted = _input(node, 0), importer.fixed(_input(node, 1))
    assert wanted is not None
    shapes = [np.broadcast_shapes(s, tuple(int(n) for n in w)) for s, w in zip(importer.shapes(x), wanted.values, strict=True)]
    return importer.add("broadcast", x, shape=Fixed((np.array(shapes[0]), np.array(shapes[1]))).merged())


def _slice(importer: Importer, node: Node) -> Value:
    x, rank = _input(node, 0), importer.rank(_input(node, 0))
    starts, stops = _integers(importer, node, 1, "starts") or [], _integers(importer, node, 2, "ends") or []
    axes = _integers(importer, node, 3, "axes") or list(range(len(starts)))
    steps = _integers(importer, node, 4, "steps") or [1] * len(starts)
    index: list[Any] = [[None, None, None] for _ in range(rank)]
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        if step < 1:
            raise Untrainable("backwards")
        index[axis % rank] = [start or None, None if stop > 1 << 31 else stop, step if step != 1 else None]
    return importer.add("slice", x, index=index)


def _split(importer: Importer, node: Node) -> list[Value]:
    x = _input(node, 0)
    axis = node.attributes.get("axis", 0) % importer.rank(x)
    sizes = _integers(importer, node, 1, "split")
    if sizes is None:
        whole = importer.shapes(x)[0][axis]
        each = -(-whole // node.outputs)
        sizes = [min(each, whole - i * each) for i in range(node.outputs)]
    whole_axes: list[Any] = [[None, None, None]] * axis
    stops = np.cumsum(sizes).tolist()
    return [importer.add("slice", x, index=[*whole_axes, [b - n, b, None]]) for b, n in zip(stops, sizes, strict=True)]


def _gather(importer: Importer, node: Node) -> Value:
    """Rows of a table by the samples, or pieces at fixed places."""
    data, places = _input(node, 0), _input(node, 1)
    axis = node.attributes.get("axis", 0) % importer.rank(data)
    if isinstance(places, int):
        if axis or importer.rank(data) != 2 or isinstance(data, int):
            raise Untrainable("with places that are computed")
        return importer.add("embedding", places, data)
    fixed = importer.fixed(places)
    assert fixed is not None
    before: list[Any] = [[None, None, None]] * axis
    if fixed.same.ndim == 0:
        return importer.add("slice", data, index=[*before, int(fixed.same)])
    pieces = [importer.add("slice", data, index=[*before, int(i)]) for i in fixed.same.reshape(-1)]
    if fixed.same.ndim != 1 or len(pieces) > 1024:
        raise Untrainable("with places in several axes")
    return importer.add("stack", *pieces, axis=axis)


def _cast(importer: Importer, node: Node) -> Value:
    x = _input(node, 0)
    if isinstance(x, int) and not importer.operations and node.attributes["to"] == 7:
        return x  # integer samples
    if node.attributes["to"] != 1:
        raise Untrainable("to another type")
    return x


OPERATORS: dict[str, Reader] = {
    "Gemm": _gemm,
    "MatMul": lambda importer, node: _product(importer, _input(node, 0), _input(node, 1)),
    "Conv": _convolution,
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("average_pool"),
    "GlobalAveragePool": _global_average,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _group_norm,
    "GroupNormalization": _group_norm,
    "LSTM": _recurrence("lstm", (0, 2, 3, 1)),
    "GRU": _recurrence("gru", (1, 0, 2)),
    "Add": _arithmetic("add"),
    "Sub": _arithmetic("subtract"),
    "Mul": _arithmetic("multiply"),
    "Div": _arithmetic("divide"),
    "Neg": lambda importer, node: importer.add("multiply", _input(node, 0), left=None, right=-1.0),
    "Pow": _power,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _function("hardswish"),
    "LeakyRelu": lambda importer, node: importer.add(
        "leaky_relu", _input(node, 0), slope=float(node.attributes.get("alpha", 0.01))
    ),
    "Gelu": lambda importer, node: importer.add(
        "gelu", _input(node, 0), tanh=node.attributes.get("approximate", b"none") == b"tanh"
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
    "Identity": lambda importer, node: _input(node, 0),
}


# ---- what is fixed --------------------------------------------------------------------------------------------------

Fold = Callable[[Sequence[Any], Mapping[str, Any]], Array]


def _fold_slice(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Array:
    x, starts, stops = inputs[:3]
    del attributes
    axes = inputs[3] if len(inputs) > 3 and inputs[3] is not None else range(len(starts))
    steps = inputs[4] if len(inputs) > 4 and inputs[4] is not None else [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        index[int(axis)] = slice(int(start), int(stop), int(step))
    return x[tuple(index)]


def _fold_axes(change: Callable[[Array, tuple[int, ...]], Array]) -> Fold:
    return lambda inputs, attributes: change(
        inputs[0], tuple(int(a) for a in (inputs[1] if len(inputs) > 1 else attributes["axes"]))
    )


def _integer_division(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Array:
    del attributes
    a, b = inputs
    return a // b if a.dtype.kind == "i" and b.dtype.kind == "i" else a / b


def _constant_of_shape(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Array:
    value = attributes.get("value", np.zeros(1, np.float32))
    return np.full([int(n) for n in inputs[0]], value[0], value.dtype)


FOLDED: dict[str, Fold] = {
    "ConstantOfShape": _constant_of_shape,
    "Gather": lambda i, a: np.take(i[0], i[1], a.get("axis", 0)),
    "Concat": lambda i, a: np.concatenate([np.atleast_1d(v) for v in i], a["axis"]),
    "Unsqueeze": _fold_axes(np.expand_dims),
    "Squeeze": _fold_axes(np.squeeze),
    "Slice": _fold_slice,
    "Mul": lambda i, a: i[0] * i[1],
    "Add": lambda i, a: i[0] + i[1],
    "Sub": lambda i, a: i[0] - i[1],
    "Div": _integer_division,
    "Neg": lambda i, a: -i[0],
    "Sqrt": lambda i, a: np.sqrt(i[0]),
    "Cast": lambda i, a: i[0].astype({1: np.float32, 6: np.int64, 7: np.int64, 9: np.bool_}[a["to"]]),
    "Reshape": lambda i, a: i[0].reshape([int(n) for n in i[1]]),
    "Identity": lambda i, a: i[0],
    "Range": lambda i, a: np.arange(i[0], i[1], i[2]),
    "Equal": lambda i, a: i[0] == i[1],
    "Where": lambda i, a: np.where(i[0], i[1], i[2]),
    "Expand": lambda i, a: np.broadcast_to(i[0], np.broadcast_shapes(i[0].shape, tuple(int(n) for n in i[1]))),
    "Mod": lambda i, a: np.mod(i[0], i[1]),
    "ReduceProd": lambda i, a: np.prod(i[0]),
}
