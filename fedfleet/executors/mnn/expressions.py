"""The operations of a description as expressions of MNN, made only of functions that MNN can differentiate.

An operation is a function (inputs, settings, graph) -> expression. All shapes are known: a graph is of one size of batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.executors.mnn.library import Var, constant, mnn, placeholder
from fedfleet.executors.numpy.operations import sizes


@dataclass(slots=True)
class Graph:
    """What a graph has beside its values: placeholders of the units that dropout keeps, and statistics that training gives."""

    batch: int
    training: bool
    names: tuple[int | str, ...] = ()
    # (settings, placeholder) of each dropout
    dropouts: list[tuple[Mapping[str, Any], Var]] = field(default_factory=list[tuple[Mapping[str, Any], Var]])
    # (name of the buffer, what the batch says, the share of the new value, the factor that makes a variance unbiased)
    statistics: list[tuple[str, Var, float, float]] = field(default_factory=list[tuple[str, Var, float, float]])


Operation = Callable[[Sequence[Var], Mapping[str, Any], Graph], Var]


# ---- shapes -------------------------------------------------------------------------------------------------------


def with_shape(x: Var, shape: Sequence[int]) -> Var:
    """The same numbers in another shape."""
    return x if list(x.shape) == list(shape) else mnn().reshape(x, list(shape), mnn().NCHW)


def with_rank(x: Var, rank: int) -> Var:
    """With axes of length one before the others."""
    return with_shape(x, [1] * (rank - len(x.shape)) + list(x.shape))


def spread(x: Var, shape: Sequence[int]) -> Var:
    """Repeated along axes of length one. A product: MNN's own function has a wrong gradient where axes are added as well."""
    x = with_rank(x, len(shape))
    return x if list(x.shape) == list(shape) else x * constant(np.ones(tuple(shape), np.float32))


def _reshape(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    return with_shape(inputs[0], sizes(settings["shape"], graph.batch))


def _broadcast(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    return spread(inputs[0], sizes(settings["shape"], graph.batch))


def permute_axes(x: Var, axes: Sequence[int]) -> Var:
    """The axes in another order."""
    return mnn().transpose(x, list(axes))


def _permute(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    return permute_axes(inputs[0], settings["axes"])


def part(x: Var, axis: int, start: int, stop: int, step: int = 1) -> Var:
    """From start to stop along one axis."""
    starts, stops, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    if (start, stop, step) == (0, stops[axis], 1):
        return x
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return mnn().strided_slice(x, *(constant(np.array(v, np.int64)) for v in (starts, stops, steps)), 0, 0, 0, 0, 0)


def pieces(x: Var, count: int, axis: int) -> list[Var]:
    """Equal pieces along an axis. Their gradients are put together at once, and not each in an array of the whole size."""
    return [x] if count == 1 else list(mnn().split(x, [x.shape[axis] // count] * count, axis))


def _slice(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    (x,), index = inputs, list(settings["index"])
    taken = sum(i not in ("new", "others") for i in index)
    if "others" not in index:
        index.append("others")
    place = index.index("others")
    index[place : place + 1] = [[None, None, None]] * (len(x.shape) - taken)
    axis, shape = 0, list[int]()
    for entry in index:
        if entry == "new":
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(entry, int):
            x = part(x, axis, entry % size, entry % size + 1)
        else:
            start, stop, step = slice(*entry).indices(size)
            x = part(x, axis, start, stop, step)
            shape.append(len(range(start, stop, step)))
        axis += 1
    return with_shape(x, shape)


def _concatenate(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    return mnn().concat(list(inputs), settings["axis"])


def _stack(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    axis = settings["axis"]
    shape = [*inputs[0].shape[:axis], 1, *inputs[0].shape[axis:]]
    return mnn().concat([with_shape(x, shape) for x in inputs], axis)


def total(x: Var, axes: Sequence[int]) -> Var:
    """The sum along axes, which stay with length one."""
    return mnn().reduce_sum(x, list(axes), True)


def mean(x: Var, axes: Sequence[int]) -> Var:
    """The mean along axes, which stay with length one."""
    return total(x, axes) * constant(1 / math.prod(x.shape[a] for a in axes))


def _reduction(reduce: Callable[[Var, Sequence[int]], Var]) -> Operation:
    def operation(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
        del graph
        (x,), axes = inputs, settings["axes"]
        y = reduce(x, axes)
        return y if settings["keep"] else with_shape(y, [n for i, n in enumerate(x.shape) if i not in axes])

    return operation


# ---- arithmetic ---------------------------------------------------------------------------------------------------


def _arithmetic(name: str) -> Operation:
    def operation(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
        del graph
        if len(inputs) == 1:
            (x,), number = inputs, settings["left"] if settings["left"] is not None else settings["right"]
            fixed = constant(np.full([1] * len(x.shape), number, np.float32))
            left, right = (fixed, x) if settings["left"] is not None else (x, fixed)
        else:
            rank = max(len(v.shape) for v in inputs)
            left, right = (with_rank(v, rank) for v in inputs)
        return getattr(mnn(), name)(left, right)

    return operation


def _power(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    (x,), exponent = inputs, settings["exponent"]
    if exponent == int(exponent) and 1 <= exponent <= 8:
        # MNN's gradient of a power is that of positive numbers.
        y = x
        for _ in range(int(exponent) - 1):
            y = y * x
        return y
    named = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}.get(exponent)
    return getattr(mnn(), named)(x) if named else mnn().pow(x, constant(exponent))


def _function(name: str) -> Operation:
    return lambda inputs, settings, graph: getattr(mnn(), name)(inputs[0])


def clip(x: Var, low: float, high: float) -> Var:
    """x between two limits."""
    return mnn().relu6(x, low, high)


def _clamp(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    low, high = settings["low"], settings["high"]
    return clip(inputs[0], -3e38 if low is None else low, 3e38 if high is None else high)


def _leaky_relu(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    return mnn().relu(inputs[0], settings["slope"])


def _gelu(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    (x,), lib = inputs, mnn()
    if settings["tanh"]:
        inner = lib.tanh((x + x * x * x * constant(0.044715)) * constant(math.sqrt(2 / math.pi)))
    else:
        inner = lib.erf(x * constant(math.sqrt(0.5)))
    return x * (inner + constant(1.0)) * constant(0.5)


def _gate(x: Var) -> Var:
    return clip(x + constant(3.0), 0.0, 6.0) * constant(1 / 6)


# ---- softmax ------------------------------------------------------------------------------------------------------


def log_shares(x: Var, axis: int) -> Var:
    """The logarithm of shares that add up to one; the largest is taken off through a cast, which stops its gradient."""
    lib = mnn()
    low = x - lib.cast(lib.reduce_max(x, [axis], True), lib.float)
    return low - lib.log(total(lib.exp(low), [axis]))


def _softmax(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    return mnn().softmax(inputs[0], settings["axis"])


def _log_softmax(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    return log_shares(inputs[0], settings["axis"])


def _dropout(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    """The units that are kept are written before each step."""
    if not graph.training:
        return inputs[0]
    kept = placeholder(tuple(inputs[0].shape))
    graph.dropouts.append((settings, kept))
    return inputs[0] * kept


OPERATIONS: dict[str, Operation] = {
    **{name: _arithmetic(name) for name in ("add", "subtract", "multiply", "divide")},
    **{name: _function(name) for name in ("relu", "tanh", "sigmoid", "exp", "log", "sqrt", "erf")},
    "power": _power,
    "silu": lambda inputs, settings, graph: inputs[0] * mnn().sigmoid(inputs[0]),
    "hardsigmoid": lambda inputs, settings, graph: _gate(inputs[0]),
    "hardswish": lambda inputs, settings, graph: inputs[0] * _gate(inputs[0]),
    "clamp": _clamp,
    "leaky_relu": _leaky_relu,
    "gelu": _gelu,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "mean": _reduction(mean),
    "sum": _reduction(total),
    "reshape": _reshape,
    "broadcast": _broadcast,
    "permute": _permute,
    "slice": _slice,
    "concatenate": _concatenate,
    "stack": _stack,
    "dropout": _dropout,
}
