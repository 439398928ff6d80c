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
from numba.core import cgutils
from numba.extending import intrinsic

LANES, PANEL, MOST_ROWS = 16, 32, 12
_WORD = ir.IntType(64)
_FLOAT = ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)


@intrinsic(prefer_literal=True)
def _tile(typingctx: Any, rows: Any, a: Any, a_row: Any, a_k: Any, b: Any, b_k: Any, out: Any, out_row: Any, init: Any, init_row: Any, k: Any, columns: Any, alpha: Any):
    """rows x 32 of the output; `columns` of them are really there. `init` 0: nothing is added."""
    del typingctx
    if not isinstance(rows, types.IntegerLiteral):
        return None
    signature = types.void(rows, *(types.int64,) * 11, types.float32)
    return signature, _build_tile


def _build_tile(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    rows = signature.args[0].literal_value
    a, a_row, a_k, b, b_k, out, out_row, init, init_row, k, columns, alpha = args[1:]
    module, word = builder.module, lambda value: ir.Constant(_WORD, value)
    mask_type = ir.VectorType(ir.IntType(1), LANES)
    pointer = ir.PointerType(_FLOAT)
    fma = cgutils.get_or_insert_function(module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), "llvm.fma.v16f32")
    load = cgutils.get_or_insert_function(
        module, ir.FunctionType(_VECTOR, [pointer, ir.IntType(32), mask_type, _VECTOR]), "llvm.masked.load.v16f32.p0"
    )
    store = cgutils.get_or_insert_function(
        module, ir.FunctionType(ir.VoidType(), [_VECTOR, pointer, ir.IntType(32), mask_type]), "llvm.masked.store.v16f32.p0"
    )
    four = ir.Constant(ir.IntType(32), 4)
    zeros = ir.Constant(_VECTOR, [0.0] * LANES)
    bytes_of = lambda elements: builder.shl(elements, word(2))  # noqa: E731
    at = lambda address: builder.inttoptr(address, pointer)  # noqa: E731
    numbers = ir.Constant(ir.VectorType(_WORD, LANES), list(range(LANES)))

    def splat(value: Any, kind: Any) -> Any:
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    masks = [
        builder.icmp_signed("<", numbers, splat(builder.sub(columns, word(LANES * v)), ir.VectorType(_WORD, LANES))) for v in range(2)
    ]
    row_starts = [builder.add(a, bytes_of(builder.mul(a_row, word(r)))) for r in range(rows)]
    a_step, b_step = bytes_of(a_k), bytes_of(b_k)
    before, loop, after = builder.block, builder.append_basic_block("sum"), builder.append_basic_block("write")
    builder.branch(loop)
    builder.position_at_end(loop)
    count, a_offset, b_address = builder.phi(_WORD), builder.phi(_WORD), builder.phi(_WORD)
    sums = [builder.phi(_VECTOR) for _ in range(2 * rows)]
    for phi, first in zip((count, a_offset, b_address), (word(0), word(0), b), strict=True):
        phi.add_incoming(first, before)
    right = [
        builder.call(load, [at(builder.add(b_address, word(4 * LANES * v))), four, masks[v], zeros]) for v in range(2)
    ]
    next_sums = []
    for r in range(rows):
        left = splat(builder.load(at(builder.add(row_starts[r], a_offset)), align=4), _VECTOR)
        next_sums += [builder.call(fma, [left, right[v], sums[2 * r + v]]) for v in range(2)]
    for phi, value in zip(sums, next_sums, strict=True):
        phi.add_incoming(zeros, before)
        phi.add_incoming(value, loop)
    next_count = builder.add(count, word(1))
    count.add_incoming(next_count, loop)
    a_offset.add_incoming(builder.add(a_offset, a_step), loop)
    b_address.add_incoming(builder.add(b_address, b_step), loop)
    builder.cbranch(builder.icmp_signed("<", next_count, k), loop, after)
    builder.position_at_end(after)
    scale = splat(alpha, _VECTOR)
    with builder.if_else(builder.icmp_signed("==", init, word(0))) as (fresh, added):
        with fresh:
            for r in range(rows):
                for v in range(2):
                    to = builder.add(out, bytes_of(builder.add(builder.mul(out_row, word(r)), word(LANES * v))))
                    builder.call(store, [builder.fmul(scale, next_sums[2 * r + v]), at(to), four, masks[v]])
        with added:
            for r in range(rows):
                for v in range(2):
                    to = builder.add(out, bytes_of(builder.add(builder.mul(out_row, word(r)), word(LANES * v))))
                    here = builder.add(init, bytes_of(builder.add(builder.mul(init_row, word(r)), word(LANES * v))))
                    base = builder.call(load, [at(here), four, masks[v], zeros])
                    builder.call(store, [builder.call(fma, [scale, next_sums[2 * r + v], base]), at(to), four, masks[v]])
    return context.get_dummy_value()


@njit(inline="never")
def _rows(m: int, a: int, a_m: int, a_k: int, b: int, b_k: int, out: int, out_m: int, init: int, init_m: int, k: int, n: int, alpha: float):
    """A strip of the output, 32 columns wide."""
    done = 0
    while done < m:
        left = m - done
        if left > MOST_ROWS:
            left = 8
        x, y, z = a + 4 * done * a_m, out + 4 * done * out_m, init + 4 * done * init_m
        if left == 8:
            _tile(8, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, n, alpha)
        elif left == 10:
            _tile(10, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, n, alpha)
        elif left == 12:
            _tile(12, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, n, alpha)
        elif left >= 6:
            left = 6
            _tile(6, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, n, alpha)
        elif left >= 4:
            left = 4
            _tile(4, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, n, alpha)
        elif left >= 2:
            left = 2
            _tile(2, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, n, alpha)
        else:
            _tile(1, x, a_m, a_k, b, b_k, y, out_m, z, init_m, k, n, alpha)
        done += left


_INT, _F = types.int64, types.float32


@njit(types.void(*(_INT,) * 18, _F), nogil=True, cache=True)
def multiply(
    clients, m, n, k, a, a_c, a_m, a_k, b, b_c, b_panel, b_k, out, out_c, out_m, init, init_c, init_m, alpha
):
    """All clients' products; b is read in panels of 32 columns."""
    for c in range(clients):
        for p in range(0, (n + 31) // 32):
            first = init + 4 * (c * init_c + 32 * p) if init else 0
            _rows(
                m, a + 4 * c * a_c, a_m, a_k, b + 4 * (c * b_c + p * b_panel), b_k, out + 4 * (c * out_c + 32 * p), out_m,
                first, init_m, k, n - 32 * p, alpha,
            )


@njit(types.void(types.float32[:, :, :, ::1], types.Array(types.float32, 3, "A")), nogil=True, cache=True)
def pack(panels, b):
    """[clients, k, n] as panels [clients, n / 32, k, 32], whatever its strides; what lies beyond the last column stays as it was."""
    for c in range(len(b)):
        for p in range(panels.shape[1]):
            for j in range(min(32, b.shape[2] - 32 * p)):
                for i in range(b.shape[1]):
                    panels[c, p, i, j] = b[c, i, 32 * p + j]
