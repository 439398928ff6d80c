"""Layers that standardise their input: over the last axes, over groups of channels, over the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedfleet.core.trees import Array
from fedfleet.executors.numpy.operations import ForwardPass, Operation, Result, sum_to_shape


def _standardise(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array, Array]:
    """x with mean 0 and variance 1 along these axes; what it was divided by; mean and variance."""
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    variance = np.square(centred).mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    return centred * inverse, inverse, mean, variance


def _unstandardise(gradient: Array, normal: Array, inverse: Array, axes: tuple[int, ...]) -> Array:
    """The gradient of what was standardised."""
    return inverse * (gradient - gradient.mean(axes, keepdims=True) - normal * (gradient * normal).mean(axes, keepdims=True))


def _affine(inputs: Sequence[Array], settings: Mapping[str, Any], first: int) -> tuple[Array | None, Array | None]:
    """The weight and the bias of a normalisation, which follow its other inputs."""
    rest = list(inputs[first:])
    weight = rest.pop(0) if settings["weighted"] else None
    return weight, rest.pop(0) if settings["biased"] else None


def _scale(
    normal: Array, undo: Callable[[Array], Array], weight: Array | None, bias: Array | None, shape: tuple[int, ...], before: int
) -> Result:
    """weight * normal + bias, both of this broadcast shape; `before`: how many inputs between x and the weight have no gradient."""
    y = normal if weight is None else normal * weight.reshape(shape)
    y = y if bias is None else y + bias.reshape(shape)

    def backward(gradient: Array) -> list[Array | None]:
        inner = gradient if weight is None else gradient * weight.reshape(shape)
        result: list[Array | None] = [undo(inner), *([None] * before)]
        if weight is not None:
            result.append(sum_to_shape(gradient * normal, shape).reshape(weight.shape))
        if bias is not None:
            result.append(sum_to_shape(gradient, shape).reshape(bias.shape))
        return result

    return y, backward


def layer_norm(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Each sample's last axes standardised."""
    del needs, now
    x = inputs[0]
    axes = tuple(range(x.ndim - settings["axes"], x.ndim))
    normal, inverse, _, _ = _standardise(x, axes, settings["epsilon"])
    weight, bias = _affine(inputs, settings, 1)
    shape = (1,) * (x.ndim - len(axes)) + x.shape[axes[0] :]
    return _scale(normal, lambda g: _unstandardise(g, normal, inverse, axes), weight, bias, shape, 0)


def group_norm(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Groups of a sample's channels standardised."""
    del needs, now
    x = inputs[0]
    grouped = x.reshape(len(x), settings["groups"], -1)
    normal, inverse, _, _ = _standardise(grouped, (2,), settings["epsilon"])
    weight, bias = _affine(inputs, settings, 1)
    shape = (1, x.shape[1], *([1] * (x.ndim - 2)))

    def undo(gradient: Array) -> Array:
        return _unstandardise(gradient.reshape(grouped.shape), normal, inverse, (2,)).reshape(x.shape)

    return _scale(normal.reshape(x.shape), undo, weight, bias, shape, 0)


def batch_norm(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Channels standardised over the batch when training, and by the running statistics otherwise."""
    del needs
    x, mean, variance = inputs[:3]
    weight, bias = _affine(inputs, settings, 3)
    shape, axes = (1, x.shape[1], *([1] * (x.ndim - 2))), (0, *range(2, x.ndim))
    if not now.training:
        inverse = 1 / np.sqrt(variance.reshape(shape) + x.dtype.type(settings["epsilon"]))
        normal = (x - mean.reshape(shape)) * inverse
        return _scale(normal, lambda g: g * inverse, weight, bias, shape, 2)
    normal, inverse, seen_mean, seen_variance = _standardise(x, axes, settings["epsilon"])
    count, share = x.size // x.shape[1], x.dtype.type(settings["momentum"])
    unbiased = seen_variance * x.dtype.type(count / max(count - 1, 1))
    for name, old, new in zip(now.names[1:3], (mean, variance), (seen_mean, unbiased), strict=True):
        now.buffers[str(name)] = (1 - share) * old + share * new.reshape(old.shape)
    return _scale(normal, lambda g: _unstandardise(g, normal, inverse, axes), weight, bias, shape, 2)


NORMALISATIONS: dict[str, Operation] = {"layer_norm": layer_norm, "group_norm": group_norm, "batch_norm": batch_norm}
