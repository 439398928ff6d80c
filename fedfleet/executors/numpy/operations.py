"""Elementwise operations, softmax, reductions and changes of shape, each with its gradient.

An operation is a function (inputs, settings, needs, pass) -> (value, backward). `needs` says which inputs want a gradient, and
`backward(gradient)` gives one for each input, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.core.trees import Array

Backward = Callable[[Array], Sequence[Array | None]]
Result = tuple[Array, Backward]


@dataclass(slots=True)
class ForwardPass:
    """What a forward pass knows beside its values: is it training, which units dropout drops, and which buffers it changed."""

    batch: int
    training: bool = False
    dropout: int = 0
    buffers: dict[str, Array] = field(default_factory=dict[str, Array])
    names: tuple[int | str, ...] = ()


Operation = Callable[[Sequence[Array], Mapping[str, Any], Sequence[bool], ForwardPass], Result]


def sum_to_shape(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The gradient of an input that was broadcast: summed over what it was repeated along."""
    if gradient.shape == shape:
        return gradient
    extra = gradient.ndim - len(shape)
    axes = (*range(extra), *(extra + i for i, n in enumerate(shape) if n == 1 and gradient.shape[extra + i] != 1))
    return gradient.sum(axis=axes, keepdims=False).reshape(shape)


# ---- arithmetic ---------------------------------------------------------------------------------------------------


def _operands(inputs: Sequence[Array], settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """Both sides of an operation: arrays, or numbers of the array's own precision."""
    if len(inputs) == 2:
        return inputs[0], inputs[1]
    (x,) = inputs
    if settings["left"] is not None:
        return x.dtype.type(settings["left"]), x
    return x, x.dtype.type(settings["right"])


def _arithmetic(forward: Callable[[Any, Any], Array], gradients: Callable[[Any, Any, Array], tuple[Any, Any]]) -> Operation:
    def operation(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
        del now
        left, right = _operands(inputs, settings)

        def backward(gradient: Array) -> list[Array | None]:
            both = gradients(left, right, gradient)
            chosen = both if len(inputs) == 2 else (both[1],) if settings["left"] is not None else (both[0],)
            return [sum_to_shape(g, x.shape) if need else None for g, x, need in zip(chosen, inputs, needs, strict=True)]

        return forward(left, right), backward

    return operation


def power(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """x to a fixed exponent."""
    del needs, now
    (x,), exponent = inputs, settings["exponent"]
    return x**exponent, lambda gradient: [gradient * (exponent * x ** (exponent - 1))]


# ---- functions of one number --------------------------------------------------------------------------------------


def _elementwise(forward: Callable[[Array], Array], slope: Callable[[Array, Array], Array]) -> Operation:
    """`slope(x, y)` is the derivative, from what went in and what came out."""

    def operation(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
        del settings, needs, now
        (x,) = inputs
        y = forward(x)
        return y, lambda gradient: [gradient * slope(x, y)]

    return operation


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    return np.float32(0.5) * np.tanh(np.float32(0.5) * x) + np.float32(0.5)


def relu(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """max(x, 0)."""
    del settings, needs, now
    y = np.maximum(inputs[0], 0)
    return y, lambda gradient: [gradient * (y > 0)]


def clamp(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """x between two limits."""
    del needs, now
    (x,), low, high = inputs, settings["low"], settings["high"]
    y = np.clip(x, low, high)
    inside = (True if low is None else x >= low) & (True if high is None else x <= high)
    return y, lambda gradient: [gradient * inside]


def leaky_relu(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """x, or a share of it below 0."""
    del needs, now
    (x,) = inputs
    factor = np.where(x > 0, np.float32(1), np.float32(settings["slope"]))
    return x * factor, lambda gradient: [gradient * factor]


def gelu(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """x times the normal distribution function of x, or its approximation by tanh."""
    del needs, now
    (x,) = inputs
    if settings["tanh"]:
        scale, cubic = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)
        t = np.tanh(scale * (x + cubic * x**3))
        half = np.float32(0.5)
        y = half * x * (1 + t)
        return y, lambda gradient: [gradient * (half * (1 + t) + half * x * (1 - t * t) * scale * (1 + 3 * cubic * x * x))]
    below = np.float32(0.5) * (1 + erf(x * np.float32(math.sqrt(0.5))))
    density = np.exp(np.float32(-0.5) * x * x) * np.float32(1 / math.sqrt(2 * math.pi))
    return x * below, lambda gradient: [gradient * (below + x * density)]


# Of exp(-x^2) times a polynomial in t = 1 / (1 + p |x|): Abramowitz and Stegun 7.1.26, whose error is below 1.5e-7.
_ERF_P = 0.3275911
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def erf(x: Array) -> Array:
    """The error function, to single precision.

    >>> bool(abs(erf(np.array([0.5]))[0] - 0.5204998778) < 2e-7)
    True
    """
    size = np.abs(x)
    t = 1 / (1 + x.dtype.type(_ERF_P) * size)
    polynomial = np.zeros_like(t)
    for factor in _ERF:
        polynomial = (polynomial + x.dtype.type(factor)) * t
    return np.copysign(1 - polynomial * np.exp(-size * size), x)


# ---- softmax ------------------------------------------------------------------------------------------------------


def softmax(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Shares that add up to one along an axis."""
    del needs, now
    axis = settings["axis"]
    y = shares(inputs[0], axis)
    return y, lambda gradient: [y * (gradient - (gradient * y).sum(axis, keepdims=True))]


def log_softmax(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """The logarithms of these shares."""
    del needs, now
    axis = settings["axis"]
    y = log_shares(inputs[0], axis)
    return y, lambda gradient: [gradient - np.exp(y) * gradient.sum(axis, keepdims=True)]


def shares(x: Array, axis: int) -> Array:
    """Softmax."""
    y = np.exp(x - x.max(axis, keepdims=True))
    y /= y.sum(axis, keepdims=True)
    return y


def log_shares(x: Array, axis: int) -> Array:
    """Its logarithm."""
    y = x - x.max(axis, keepdims=True)
    y -= np.log(np.exp(y).sum(axis, keepdims=True))
    return y


# ---- reductions and changes of shape ------------------------------------------------------------------------------


def _reduction(*, mean: bool) -> Operation:
    def operation(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
        del needs, now
        (x,), axes = inputs, tuple(settings["axes"])
        y = x.mean(axes, keepdims=settings["keep"]) if mean else x.sum(axes, keepdims=settings["keep"])
        kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        factor = x.dtype.type(math.prod(kept) / max(x.size, 1)) if mean else x.dtype.type(1)
        return y, lambda gradient: [np.broadcast_to(gradient.reshape(kept) * factor, x.shape)]

    return operation


def sizes(shape: Sequence[int], batch: int) -> tuple[int, ...]:
    """A shape of a description for a batch of this size."""
    return tuple(n if n >= 0 else -n * batch for n in shape)


def reshape(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """The same numbers in another shape."""
    del needs
    (x,) = inputs
    return x.reshape(sizes(settings["shape"], now.batch)), lambda gradient: [gradient.reshape(x.shape)]


def broadcast(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Numbers repeated along axes of length one, or along new ones."""
    del needs
    (x,) = inputs
    return np.broadcast_to(x, sizes(settings["shape"], now.batch)), lambda gradient: [sum_to_shape(gradient, x.shape)]


def permute(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """The axes in another order."""
    del needs, now
    axes = settings["axes"]
    back = np.argsort(axes)
    return inputs[0].transpose(axes), lambda gradient: [gradient.transpose(back)]


def slices(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """A part of an array."""
    del needs, now
    (x,) = inputs
    index = tuple(_place(i) for i in settings["index"])

    def backward(gradient: Array) -> list[Array]:
        whole = np.zeros_like(x)
        whole[index] = gradient
        return [whole]

    return x[index], backward


def _place(index: Any) -> Any:
    """One place of an index, as numpy takes it."""
    if isinstance(index, list):
        return slice(*index)
    return {"new": None, "others": Ellipsis}.get(index, index) if isinstance(index, str) else index


def concatenate(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Arrays one after the other along an axis."""
    del needs, now
    axis = settings["axis"]
    cuts = np.cumsum([x.shape[axis] for x in inputs])[:-1]
    return np.concatenate(inputs, axis), lambda gradient: np.split(gradient, cuts, axis)


def stack(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Arrays side by side along a new axis."""
    del needs, now
    axis = settings["axis"]
    return np.stack(inputs, axis), lambda gradient: [gradient.take(i, axis) for i in range(len(inputs))]


# ---- dropout ------------------------------------------------------------------------------------------------------

_MASK = (1 << 64) - 1
_GOLDEN, _M1, _M2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _scramble(z: Array) -> Array:
    """The finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * _M1
    z = (z ^ (z >> np.uint64(27))) * _M2
    return z ^ (z >> np.uint64(31))


def kept_units(settings: Mapping[str, Any], shape: tuple[int, ...], address: int, kind: np.dtype[Any]) -> Array:
    """0 for each unit that dropout drops at this address, and what the others are scaled by: the bits of `tasks.dropout`."""
    rate, count = settings["rate"], math.prod(shape)
    with np.errstate(over="ignore"):
        offset = np.uint64(((settings["layer"] + 1) * int(_M1)) & _MASK)
        base = _scramble(np.array([address & _MASK], np.uint64) + offset)
        bits = (_scramble(base + np.arange(count, dtype=np.uint64) * _GOLDEN) >> np.uint64(40)) & np.uint64(0xFFFFFF)
    return (bits >= np.uint64(round(rate * 2**24))).astype(kind).reshape(shape) * kind.type(1 / (1 - rate))


def dropout(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """The units that the address of this step drops are 0, the others scaled up."""
    del needs
    (x,) = inputs
    if not now.training:
        return x, lambda gradient: [gradient]
    kept = kept_units(settings, x.shape, now.dropout, x.dtype)
    return x * kept, lambda gradient: [gradient * kept]


OPERATIONS: dict[str, Operation] = {
    "add": _arithmetic(np.add, lambda left, right, g: (g, g)),
    "subtract": _arithmetic(np.subtract, lambda left, right, g: (g, -g)),
    "multiply": _arithmetic(np.multiply, lambda left, right, g: (g * right, g * left)),
    "divide": _arithmetic(np.divide, lambda left, right, g: (g / right, -g * left / (right * right))),
    "power": power,
    "relu": relu,
    "tanh": _elementwise(np.tanh, lambda x, y: 1 - y * y),
    "sigmoid": _elementwise(sigmoid, lambda x, y: y * (1 - y)),
    "silu": _elementwise(lambda x: x * sigmoid(x), lambda x, y: sigmoid(x) + y * (1 - sigmoid(x))),
    "hardsigmoid": _elementwise(
        lambda x: np.clip(x / 6 + np.float32(0.5), 0, 1), lambda x, y: ((x > -3) & (x < 3)) / np.float32(6)
    ),
    "hardswish": _elementwise(
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        lambda x, y: np.where(x < -3, np.float32(0), np.where(x <= 3, x / 3 + np.float32(0.5), np.float32(1))),
    ),
    "exp": _elementwise(np.exp, lambda x, y: y),
    "log": _elementwise(np.log, lambda x, y: 1 / x),
    "sqrt": _elementwise(np.sqrt, lambda x, y: np.float32(0.5) / y),
    "erf": _elementwise(lambda x: erf(x), lambda x, y: np.exp(-x * x) * np.float32(2 / math.sqrt(math.pi))),
    "clamp": clamp,
    "leaky_relu": leaky_relu,
    "gelu": gelu,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "mean": _reduction(mean=True),
    "sum": _reduction(mean=False),
    "reshape": reshape,
    "broadcast": broadcast,
    "permute": permute,
    "slice": slices,
    "concatenate": concatenate,
    "stack": stack,
    "dropout": dropout,
}
