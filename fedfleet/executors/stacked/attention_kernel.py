# pyright: reportCallIssue=false
"""The compiled attention of short sequences: one head after the other, its scores in a core's first cache.

Scores stand with the places that look in columns, so that a softmax runs down the lanes of vectors, with no sum across them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from fedfleet.executors.stacked.product_kernel import PANEL, strip
from fedfleet.executors.stacked.vector_code import LANES, VECTOR, WORD, VectorCode

_INT, _ONE = types.int64, np.float32(1.0)
_HEADS = types.Array(types.float32, 4, "A")  # [samples, heads, places, width], with any strides
_SCORES = types.float32[:, :, :, ::1]  # [samples, heads, places seen, places that look, as many as fill panels]


@intrinsic
def _softmax(typingctx: Any, scores: Any, row: Any, rows: Any, columns: Any, first: Any, causal: Any):
    """16 columns of scores become weights; with `causal` the column of place i sees rows 0 to i, and weighs others 0."""
    del typingctx, scores, row, rows, columns, first, causal
    return types.void(*(_INT,) * 6), _build_softmax


def _build_softmax(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    del signature
    scores, row, rows, columns, first, causal = args
    code, words = VectorCode(builder), ir.VectorType(WORD, LANES)
    mask = code.mask(columns)
    looking = builder.add(ir.Constant(words, list(range(LANES))), code.splat(first, words))
    everything = code.splat(builder.icmp_signed("==", causal, ir.Constant(WORD, 0)), ir.VectorType(ir.IntType(1), LANES))
    seen = lambda j: builder.or_(everything, builder.icmp_signed("<=", code.splat(j, words), looking))  # noqa: E731
    place = lambda j: code.at(scores, builder.mul(j, row))  # noqa: E731
    top, total = cgutils.alloca_once_value(builder, code.constant(-3e38)), cgutils.alloca_once_value(builder, code.zeros)
    with cgutils.for_range(builder, rows) as loop:
        value = builder.select(seen(loop.index), code.load(place(loop.index), mask), code.constant(-3e38))
        builder.store(code.largest(builder.load(top), value), top)
    with cgutils.for_range(builder, rows) as loop:
        value = code.exp(builder.fsub(code.load(place(loop.index), mask), builder.load(top)))
        value = builder.select(seen(loop.index), value, code.zeros)
        builder.store(builder.fadd(builder.load(total), value), total)
        code.store(value, place(loop.index), mask)
    share = builder.fdiv(code.constant(1.0), builder.load(total))
    with cgutils.for_range(builder, rows) as loop:
        code.store(builder.fmul(code.load(place(loop.index), mask), share), place(loop.index), mask)
    return context.get_dummy_value()


@intrinsic
def _softmax_back(typingctx: Any, weights: Any, grads: Any, row: Any, rows: Any, columns: Any):
    """The gradients of 16 columns of weights become those of their scores."""
    del typingctx, weights, grads, row, rows, columns
    return types.void(*(_INT,) * 5), _build_softmax_back


def _build_softmax_back(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    del signature
    weights, grads, row, rows, columns = args
    code = VectorCode(builder)
    mask, total = code.mask(columns), cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * LANES))
    with cgutils.for_range(builder, rows) as loop:
        step = builder.mul(loop.index, row)
        both = (code.load(code.at(base, step), mask) for base in (weights, grads))
        builder.store(code.fma(*both, builder.load(total)), total)
    with cgutils.for_range(builder, rows) as loop:
        step = builder.mul(loop.index, row)
        weight, grad = (code.load(code.at(base, step), mask) for base in (weights, grads))
        code.store(builder.fmul(weight, builder.fsub(grad, builder.load(total))), code.at(grads, step), mask)
    return context.get_dummy_value()


@njit
def _head(x, n, h):
    """Where a head of a sample lies."""
    return x.ctypes.data + n * x.strides[0] + h * x.strides[1]


@njit
def _wide_product(m, a, a_m, a_k, b, out, row, k, columns, alpha):
    """alpha a b, both b and the output with rows as long as scores have them."""
    for p in range(0, columns, PANEL):
        strip(m, a, a_m, a_k, b + 4 * p, row, out + 4 * p, row, 0, 0, k, columns - p, alpha)


@njit(types.void(_HEADS, _HEADS, _HEADS, _HEADS, _SCORES, _INT, types.float32), nogil=True, cache=True)
def attend(q, k, v, out, weights, causal, scale):
    """The outputs of all heads, and the weights with which they were made; the last strides of k and v are 1."""
    samples, heads, places, width = q.shape
    row, k_row, v_row = weights.shape[3], k.strides[2] // 4, v.strides[2] // 4
    turned, ends = np.empty((width, row), np.float32), np.empty((width, row), np.float32)
    for n in range(samples):
        for h in range(heads):
            scores = weights.ctypes.data + 4 * (n * heads + h) * places * row
            for i in range(places):
                for e in range(width):
                    turned[e, i] = q[n, h, i, e]
            _wide_product(places, _head(k, n, h), k_row, 1, turned.ctypes.data, scores, row, width, places, scale)
            for p in range(0, places, LANES):
                _softmax(scores + 4 * p, row, places, places - p, p, causal)
            _wide_product(width, _head(v, n, h), 1, v_row, scores, ends.ctypes.data, row, places, places, _ONE)
            for i in range(places):
                for e in range(width):
                    out[n, h, i, e] = ends[e, i]


@njit(types.void(*(_HEADS,) * 7, _SCORES, types.float32), nogil=True, cache=True)
def attend_back(grad, q, k, v, grad_q, grad_k, grad_v, weights, scale):
    """The gradients of all heads; all last strides are 1, and a head is at most 32 wide."""
    samples, heads, places, width = q.shape
    row, q_row, k_row, v_row, grad_row = (
        weights.shape[3],
        q.strides[2] // 4,
        k.strides[2] // 4,
        v.strides[2] // 4,
        grad.strides[2] // 4,
    )
    turned, ends = np.empty((width, row), np.float32), np.empty((width, row), np.float32)
    inside = np.empty((places, row), np.float32)
    change = inside.ctypes.data
    for n in range(samples):
        for h in range(heads):
            scores = weights.ctypes.data + 4 * (n * heads + h) * places * row
            for i in range(places):
                for e in range(width):
                    turned[e, i] = grad[n, h, i, e]
            _wide_product(places, _head(v, n, h), v_row, 1, turned.ctypes.data, change, row, width, places, _ONE)
            for p in range(0, places, LANES):
                _softmax_back(scores + 4 * p, change + 4 * p, row, places, places - p)
            _wide_product(width, _head(k, n, h), 1, k_row, change, ends.ctypes.data, row, places, places, scale)
            for i in range(places):
                for e in range(width):
                    grad_q[n, h, i, e] = ends[e, i]
            to_k, to_v = _head(grad_k, n, h), _head(grad_v, n, h)
            strip(places, change, row, 1, _head(q, n, h), q_row, to_k, grad_k.strides[2] // 4, 0, 0, places, width, scale)
            strip(places, scores, row, 1, _head(grad, n, h), grad_row, to_v, grad_v.strides[2] // 4, 0, 0, places, width, _ONE)
