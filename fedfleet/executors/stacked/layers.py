"""Leaves of a stacked twin: each holds the parameters of a whole stack of clients, one after the other in dimension 0.

Activations keep the clients merged into the batch, [clients * batch, ..], so that everything without parameters (relu,
pooling, flatten) runs unchanged in the model's own forward(). Only leaves take the merged batch apart.

When the stack has a `move`, leaves update their weights inside the backward pass, where the gradient is made: nobody keeps it.
That is SGD, with or without momentum, at the price of its memory traffic.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from fedfleet.executors.stacked.client_convolutions import channels_last, convolve_clients
from fedfleet.executors.stacked.direct_convolution import DirectForm, DirectProduct, direct_form_fits
from fedfleet.executors.stacked.linear_layers import FusedStep, Stack
from fedfleet.tasks.kernel_choice import kernels_for

Pair = tuple[int, int]
# Multiplications of one client's convolution from which on the library's own kernel, one call for each client, is faster on a CPU.
_WORTH_A_CALL = 500_000


def gather_patches(x: torch.Tensor, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair) -> torch.Tensor:
    """[n, in, h, w] -> [n, in * height * width, places], as one gathering copy."""
    (kh, kw), (sh, sw), (dh, dw), (ph, pw) = kernel, stride, dilation, padding
    x = F.pad(x, (pw, pw, ph, ph)).contiguous()
    n, c, h, w = x.shape
    oh, ow = (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1
    strides = (c * h * w, h * w, dh * w, dw, sh * w, sw)
    return x.as_strided((n, c, kh, kw, oh, ow), strides).reshape(n, c * kh * kw, oh * ow)


class _Patches(torch.autograd.Function):
    """Patches of the input: one gathering copy forward, one fold backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, conv: Conv) -> torch.Tensor:
        ctx.conv, ctx.size = conv, tuple(x.shape[2:])
        kernels = kernels_for(x)
        gather = gather_patches if kernels is None else kernels.gather_patches
        return gather(x, conv.kernel, conv.stride, conv.dilation, conv.padding)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor):
        (grad,) = grad_outputs
        conv, kernels = ctx.conv, kernels_for(grad)
        if kernels is not None:
            return kernels.scatter_patches(grad, ctx.size, conv.kernel, conv.stride, conv.dilation, conv.padding), None
        return F.fold(grad, ctx.size, conv.kernel, conv.dilation, conv.padding, conv.stride), None


class Conv(nn.Module):
    """A convolution (1-d or 2-d) per client, as weights times patches; weight [clients, out, in * height * width]."""

    def __init__(self, stack: Stack, like: nn.Conv1d | nn.Conv2d) -> None:
        super().__init__()
        if isinstance(like.padding, str) or like.groups != 1 or like.padding_mode != "zeros":
            raise TypeError("only zero-padded convolutions without groups can be stacked")
        self.stack, self.flat = stack, isinstance(like, nn.Conv1d)
        self.alone, self.frozen = True, False  # used once in a forward pass? left as it is?
        self.names: dict[str, str] = {}  # what the model calls each attribute
        self.kernel, self.stride = self._pair(like.kernel_size, 1), self._pair(like.stride, 1)
        self.dilation, self.padding = self._pair(like.dilation, 1), self._pair(like.padding, 0)
        self.weight: torch.Tensor
        self.bias: torch.Tensor | None = None

    def _pair(self, value: Any, other: int) -> tuple[int, int]:
        return (other, value[0]) if self.flat else (value[0], value[1])

    def weights_per_sample(self, n: int) -> torch.Tensor:
        """Each client's weights once per sample: [n, out, k]; they are small beside the patches."""
        c, out, k = self.weight.shape
        return self.weight.unsqueeze(1).expand(c, n // c, out, k).reshape(n, out, k)

    def product(self, patches: torch.Tensor) -> torch.Tensor:
        """[n, k, places] -> [n, out, places]."""
        return self._add_bias(torch.bmm(self.weights_per_sample(len(patches)), patches))

    def back(self, grad: torch.Tensor) -> torch.Tensor:
        """The gradient of the patches from that of the output."""
        return torch.bmm(self.weights_per_sample(len(grad)).transpose(1, 2), grad)

    def move(self, patches: torch.Tensor, grad: torch.Tensor) -> None:
        """One step."""
        clients, move = self.stack.clients, self.stack.move
        assert move is not None
        change = torch.bmm(grad, patches.transpose(1, 2)).reshape(clients, -1, *self.weight.shape[1:]).sum(1)
        move.step(self.names["weight"], self.weight, change)
        if self.bias is not None:
            move.step(self.names["bias"], self.bias, grad.sum(2).reshape(clients, -1, grad.shape[1]).sum(1))

    def _add_bias(self, out: torch.Tensor) -> torch.Tensor:
        if self.bias is None:
            return out
        c, n = self.stack.clients, len(out)
        return out + self.bias.unsqueeze(1).expand(c, n // c, -1).reshape(n, -1, *(1,) * (out.dim() - 2))

    def _shared_product(self, x: torch.Tensor) -> torch.Tensor:
        """The convolution with weights that all clients share: one plain convolution of the merged batch."""
        weight = self.weight[0].unflatten(1, (x.shape[1], *self.kernel))
        out = F.conv2d(channels_last(x) if x.device.type == "cpu" else x, weight, None, self.stride, self.padding, self.dilation)
        return self._add_bias(out.squeeze(2) if self.flat else out)

    def _direct_product(self, x: torch.Tensor) -> torch.Tensor:
        form = DirectForm(self)
        if self.stack.moves(self):
            return FusedStep.apply(x, self.stack.trigger, form)
        return DirectProduct.apply(x, self.weight, self.bias, form)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.flat:
            x = x.unsqueeze(2)
        if self.weight.stride(0) == 0 and self.stack.clients > 1 and not self.stack.moves(self):
            return self._shared_product(x)
        if direct_form_fits(x, self.weight.shape[1], self.kernel, self.stride, self.dilation, self.padding):
            out = self._direct_product(x)
            return out.squeeze(2) if self.flat else out
        height, width = self._output_size(x)
        if x.device.type == "cpu" and len(x) // self.stack.clients * height * width * self.weight[0].numel() >= _WORTH_A_CALL:
            out = convolve_clients(self, x)
            return out.squeeze(2) if self.flat else out
        patches: torch.Tensor = _Patches.apply(x, self)
        moves = self.stack.moves(self)
        out = FusedStep.apply(patches, self.stack.trigger, self) if moves else self.product(patches)
        out = out.reshape(len(x), -1, height, width)
        return out.squeeze(2) if self.flat else out

    def _output_size(self, x: torch.Tensor) -> Pair:
        (kh, kw), (sh, sw), (dh, dw), (ph, pw) = self.kernel, self.stride, self.dilation, self.padding
        h, w = x.shape[2] + 2 * ph, x.shape[3] + 2 * pw
        return (h - dh * (kh - 1) - 1) // sh + 1, (w - dw * (kw - 1) - 1) // sw + 1


class BatchNorm(nn.Module):
    """Batch normalisation per client: statistics over that client's real samples only."""

    def __init__(self, stack: Stack, like: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        super().__init__()
        self.stack, self.eps, self.momentum = stack, like.eps, like.momentum
        if not like.track_running_stats or like.momentum is None:
            raise TypeError("only batch normalisation with running statistics can be stacked")
        self.weight: torch.Tensor
        self.bias: torch.Tensor
        self.running_mean: torch.Tensor
        self.running_var: torch.Tensor
        self.num_batches_tracked: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = self.stack.clients
        parts = x.reshape(c, x.shape[0] // c, x.shape[1], -1)
        if self.training:
            if self.stack.fewest * parts.shape[3] == 1:
                raise ValueError("batch normalisation needs more than one value per channel, and a batch has one sample")
            mean, var = self._statistics(parts)
        else:
            mean, var = self.running_mean, self.running_var
        shape = (c, 1, -1, 1)
        out = (parts - mean.reshape(shape)) * torch.rsqrt(var.reshape(shape) + self.eps)
        return (out * self.weight.reshape(shape) + self.bias.reshape(shape)).reshape(x.shape)

    def _statistics(self, parts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights = self.stack.weights
        real = torch.ones(parts.shape[:2], device=parts.device) if weights is None else (weights > 0).to(parts.dtype)
        real = real.reshape(*parts.shape[:2], 1, 1)
        count = real.sum((1, 3)) * parts.shape[3]
        mean = (parts * real).sum((1, 3)) / count
        var = (((parts - mean.reshape(len(mean), 1, -1, 1)) ** 2) * real).sum((1, 3)) / count
        with torch.no_grad():
            m = self.momentum or 0.0
            unbiased = var * count / torch.clamp(count - 1, min=1)
            self.running_mean.mul_(1 - m).add_(mean, alpha=m)
            self.running_var.mul_(1 - m).add_(unbiased, alpha=m)
            self.num_batches_tracked.add_(1)
        return mean, var


class Norm(nn.Module):
    """Layer or group normalisation: the samples' own statistics, each client's own scale and shift."""

    def __init__(self, stack: Stack, like: nn.LayerNorm | nn.GroupNorm) -> None:
        super().__init__()
        self.stack, self.eps = stack, like.eps
        self.shape = like.normalized_shape if isinstance(like, nn.LayerNorm) else None
        self.groups = like.num_groups if isinstance(like, nn.GroupNorm) else 0
        self.weight: torch.Tensor
        self.bias: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = self.stack.clients
        if self.shape is not None:
            # With a scale and a shift, even of 1 and 0, its kernel for CPUs is a third faster.
            out = F.layer_norm(x, self.shape, x.new_ones(self.shape), x.new_zeros(self.shape), eps=self.eps)
            ones = (1,) * (x.dim() - len(self.shape))
        else:
            out = F.group_norm(x, self.groups, eps=self.eps)
            ones = (1,)
        parts = out.reshape(c, -1, *x.shape[1:])

        def spread(v: torch.Tensor) -> torch.Tensor:
            tail = v.shape[1:] if self.shape is not None else (v.shape[1], *(1,) * (x.dim() - 2))
            return v.reshape(c, *ones, *tail)

        if self.bias is None:
            return (parts * spread(self.weight)).reshape(x.shape)
        return torch.addcmul(spread(self.bias), parts, spread(self.weight)).reshape(x.shape)


class Embedding(nn.Module):
    """A table per client: weight [clients, words, width]."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.stack = stack
        self.weight: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c, words, width = self.weight.shape
        if self.weight.stride(0) == 0 and c > 1:  # frozen and the same for all
            return F.embedding(x, self.weight[0])
        first = torch.arange(c, device=x.device).reshape(c, *(1,) * x.dim()) * words
        rows = x.reshape(c, -1, *x.shape[1:]) + first
        return F.embedding(rows.reshape(x.shape), self.weight.reshape(c * words, width))


class Table(nn.Module):
    """A learnt table added to each sample (positions), or put before it (a class token), per client."""

    def __init__(self, stack: Stack, like: nn.Module, name: str) -> None:
        super().__init__()
        self.stack, self.like, self.name = stack, like, name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # The leaf's own forward, for each client in turn: tables are small, and what it does with them is its own affair.
        tables = getattr(self, self.name)
        parts = x.reshape(self.stack.clients, -1, *x.shape[1:])
        out = torch.func.vmap(lambda t, v: torch.func.functional_call(self.like, {self.name: t}, (v,)))(tables, parts)
        return out.reshape(-1, *out.shape[2:])
