"""Layers with weights: matrix products, convolutions, pooling, embeddings, attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from fedfleet.core.trees import Array
from fedfleet.executors.numpy.operations import ForwardPass, Operation, Result, shares, sum_to_shape


def linear(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """x W' + b along the last axis."""
    del settings, now
    x, weight = inputs[:2]
    rows = x.reshape(-1, x.shape[-1])
    y = rows @ weight.T
    if len(inputs) == 3:
        y += inputs[2]

    def backward(gradient: Array) -> list[Array | None]:
        flat = gradient.reshape(-1, gradient.shape[-1])
        result: list[Array | None] = [(flat @ weight).reshape(x.shape) if needs[0] else None, flat.T @ rows if needs[1] else None]
        return [*result, flat.sum(0)] if len(inputs) == 3 else result

    return y.reshape(*x.shape[:-1], len(weight)), backward


def matmul(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """Products of matrices, broadcast over the axes before."""
    del settings, now
    a, b = inputs

    def backward(gradient: Array) -> list[Array | None]:
        return [
            sum_to_shape(gradient @ b.swapaxes(-1, -2), a.shape) if needs[0] else None,
            sum_to_shape(a.swapaxes(-1, -2) @ gradient, b.shape) if needs[1] else None,
        ]

    return a @ b, backward


def embedding(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """The rows of a table."""
    del settings, needs, now
    tokens, table = inputs

    def backward(gradient: Array) -> list[Array | None]:
        # A product with one-hot rows adds up in a fixed order, and is faster than adding place by place.
        hot = np.zeros((tokens.size, len(table)), table.dtype)
        hot[np.arange(tokens.size), tokens.reshape(-1)] = 1
        return [None, hot.T @ gradient.reshape(-1, table.shape[1])]

    return table[tokens], backward


# ---- windows ------------------------------------------------------------------------------------------------------


def _as_picture(x: Array) -> Array:
    """A series as a picture of height one."""
    return x[:, :, None] if x.ndim == 3 else x


def _two(values: Sequence[int], one: int) -> tuple[int, int]:
    """A setting for height and width."""
    return (one, values[0]) if len(values) == 1 else (values[0], values[1])


def _pad(x: Array, padding: tuple[int, int], value: float) -> Array:
    return np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)), constant_values=value) if any(padding) else x


def _unpad(x: Array, padding: tuple[int, int]) -> Array:
    high, wide = padding
    return x[:, :, high : x.shape[2] - high, wide : x.shape[3] - wide]


def _windows(x: Array, size: tuple[int, int], stride: tuple[int, int], spread: tuple[int, int] = (1, 1)) -> Array:
    """[batch, channels, rows, columns, height, width]: what each place of a window sees, as a view."""
    whole = tuple((n - 1) * d + 1 for n, d in zip(size, spread, strict=True))
    view = sliding_window_view(x, whole, axis=(2, 3))  # type: ignore[call-overload]
    return view[:, :, :: stride[0], :: stride[1], :: spread[0], :: spread[1]]


def convolution(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """A convolution as products of matrices: every place's window is a row."""
    del now
    x, weight = _as_picture(inputs[0]), _as_picture(inputs[1])
    stride, spread = _two(settings["stride"], 1), _two(settings["dilation"], 1)
    padding, groups = _two(settings["padding"], 0), settings["groups"]
    padded = _pad(x, padding, 0)
    windows = _windows(padded, weight.shape[2:], stride, spread)
    batch, channels, high, wide, *kernel = windows.shape
    inside = channels // groups * math.prod(kernel)
    # [groups, places, inputs of one output]
    columns = np.ascontiguousarray(
        windows.reshape(batch, groups, channels // groups, high, wide, *kernel).transpose(1, 0, 3, 4, 2, 5, 6)
    ).reshape(groups, batch * high * wide, inside)
    filters = weight.reshape(groups, -1, inside)
    y = columns @ filters.transpose(0, 2, 1)
    outputs = len(weight)
    picture = y.transpose(1, 0, 2).reshape(batch, high, wide, outputs)
    if len(inputs) == 3:
        picture = picture + inputs[2]
    result = np.ascontiguousarray(picture.transpose(0, 3, 1, 2))

    def backward(gradient: Array) -> list[Array | None]:
        flat = gradient.reshape(result.shape).transpose(0, 2, 3, 1).reshape(batch * high * wide, groups, -1).transpose(1, 0, 2)
        flat = np.ascontiguousarray(flat)
        found: list[Array | None] = [None, None]
        if needs[1]:
            found[1] = (flat.transpose(0, 2, 1) @ columns).reshape(inputs[1].shape)
        if needs[0]:
            pieces = (flat @ filters).reshape(groups, batch, high, wide, channels // groups, *kernel)
            pieces = pieces.transpose(5, 6, 1, 0, 4, 2, 3).reshape(*kernel, batch, channels, high, wide)
            whole = np.zeros_like(padded)
            for i in range(kernel[0]):
                for j in range(kernel[1]):
                    top, left = i * spread[0], j * spread[1]
                    whole[:, :, top : top + high * stride[0] : stride[0], left : left + wide * stride[1] : stride[1]] += pieces[
                        i, j
                    ]
            found[0] = _unpad(whole, padding).reshape(inputs[0].shape)
        return [*found, gradient.reshape(result.shape).sum((0, 2, 3))] if len(inputs) == 3 else found

    return result.reshape(batch, outputs, *((high, wide) if inputs[0].ndim == 4 else (wide,))), backward


def _pool_inputs(
    inputs: Sequence[Array], settings: Mapping[str, Any]
) -> tuple[Array, tuple[int, int], tuple[int, int], tuple[int, int]]:
    size = _two(settings["size"], 1)
    return _as_picture(inputs[0]), size, _two(settings["stride"], 1), _two(settings["padding"], 0)


def max_pool(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """The largest of each window; of equals the first takes the gradient, as in PyTorch."""
    del needs, now
    x, size, stride, padding = _pool_inputs(inputs, settings)
    padded = _pad(x, padding, -np.inf)
    windows = _windows(padded, size, stride)
    batch, channels, high, wide = windows.shape[:4]
    best = windows[..., 0, 0].copy()
    place = np.zeros(best.shape, np.int32)
    for number in range(1, size[0] * size[1]):
        candidate = windows[..., number // size[1], number % size[1]]
        larger = candidate > best
        np.copyto(best, candidate, where=larger)
        place[larger] = number

    def backward(gradient: Array) -> list[Array]:
        whole, flat = np.zeros_like(padded), gradient.reshape(best.shape)
        for number in range(size[0] * size[1]):
            top, left = number // size[1], number % size[1]
            whole[:, :, top : top + high * stride[0] : stride[0], left : left + wide * stride[1] : stride[1]] += flat * (
                place == number
            )
        return [_unpad(whole, padding).reshape(inputs[0].shape)]

    return best.reshape(batch, channels, *((high, wide) if inputs[0].ndim == 4 else (wide,))), backward


def average_pool(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """The mean of each window."""
    del needs, now
    x, size, stride, padding = _pool_inputs(inputs, settings)
    padded = _pad(x, padding, 0)
    windows = _windows(padded, size, stride)
    batch, channels, high, wide = windows.shape[:4]
    share = x.dtype.type(1 / math.prod(size))

    def backward(gradient: Array) -> list[Array]:
        whole, part = np.zeros_like(padded), gradient.reshape(batch, channels, high, wide) * share
        for top in range(size[0]):
            for left in range(size[1]):
                whole[:, :, top : top + high * stride[0] : stride[0], left : left + wide * stride[1] : stride[1]] += part
        return [_unpad(whole, padding).reshape(inputs[0].shape)]

    y = windows.sum((4, 5)) * share
    return y.reshape(batch, channels, *((high, wide) if inputs[0].ndim == 4 else (wide,))), backward


# ---- attention ----------------------------------------------------------------------------------------------------


def attention(inputs: Sequence[Array], settings: Mapping[str, Any], needs: Sequence[bool], now: ForwardPass) -> Result:
    """softmax(q k' scale) v; `causal`: a place sees itself and those before."""
    del needs, now
    query, key, value = inputs
    scale = query.dtype.type(settings["scale"])
    scores = (query @ key.swapaxes(-1, -2)) * scale
    if settings["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, query.dtype.type(-np.inf))
    weights = shares(scores, -1)

    def backward(gradient: Array) -> list[Array]:
        of_weights = gradient @ value.swapaxes(-1, -2)
        of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * scale
        return [of_scores @ key, of_scores.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ gradient]

    return weights @ value, backward


LAYERS: dict[str, Operation] = {
    "linear": linear,
    "matmul": matmul,
    "embedding": embedding,
    "convolution": convolution,
    "max_pool": max_pool,
    "average_pool": average_pool,
    "attention": attention,
}
