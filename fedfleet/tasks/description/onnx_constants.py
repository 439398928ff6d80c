"""Nodes of ONNX that no training changes, computed when a file is read: they say shapes and settings of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedfleet.core.trees import Array

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
