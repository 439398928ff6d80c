"""An LSTM for a stack of clients, with its backward pass written out.

The recurrence takes one product a step for all clients, forward and backward. Everything else waits for the end of the sequence,
where it is one large product for each client: the gradients of the weights, and those of the inputs. Autograd would instead make
and add a gradient of all weights in every step, which costs more than the recurrence itself.

Inputs, the state before them and a 1 lie side by side, so that one product with all weights and biases makes the gates. A tanh is
2 sigmoid(2x) - 1 here, which costs a fraction of a tanh on a CPU; the factors go into the weights and into what is kept: half the
outputs, twice the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fedfleet.executors.stacked.compiled_lstm import CompiledRecurrence, recurrence_for
from fedfleet.executors.stacked.linear_layers import Stack

Gradients = tuple[torch.Tensor | None, ...]


class Lstm(nn.Module):
    """A unidirectional LSTM per client."""

    def __init__(self, stack: Stack, like: nn.LSTM) -> None:
        super().__init__()
        self.stack, self.layers, self.hidden = stack, like.num_layers, like.hidden_size
        if not like.batch_first or like.bidirectional or like.proj_size or like.dropout or not like.bias:
            raise TypeError("only batch-first, unidirectional LSTMs with bias and without dropout can be stacked")

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        out = x.reshape(self.stack.clients, -1, *x.shape[1:])
        ends: list[tuple[torch.Tensor, torch.Tensor]] = []
        for layer in range(self.layers):
            out, *end = self._layer(out, layer)
            ends.append((end[0], end[1]))
        h, cell = (torch.stack(v).reshape(self.layers, -1, self.hidden) for v in zip(*ends, strict=True))
        return out.reshape(-1, *out.shape[2:]), (h, cell)

    def _layer(self, x: torch.Tensor, layer: int) -> tuple[torch.Tensor, ...]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = [getattr(self, f"{name}_l{layer}") for name in names]
        recurrence = _Recurrence if recurrence_for(x, weights[1]) is None else CompiledRecurrence
        if len(x) > 1 and all(w.stride(0) == 0 for w in weights):  # frozen and the same for all: one client with all samples
            parts = recurrence.apply(x.reshape(1, -1, *x.shape[2:]), *(w[:1] for w in weights))
            return tuple(part.reshape(len(x), -1, *part.shape[2:]) for part in parts)
        return recurrence.apply(x, *weights)


@dataclass(slots=True)
class _Course:
    """What a forward pass keeps, of every step.

    `inputs` [clients, steps + 1, batch, inputs + hidden + 1] holds inputs, half the outputs before them, and 1. `cell` is twice the
    last cell. `factors` [clients, steps, batch, 4 hidden] is what a gate's gradient has besides that of the cell (of the output,
    for the last gate); `through` and `forget` are what the cell's gradient has of that of the output, and of the next cell's.
    They are made step by step, while everything that they need is in a processor's cache.
    """

    inputs: torch.Tensor
    cell: torch.Tensor
    factors: torch.Tensor
    through: torch.Tensor
    forget: torch.Tensor


class _Recurrence(torch.autograd.Function):
    """One layer: x [clients, batch, steps, inputs] to (outputs [.., hidden], the last output, the last cell)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        course = _run(x, *weights)
        ctx.course = course
        ctx.save_for_backward(*weights[:2])
        halves = course.inputs[:, 1:, :, x.shape[3] : -1].transpose(1, 2)
        out = torch.mul(halves, 2.0, out=x.new_empty(halves.shape))
        return out, out[:, :, -1].contiguous(), 0.5 * course.cell

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> Gradients:
        w_in, w_hid = ctx.saved_tensors
        course, ctx.course = ctx.course, None
        if course is None:
            raise RuntimeError("a stacked LSTM goes through its backward pass once: what it kept was overwritten on the way")
        grad = _backward_steps(course, w_hid, *grad_outputs)
        needs_x, *needs_weights = ctx.needs_input_grad
        down = None
        if needs_x:
            down = torch.bmm(grad.flatten(1, 2), w_in).unflatten(1, grad.shape[1:3]).transpose(1, 2)
        if not any(needs_weights):
            return down, None, None, None, None
        joint, n = torch.bmm(grad.flatten(1, 2).transpose(1, 2), course.inputs[:, :-1].flatten(1, 2)), w_in.shape[2]
        return down, joint[:, :, :n], joint[:, :, n:-1].mul_(2.0), joint[:, :, -1], joint[:, :, -1]


def _run(x: torch.Tensor, w_in: torch.Tensor, w_hid: torch.Tensor, b_in: torch.Tensor, b_hid: torch.Tensor) -> _Course:
    """All steps, one after the other."""
    (c, b, t, n), h = x.shape, w_hid.shape[2]
    joint = torch.cat([w_in, 2.0 * w_hid, (b_in + b_hid).unsqueeze(2)], dim=2)
    joint[:, 2 * h : 3 * h] *= 2.0
    joint = joint.transpose(1, 2).contiguous()
    inputs, factors = x.new_empty(c, t + 1, b, n + h + 1), x.new_empty(c, t, b, 4 * h)
    inputs[:, :t, :, :n] = x.transpose(1, 2)
    inputs[:, 0, :, n:-1] = 0.0
    inputs[..., -1] = 1.0
    through, forget = x.new_empty(t, c, b, h), x.new_empty(t, c, b, h)
    cell, before = x.new_zeros(c, b, h), x.new_empty(c, b, h)
    gates, (centred, squashed, halves) = x.new_empty(c, b, 4 * h), (x.new_empty(c, b, h) for _ in range(3))
    i, f, g, o = gates.unflatten(2, (4, h)).unbind(2)
    behind = torch.ops.aten.sigmoid_backward
    views = zip(
        inputs.unbind(1),
        inputs[:, 1:, :, n:-1].unbind(1),
        *(v.unbind(1) for v in factors.unflatten(3, (4, h)).unbind(3)),
        through.unbind(0),
        forget.unbind(0),
        strict=False,
    )
    for values, out, of_i, of_f, of_g, of_o, of_cell, kept in views:
        cell, before = before, cell
        torch.bmm(values, joint, out=gates).sigmoid_()
        torch.sub(g, 0.5, out=centred)
        torch.mul(kept.copy_(f), before, out=cell).addcmul_(i, centred, value=4.0)
        torch.sigmoid(cell, out=squashed)
        torch.mul(o, torch.sub(squashed, 0.5, out=halves), out=out)
        behind.grad_input(centred, i, grad_input=of_i).mul_(4.0)
        behind.grad_input(before, f, grad_input=of_f)
        behind.grad_input(i, g, grad_input=of_g).mul_(8.0)
        behind.grad_input(halves, o, grad_input=of_o)
        behind.grad_input(o, squashed, grad_input=of_cell)
    return _Course(inputs, cell, factors, through, forget)


def _backward_steps(
    course: _Course, w_hid: torch.Tensor, grad_out: torch.Tensor, grad_h: torch.Tensor, grad_cell: torch.Tensor
) -> torch.Tensor:
    """The gradients of the gates before squashing, [clients, steps, batch, 4 hidden]; they are written over the factors."""
    grads, h = course.factors, w_hid.shape[2]
    split = grads.unflatten(3, (4, h))
    views = (
        grads.unbind(1),
        split[:, :, :, :3].unbind(1),
        split[:, :, :, 3].unbind(1),
        course.through.unbind(0),
        course.forget.unbind(0),
    )
    steps = [*zip(*views, grad_out.unbind(2), strict=True)]
    # Of half the outputs, and of twice the cells.
    dh, dc = 2.0 * (grad_h + grad_out[:, :, -1]), 0.5 * grad_cell
    for s in range(len(steps) - 1, -1, -1):
        step, three, last, through, forget, _ = steps[s]
        dc.addcmul_(dh, through)
        three.mul_(dc.unsqueeze(2))
        last.mul_(dh)
        if s:
            dc.mul_(forget)
            dh = torch.baddbmm(steps[s - 1][5], step, w_hid, beta=2.0, alpha=2.0)
    return grads
