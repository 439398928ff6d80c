"""One LSTM layer of a stack by compiled loops: the same as `lstm` does step by step, with nothing between two steps."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from fedfleet.executors.stacked.products import client_step, kernel_for, lstm_kernel, panels_of, product

_LEAST_OPERATIONS = 1 << 20  # of one client in one pass: below that, loading the compiler is not worth it
_APART = 16  # numbers between the rows of gates: a page apart, they would fall onto the same lines of the cache


def recurrence_for(x: torch.Tensor, w_hid: torch.Tensor) -> ModuleType | None:
    """The kernel, where it can work on this layer and is worth it; a stack's height must not decide."""
    (_, b, t, n), h = x.shape, w_hid.shape[2]
    large = 8 * b * t * h * (n + h) >= _LEAST_OPERATIONS
    return lstm_kernel() if large and kernel_for(x, w_hid) is not None else None


class CompiledRecurrence(torch.autograd.Function):
    """One layer: x [clients, batch, steps, inputs] to (outputs [.., hidden], the last output, the last cell)."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, w_in: torch.Tensor, w_hid: torch.Tensor, b_in: torch.Tensor, b_hid: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        (c, b, t, n), h, kernel = x.shape, w_hid.shape[2], lstm_kernel()
        inputs = x.new_empty(c, t + 1, b, n + h + 1)
        inputs[:, :t, :, :n] = x.transpose(1, 2)
        inputs[:, 0, :, n:-1] = 0.0
        inputs[..., -1] = 1.0
        gates, squashed, cells = x.new_empty(c, t, b, 4 * h + _APART), x.new_empty(c, t, b, h), x.new_empty(c, t + 1, b, h)
        cells[:, 0] = 0.0
        # What inputs make of the gates needs no step before it: one large product.
        known = gates[..., : 4 * h].flatten(1, 2)
        product(inputs[:, :t, :, :n].flatten(1, 2), w_in.transpose(1, 2), init=(b_in + b_hid).unsqueeze(1), out=known)
        panels = panels_of(w_hid.transpose(1, 2))
        kernel.run(
            c, t, b, n + h + 1, h, inputs.data_ptr(), panels.data_ptr(), client_step(panels), gates.data_ptr(), gates.stride(2),
            cells.data_ptr(), squashed.data_ptr(),
        )  # fmt: skip
        ctx.course = inputs, gates, squashed, cells
        ctx.save_for_backward(w_in, w_hid)
        out = inputs[:, 1:, :, n:-1].transpose(1, 2).contiguous()
        return out, out[:, :, -1].contiguous(), cells[:, -1].clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        w_in, w_hid = ctx.saved_tensors
        course, ctx.course = ctx.course, None
        if course is None:
            raise RuntimeError("a stacked LSTM goes through its backward pass once: what it kept was overwritten on the way")
        inputs, grads, squashed, cells = course
        (c, t, b, h), n = squashed.shape, w_in.shape[2]
        outer, grad_h, grad_cell = grad_outputs
        outer = outer if outer.stride(3) == 1 else outer.contiguous()
        state, panels = torch.stack([grad_h + outer[:, :, -1], grad_cell], 1), panels_of(w_hid)
        lstm_kernel().run_back(
            c, t, b, h, grads.data_ptr(), grads.stride(2), cells.data_ptr(), squashed.data_ptr(), panels.data_ptr(),
            client_step(panels), outer.data_ptr(), outer.stride(0), outer.stride(2), outer.stride(1), state.data_ptr(),
        )  # fmt: skip
        needs_x, *needs_weights = ctx.needs_input_grad
        flat, down = grads[..., : 4 * h].flatten(1, 2), None
        if needs_x:
            down = product(flat, w_in).unflatten(1, (t, b)).transpose(1, 2)
        if not any(needs_weights):
            return down, None, None, None, None
        joint = product(flat.transpose(1, 2), inputs[:, :-1].flatten(1, 2))
        return down, joint[:, :, :n], joint[:, :, n:-1], joint[:, :, -1], joint[:, :, -1]
