"""Convolutions of a stack on a CPU: one client after the other, by the library's own kernels, channels last.

Those kernels come near a core's peak at one client's batch, if what they read lies with its channels last; then nothing is gained
by merging clients. With channels first the same library takes up to ten times as long where there are few channels, and so does
pooling behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F  # noqa: N812

if TYPE_CHECKING:
    from fedfleet.executors.stacked.layers import Conv


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """[n, channels, h, w] with the channels of a place side by side; the strides say so even where there is one channel."""
    c, h, w = x.shape[1:]
    wanted = (h * w * c, 1, w * c, c)
    if x.stride() == wanted:
        return x
    return x.permute(0, 2, 3, 1).contiguous().as_strided(x.shape, wanted)


def convolve_clients(conv: Conv, x: torch.Tensor) -> torch.Tensor:
    """Every client's convolution of its own part of the merged batch; with autograd where weights ask for a gradient."""
    x = channels_last(x)
    if conv.stack.moves(conv):
        return _ConvolutionStep.apply(x, conv.stack.trigger, conv)
    return torch.cat([_convolve(conv, part, c) for c, part in enumerate(x.chunk(conv.stack.clients))])


def _convolve(conv: Conv, x: torch.Tensor, c: int) -> torch.Tensor:
    bias = None if conv.bias is None else conv.bias[c]
    return F.conv2d(x, _kernel(conv, x, c), bias, conv.stride, conv.padding, conv.dilation)


def _kernel(conv: Conv, x: torch.Tensor, c: int) -> torch.Tensor:
    """One client's weights in the shape of a convolution's, with the strides by which the library knows channels last."""
    weight = conv.weight[c].unflatten(1, (x.shape[1], *conv.kernel))
    return weight if x.shape[1] > 1 else weight.as_strided(weight.shape, (weight.stride(0), 1, *weight.stride()[2:]))


class _ConvolutionStep(torch.autograd.Function):
    """All clients' convolutions, whose weights take their step in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, trigger: torch.Tensor, conv: Conv) -> torch.Tensor:
        del trigger
        ctx.conv = conv
        ctx.save_for_backward(x)
        return torch.cat([_convolve(conv, part, c) for c, part in enumerate(x.chunk(conv.stack.clients))])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        (x,), conv, needs_down = ctx.saved_tensors, ctx.conv, ctx.needs_input_grad[0]
        clients, move = conv.stack.clients, conv.stack.move
        assert move is not None
        parts = zip(channels_last(grad_outputs[0]).chunk(clients), x.chunk(clients), strict=True)
        biases, wanted = [conv.weight.shape[1]], [needs_down, True, conv.bias is not None]
        downs, changes, shifts = zip(
            *(
                torch.ops.aten.convolution_backward(
                    grad, part, _kernel(conv, part, c), biases, conv.stride, conv.padding, conv.dilation, False, (0, 0), 1, wanted
                )
                for c, (grad, part) in enumerate(parts)
            ),
            strict=True,
        )
        move.step(conv.names["weight"], conv.weight, torch.stack(changes).reshape(conv.weight.shape))
        if conv.bias is not None:
            move.step(conv.names["bias"], conv.bias, torch.stack(shifts))
        return torch.cat(downs) if needs_down else None, None, None
