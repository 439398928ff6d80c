# pyright: reportCallIssue=false
"""The compiled product of small matrices, one pair for each client, at the speed of a core's widest vectors.

    out[c] = init[c] + alpha a[c] b[c]

The libraries behind torch.bmm choose narrower vectors on some processors, and are made for larger matrices. Here one tile of the
output, up to 12 rows of 32 columns, stays in registers while the sum over k is made, one fused multiply-add after the other: a
client's bits depend on its own numbers alone. Addresses and strides are integers, in elements, so that whatever torch calls a view
can be read as it lies; only the columns of b must lie side by side, for which `pack` lays them out in panels of 32.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fedfleet.executors.stacked.vector_code import LANES, VECTOR, WORD, VectorCode

PANEL = 2 * LANES
_SPAN = 256  # rows of b at a time: with them, a panel takes 32 KB
_BLOCK = 96  # rows of the output at a time: each may lie on another page of memory


@intrinsic(prefer_literal=True)
def _tile(
    typingctx: Any, rows: Any, vectors: Any, a: Any, a_row: Any, a_k: Any, b: Any, b_k: Any, out: Any, out_row: Any, init: Any,
    init_row: Any, k: Any, columns: Any, alpha: Any,
):  # fmt: skip
    """`rows` x `vectors` of the output; `columns` are really there, and k is at least 1. `init` 0: nothing is added."""
    del typingctx, a, a_row, a_k, b, b_k, out, out_row, init, init_row, k, columns, alpha
    if not isinstance(rows, types.IntegerLiteral) or not isinstance(vectors, types.IntegerLiteral):
        return None
    return types.void(rows, vectors, *(types.int64,) * 11, types.float32), _build_tile


def _build_tile(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    rows, vectors = (kind.literal_value for kind in signature.args[:2])
    a, a_row, a_k, b, b_k, out, out_row, init, init_row, k, columns, alpha = args[2:]
    code, word = VectorCode(builder), lambda value: ir.Constant(WORD, value)
    masks = [code.mask(builder.sub(columns, word(LANES * v))) for v in range(vectors)]
    row_starts = [code.at(a, builder.mul(a_row, word(r))) for r in range(rows)]
    before, loop, after = builder.block, builder.append_basic_block("sum"), builder.append_basic_block("write")
    builder.branch(loop)
    builder.position_at_end(loop)
    count, a_offset, b_address = (builder.phi(WORD) for _ in range(3))
    sums = [builder.phi(VECTOR) for _ in range(vectors * rows)]
    right = [code.load(code.at(b_address, LANES * v), masks[v]) for v in range(vectors)]
    next_sums = []
    for r in range(rows):
        left = code.number(builder.add(row_starts[r], a_offset))
        next_sums += [code.fma(left, right[v], sums[vectors * r + v]) for v in range(vectors)]
    next_count = builder.add(count, word(1))
    starts = (word(0), word(0), b, *(code.zeros for _ in sums))
    steps = (next_count, code.at(a_offset, a_k), code.at(b_address, b_k), *next_sums)
    for phi, first, following in zip((count, a_offset, b_address, *sums), starts, steps, strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", next_count, k), loop, after)
    builder.position_at_end(after)
    scale = code.splat(alpha)
    places = [(r, v) for r in range(rows) for v in range(vectors)]
    with builder.if_else(builder.icmp_signed("==", init, word(0))) as (fresh, added):
        with fresh:
            for (r, v), total in zip(places, next_sums, strict=True):
                code.store(builder.fmul(scale, total), code.at(out, builder.mul(out_row, word(r)), LANES * v), masks[v])
        with added:
            for (r, v), total in zip(places, next_sums, strict=True):
                base = code.load(code.at(init, builder.mul(init_row, word(r)), LANES * v), masks[v])
                code.store(code.fma(scale, total, base), code.at(out, builder.mul(out_row, word(r)), LANES * v), masks[v])
    return context.get_dummy_value()


@njit(inline="never")
def strip(m, a, a_m, a_k, b, b_k, out, out_m, init, init_m, k, columns, alpha):
    """At most 32 columns of one client's output, in tiles of 8 rows, and what is left in one of 12 or in smaller ones."""
    done = 0
    while done < m:
        rows = m - done
        x, y, z = a + 4 * done * a_m, out + 4 * done * out_m, init + 4 * done * init_m if init else 0
        if columns <= LANES:
            if rows >= 8:
                rows = 8
                _tile(8, 1, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
            elif rows >= 4:
                rows = 4
                _tile(4, 1, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
            else:
                rows = 1
                _tile(1, 1, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        elif rows > 12 or rows == 8:
            rows = 8
            _tile(8, 2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        elif rows == 12:
            _tile(12, 2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        elif rows >= 10:
            rows = 10
            _tile(10, 2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        elif rows >= 6:
            rows = 6
            _tile(6, 2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        elif rows >= 4:
            rows = 4
            _tile(4, 2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        elif rows >= 2:
            rows = 2
            _tile(2, 2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        else:
            _tile(1, 2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, columns, alpha)
        done += rows


_INT, _F = types.int64, types.float32


@njit(types.void(*(_INT,) * 18, _F), nogil=True, cache=True)
def multiply(clients, m, n, k, a, a_c, a_m, a_k, b, b_c, b_panel, b_k, out, out_c, out_m, init, init_c, init_m, alpha):
    """All clients' products; b is read in panels of 32 columns, so many rows at a time that they stay in the first cache."""
    for c in range(clients):
        for r in range(0, m, _BLOCK):
            for p in range((n + 31) // 32):
                to, columns, rows = out + 4 * (c * out_c + r * out_m + 32 * p), n - 32 * p, min(_BLOCK, m - r)
                first, first_m = init + 4 * (c * init_c + r * init_m + 32 * p) if init else 0, init_m
                for s in range(0, k, _SPAN):
                    x, y = a + 4 * (c * a_c + r * a_m + s * a_k), b + 4 * (c * b_c + p * b_panel + s * b_k)
                    strip(rows, x, a_m, a_k, y, b_k, to, out_m, first, first_m, min(_SPAN, k - s), columns, alpha)
                    first, first_m = to, out_m


@njit(types.void(types.float32[:, :, :, ::1], types.Array(types.float32, 3, "A")), nogil=True, cache=True)
def pack(panels, b):
    """[clients, k, n] as panels [clients, n / 32, k, 32], whatever its strides; beyond the last column nothing is written."""
    for c in range(len(b)):
        for p in range(panels.shape[1]):
            for j in range(min(32, b.shape[2] - 32 * p)):
                for i in range(b.shape[1]):
                    panels[c, p, i, j] = b[c, i, 32 * p + j]
