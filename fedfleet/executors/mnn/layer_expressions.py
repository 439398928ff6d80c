"""Layers with weights as expressions of MNN: products of matrices, convolutions, pooling, normalisation, recurrence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedfleet.executors.mnn.expressions import Graph, Operation, mean, part, permute_axes, pieces, spread, with_rank, with_shape
from fedfleet.executors.mnn.library import Var, constant, mnn


def _linear(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del settings, graph
    x, weight = inputs[:2]
    y = mnn().matmul(with_shape(x, [math.prod(x.shape[:-1]), x.shape[-1]]), weight, False, True)
    if len(inputs) == 3:
        y = y + with_rank(inputs[2], 2)
    return with_shape(y, [*x.shape[:-1], weight.shape[0]])


def _matmul(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del settings, graph
    return product(*inputs)


def product(a: Var, b: Var, *, transposed: bool = False) -> Var:
    """Products of matrices, broadcast over the axes before; `transposed`: of b's."""
    before = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    a, b = spread(a, [*before, *a.shape[-2:]]), spread(b, [*before, *b.shape[-2:]])
    count = math.prod(before)
    y = mnn().matmul(with_shape(a, [count, *a.shape[-2:]]), with_shape(b, [count, *b.shape[-2:]]), False, transposed)
    return with_shape(y, [*before, *y.shape[-2:]])


def _embedding(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    """A product with one-hot rows: MNN adds up the gradients of a table's rows in no fixed order."""
    del settings, graph
    tokens, table = inputs
    count = math.prod(tokens.shape)
    hot = mnn().one_hot(with_shape(tokens, [count]), table.shape[0], 1.0, 0.0, -1)
    return with_shape(mnn().matmul(hot, table, False, False), [*tokens.shape, table.shape[1]])


# ---- windows ------------------------------------------------------------------------------------------------------


def _picture(x: Var) -> Var:
    """A series as a picture of height one."""
    return with_shape(x, [*x.shape[:2], 1, x.shape[2]]) if len(x.shape) == 3 else x


def _two(values: Sequence[int], one: int) -> tuple[int, int]:
    """A setting for height and width, as MNN takes it: width first."""
    return (values[0], one) if len(values) == 1 else (values[1], values[0])


def _back(y: Var, x: Var) -> Var:
    """The result for a series or for a picture."""
    return with_shape(y, [*y.shape[:2], y.shape[3]]) if len(x.shape) == 3 else y


def _convolution(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    lib, x, weight = mnn(), _picture(inputs[0]), _picture(inputs[1])
    outputs, groups = weight.shape[0], settings["groups"]
    bias = inputs[2] if len(inputs) == 3 else constant(np.zeros(outputs, np.float32))
    alone = groups == x.shape[1] == outputs
    results = list[Var]()
    for group in range(1 if alone else groups):
        inside, outside = x.shape[1] // groups, outputs // groups
        whole = alone or groups == 1
        of_x = x if whole else part(x, 1, group * inside, (group + 1) * inside)
        of_weight = weight if whole else part(weight, 0, group * outside, (group + 1) * outside)
        of_bias = bias if whole else part(bias, 0, group * outside, (group + 1) * outside)
        stride, padding = _two(settings["stride"], 1), _two(settings["padding"], 0)
        spacing, depthwise = _two(settings["dilation"], 1), outputs if alone else 1
        y = lib.conv2d(_pack(of_x), of_weight, of_bias, stride, padding, spacing, depthwise, lib.CAFFE)
        results.append(lib.convert(y, lib.NCHW))
    y = results[0] if len(results) == 1 else lib.concat(results, 1)
    return _back(y, inputs[0])


def _pad(x: Var, padding: tuple[int, int], value: float) -> Var:
    for axis, width in zip((3, 2), padding, strict=True):
        if width:
            edge = constant(np.full([*x.shape[:axis], width, *x.shape[axis + 1 :]], value, np.float32))
            x = mnn().concat([edge, x, edge], axis)
    return x


def _max_pool(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    """The first of the largest in each window takes the gradient; MNN's own gives it to each of them."""
    lib, x = mnn(), _picture(inputs[0])
    (wide, high), (right, down) = _two(settings["size"], 1), _two(settings["stride"], 1)
    x = _pad(x, _two(settings["padding"], 0), -3e38)
    if not graph.training:
        return _back(lib.convert(lib.max_pool(_pack(x), (wide, high), (right, down), lib.VALID, (0, 0)), lib.NCHW), inputs[0])
    rows, columns = (x.shape[2] - high) // down + 1, (x.shape[3] - wide) // right + 1
    best: Var = None
    for i in range(high):
        lines = part(x, 2, i, i + (rows - 1) * down + 1, down)
        for j in range(wide):
            candidate = part(lines, 3, j, j + (columns - 1) * right + 1, right)
            best = candidate if best is None else lib.select(lib.greater(candidate, best), candidate, best)
    return _back(best, inputs[0])


def _average_pool(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    lib, x = mnn(), _pad(_picture(inputs[0]), _two(settings["padding"], 0), 0.0)
    y = lib.avg_pool(_pack(x), _two(settings["size"], 1), _two(settings["stride"], 1), lib.VALID, (0, 0))
    return _back(lib.convert(y, lib.NCHW), inputs[0])


def _pack(x: Var) -> Var:
    """In the order that convolutions and pooling take."""
    return mnn().convert(x, mnn().NC4HW4)


# ---- normalisation ------------------------------------------------------------------------------------------------


def _standardise(x: Var, axes: Sequence[int], epsilon: float) -> tuple[Var, Var, Var]:
    """x with mean 0 and variance 1 along these axes, and both."""
    middle = mean(x, axes)
    centred = x - middle
    variance = mean(centred * centred, axes)
    return centred * mnn().rsqrt(variance + constant(epsilon)), middle, variance


def _scale_and_shift(normal: Var, inputs: Sequence[Var], settings: Mapping[str, Any], first: int, shape: Sequence[int]) -> Var:
    rest = list(inputs[first:])
    if settings["weighted"]:
        normal = normal * with_shape(rest.pop(0), shape)
    return normal + with_shape(rest.pop(0), shape) if settings["biased"] else normal


def _layer_norm(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    x = inputs[0]
    rank, count = len(x.shape), settings["axes"]
    normal, _, _ = _standardise(x, range(rank - count, rank), settings["epsilon"])
    return _scale_and_shift(normal, inputs, settings, 1, [1] * (rank - count) + list(x.shape[rank - count :]))


def _group_norm(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    x, groups = inputs[0], settings["groups"]
    grouped = with_shape(x, [x.shape[0], groups, math.prod(x.shape[1:]) // groups])
    normal, _, _ = _standardise(grouped, [2], settings["epsilon"])
    return _scale_and_shift(with_shape(normal, x.shape), inputs, settings, 1, [1, x.shape[1], *([1] * (len(x.shape) - 2))])


def _batch_norm(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    x, running_mean, running_variance = inputs[:3]
    shape, axes = [1, x.shape[1], *([1] * (len(x.shape) - 2))], [0, *range(2, len(x.shape))]
    if not graph.training:
        inverse = mnn().rsqrt(with_shape(running_variance, shape) + constant(settings["epsilon"]))
        return _scale_and_shift((x - with_shape(running_mean, shape)) * inverse, inputs, settings, 3, shape)
    normal, middle, variance = _standardise(x, axes, settings["epsilon"])
    count, share = math.prod(x.shape) // x.shape[1], settings["momentum"]
    graph.statistics.append((str(graph.names[1]), middle, share, 1.0))
    graph.statistics.append((str(graph.names[2]), variance, share, count / max(count - 1, 1)))
    return _scale_and_shift(normal, inputs, settings, 3, shape)


# ---- attention and recurrence -------------------------------------------------------------------------------------


def _attention(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
    del graph
    query, key, value = inputs
    scores = product(query, key, transposed=True) * constant(settings["scale"])
    if settings["causal"]:
        seen = np.tri(*scores.shape[-2:], dtype=bool)
        scores = scores + with_rank(constant(np.where(seen, 0.0, -1e30).astype(np.float32)), len(scores.shape))
    return product(mnn().softmax(scores, len(scores.shape) - 1), value)


def _linear_gates(x: Var, weight: Var, bias: Var | None) -> Var:
    y = mnn().matmul(x, weight, False, True)
    return y if bias is None else y + with_rank(bias, 2)


def _recurrence(name: str) -> Operation:
    """Unrolled: one step after the other."""
    step = _lstm_step if name == "lstm" else _gru_step

    def operation(inputs: Sequence[Var], settings: Mapping[str, Any], graph: Graph) -> Var:
        del graph
        x, count = inputs[0], 4 if settings["biased"] else 2
        for layer in range(settings["layers"]):
            weights = list(inputs[1 + count * layer : 1 + count * (layer + 1)])
            inner, across, bias_in, bias_across = weights if count == 4 else [*weights, None, None]
            batch, places, width = x.shape
            hidden = across.shape[1]
            by_place = with_shape(permute_axes(x, [1, 0, 2]), [places * batch, width])
            driven = _linear_gates(by_place, inner, bias_in)
            zeros = constant(np.zeros((batch, hidden), np.float32))
            state, cell, states = zeros, zeros, []
            for now in pieces(driven, places, 0):
                state, cell = step(now, _linear_gates(state, across, bias_across), state, cell)
                states.append(with_shape(state, [batch, 1, hidden]))
            x = mnn().concat(states, 1) if places > 1 else states[0]
        return x

    return operation


def _lstm_step(driven: Var, recurrent: Var, state: Var, cell: Var) -> tuple[Var, Var]:
    """Gates in PyTorch's order: input, forget, cell, output."""
    del state
    lib, gates = mnn(), driven + recurrent
    entry, forget, new, out = pieces(gates, 4, 1)
    cell = lib.sigmoid(forget) * cell + lib.sigmoid(entry) * lib.tanh(new)
    return lib.sigmoid(out) * lib.tanh(cell), cell


def _gru_step(driven: Var, recurrent: Var, state: Var, cell: Var) -> tuple[Var, Var]:
    """Gates in PyTorch's order: reset, update, new; the bias of the recurrence belongs inside the reset."""
    lib = mnn()
    (reset, update, new), (of_reset, of_update, of_new) = pieces(driven, 3, 1), pieces(recurrent, 3, 1)
    reset, update = lib.sigmoid(reset + of_reset), lib.sigmoid(update + of_update)
    new = lib.tanh(new + reset * of_new)
    return new + update * (state - new), cell


LAYERS: dict[str, Operation] = {
    "linear": _linear,
    "matmul": _matmul,
    "embedding": _embedding,
    "convolution": _convolution,
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
    "attention": _attention,
    "lstm": _recurrence("lstm"),
    "gru": _recurrence("gru"),
}
