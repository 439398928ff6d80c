"""Convolutions on an accelerator that has kernels for them: patches are read where they lie in the input, never written down."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from fedfleet.executors.stacked.linear_layers import Stack
from fedfleet.tasks.kernel_choice import convolutions_for, kernels_for

Pair = tuple[int, int]


class Convolution(Protocol):
    """What the direct form needs to know of a convolution."""

    stack: Stack
    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Pair
    names: dict[str, str]
    weight: torch.Tensor
    bias: torch.Tensor | None


def direct_form_fits(x: torch.Tensor, outputs: int, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair) -> bool:
    """Are there kernels for this input, and is the gradient of the input a convolution too?"""
    kernels = convolutions_for(x)
    reach = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    return kernels is not None and stride == (1, 1) and min(reach) >= 0 and kernels.takes_planes(outputs)


class DirectForm:
    """One use of a convolution, forward and backward; what both need of the input is made once."""

    def __init__(self, conv: Convolution) -> None:
        self.conv = conv
        self.input: Any = None
        self.grad: Any = None

    def convolve(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """[n, in, h, w] -> [n, out, oh, ow]."""
        conv, kernels = self.conv, convolutions_for(x)
        assert kernels is not None
        if kernels.takes_planes(x.shape[1]):
            self.input = kernels.split(x, conv.padding)
            return kernels.convolve(self.input, weight, bias, conv.kernel, conv.stride, conv.dilation)
        return self._shallow(x).convolve(x, weight, bias, conv.kernel, conv.stride, conv.dilation, conv.padding)

    def input_gradient(self, grad: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The gradient of the input from that of the output: one more convolution, with the kernels turned round."""
        conv, kernels = self.conv, convolutions_for(grad)
        assert kernels is not None
        beyond = [d * (k - 1) - p for d, k, p in zip(conv.dilation, conv.kernel, conv.padding, strict=True)]
        self.grad = kernels.split(grad, (beyond[0], beyond[1]))
        return kernels.convolve(self.grad, weight, None, conv.kernel, conv.stride, conv.dilation, turned=True)

    def weight_gradient(self, x: torch.Tensor, grad: torch.Tensor, *, bias: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The gradients of weights and biases."""
        conv, kernels, clients = self.conv, convolutions_for(x), self.conv.stack.clients
        assert kernels is not None
        if self.input is None:
            shallow = self._shallow(x)
            return shallow.weight_gradient(x, grad, clients, conv.kernel, conv.stride, conv.dilation, conv.padding, bias=bias)
        planes = kernels.split(grad, (0, 0)) if self.grad is None else self.grad
        return kernels.weight_gradient(self.input, planes, clients, conv.kernel, conv.stride, conv.dilation, bias=bias)

    def _shallow(self, x: torch.Tensor) -> Any:
        kernels = kernels_for(x, "shallow_convolution_kernels")
        assert kernels is not None
        return kernels

    # ---- the steps of a layer that moves itself --------------------------------------------------------------------

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """The output with the weights as they are."""
        return self.convolve(x, self.conv.weight, self.conv.bias)

    def back(self, grad: torch.Tensor) -> torch.Tensor:
        """The gradient of the input."""
        return self.input_gradient(grad, self.conv.weight)

    def move(self, x: torch.Tensor, grad: torch.Tensor) -> None:
        """One step."""
        conv, move = self.conv, self.conv.stack.move
        assert move is not None
        change, bias_change = self.weight_gradient(x, grad, bias=conv.bias is not None)
        move.step(conv.names["weight"], conv.weight, change)
        if conv.bias is not None and bias_change is not None:
            move.step(conv.names["bias"], conv.bias, bias_change)


class DirectProduct(torch.autograd.Function):
    """The same for autograd, with gradients of the input, the weights and the biases."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, form: DirectForm) -> torch.Tensor:
        ctx.form, ctx.has_bias = form, bias is not None
        ctx.save_for_backward(x, weight)
        return form.convolve(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor):
        (grad,), (x, weight), form = grad_outputs, ctx.saved_tensors, ctx.form
        down = form.input_gradient(grad, weight) if ctx.needs_input_grad[0] else None
        trained = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        change, bias_change = form.weight_gradient(x, grad, bias=ctx.has_bias) if trained else (None, None)
        return down, change, bias_change, None
