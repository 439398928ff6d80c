# pyright: reportCallIssue=false
"""The compiled recurrence of an LSTM: all steps of one client after the other, its gates and its state in a core's cache."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from fedfleet.executors.stacked.product_kernel import strip
from fedfleet.executors.stacked.vector_code import LANES, WORD, VectorCode

_INT = types.int64


@intrinsic
def _cell(typingctx: Any, gates: Any, before: Any, after: Any, squashed: Any, out: Any, hidden: Any, columns: Any):
    """16 units of one sample: gates, in the order i, f, g, o, become what they are squashed to; cell and output follow."""
    del typingctx, gates, before, after, squashed, out, hidden, columns
    return types.void(*(_INT,) * 7), _build_cell


def _build_cell(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    del signature
    gates, before, after, squashed, out, hidden, columns = args
    code = VectorCode(builder)
    mask = code.mask(columns)
    places = [code.at(gates, builder.mul(hidden, ir.Constant(WORD, k))) for k in range(4)]
    i, f, g, o = (
        squash(code.load(p, mask)) for p, squash in zip(places, (code.sigmoid, code.sigmoid, code.tanh, code.sigmoid), strict=True)
    )
    cell = code.fma(f, code.load(before, mask), builder.fmul(i, g))
    tanh = code.tanh(cell)
    for value, place in zip((i, f, g, o, cell, tanh, builder.fmul(o, tanh)), (*places, after, squashed, out), strict=True):
        code.store(value, place, mask)
    return context.get_dummy_value()


@intrinsic
def _cell_back(typingctx: Any, gates: Any, before: Any, squashed: Any, grad_out: Any, grad_cell: Any, hidden: Any, columns: Any):
    """16 units of one sample backwards: their gates become the gradients before squashing; the cell's moves one step back."""
    del typingctx, gates, before, squashed, grad_out, grad_cell, hidden, columns
    return types.void(*(_INT,) * 7), _build_cell_back


def _build_cell_back(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    del signature
    gates, before, squashed, grad_out, grad_cell, hidden, columns = args
    code = VectorCode(builder)
    mask, one, times = code.mask(columns), code.constant(1.0), builder.fmul
    places = [code.at(gates, builder.mul(hidden, ir.Constant(WORD, k))) for k in range(4)]
    i, f, g, o = (code.load(place, mask) for place in places)
    cell, tanh, dh = code.load(before, mask), code.load(squashed, mask), code.load(grad_out, mask)
    less = lambda value: builder.fsub(one, value)  # noqa: E731
    dc = code.fma(times(dh, o), less(times(tanh, tanh)), code.load(grad_cell, mask))
    grads = (
        times(times(dc, g), times(i, less(i))),
        times(times(dc, cell), times(f, less(f))),
        times(times(dc, i), less(times(g, g))),
        times(times(dh, tanh), times(o, less(o))),
    )
    for value, place in zip((*grads, times(dc, f)), (*places, grad_cell), strict=True):
        code.store(value, place, mask)
    return context.get_dummy_value()


@njit(types.void(*(_INT,) * 12), nogil=True, cache=True)
def run(clients, steps, batch, width, hidden, inputs, panels, panels_c, gates, gate_row, cells, squashed):
    """All steps of every client.

    inputs [clients, steps + 1, batch, width] hold inputs, the output before them and 1; outputs are written to the next step.
    panels are the recurrent weights [clients, .., hidden, 32], panels_c apart. gates [clients, steps, batch, gate_row], of which
    4 hidden are used, begin as what inputs and biases make of them. cells [clients, steps + 1, batch, hidden], the first of them
    given; squashed [clients, steps, batch, hidden].
    """
    strips = (4 * hidden + 31) // 32
    first = width - hidden - 1  # where the output before lies
    for c in range(clients):
        for s in range(steps):
            x, g = inputs + 4 * (c * (steps + 1) + s) * batch * width, gates + 4 * (c * steps + s) * batch * gate_row
            cell, tanh = cells + 4 * (c * (steps + 1) + s) * batch * hidden, squashed + 4 * (c * steps + s) * batch * hidden
            if s:
                for p in range(strips):
                    weights = panels + 4 * (c * panels_c + 32 * p * hidden)
                    strip(
                        batch, x + 4 * first, width, 1, weights, 32, g + 128 * p, gate_row, g + 128 * p, gate_row, hidden,
                        4 * hidden - 32 * p, types.float32(1.0),
                    )  # fmt: skip
            for row in range(batch):
                for j in range(0, hidden, LANES):
                    unit = 4 * (row * hidden + j)
                    out = x + 4 * ((batch + row) * width + first + j)
                    after = cell + 4 * batch * hidden + unit
                    _cell(g + 4 * (row * gate_row + j), cell + unit, after, tanh + unit, out, hidden, hidden - j)


@njit(types.void(*(_INT,) * 15), nogil=True, cache=True)
def run_back(
    clients, steps, batch, hidden, gates, gate_row, cells, squashed, panels, panels_c, outer, outer_c, outer_s, outer_b, state
):
    """All steps backwards: gates become their gradients before squashing.

    panels are the recurrent weights [clients, .., 4 hidden, 32], panels_c apart; `outer` the gradient of each step's output, read
    by its strides;
    state [clients, 2, batch, hidden] the gradients of the last output, with the last of `outer`, and of the last cell.
    """
    strips = (hidden + 31) // 32
    for c in range(clients):
        dh, dc = state + 8 * c * batch * hidden, state + 4 * (2 * c + 1) * batch * hidden
        for back in range(steps):
            s = steps - 1 - back
            g, cell = gates + 4 * (c * steps + s) * batch * gate_row, cells + 4 * (c * (steps + 1) + s) * batch * hidden
            tanh = squashed + 4 * (c * steps + s) * batch * hidden
            for row in range(batch):
                for j in range(0, hidden, LANES):
                    unit = 4 * (row * hidden + j)
                    _cell_back(g + 4 * (row * gate_row + j), cell + unit, tanh + unit, dh + unit, dc + unit, hidden, hidden - j)
            if s:
                init = outer + 4 * (c * outer_c + (s - 1) * outer_s)
                for p in range(strips):
                    weights = panels + 4 * (c * panels_c + 128 * p * hidden)
                    strip(
                        batch, g, gate_row, 1, weights, 32, dh + 128 * p, hidden, init + 128 * p, outer_b, 4 * hidden,
                        hidden - 32 * p, types.float32(1.0),
                    )  # fmt: skip
