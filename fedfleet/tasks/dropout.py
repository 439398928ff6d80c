"""Dropout whose mask is addressed, not drawn: by seed, client, task, step, layer and element.

The mask is an integer hash, so that one client alone, a stack of clients, a CPU and a GPU all drop the same units.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from fedfleet.core.records import Ints
from fedfleet.core.rng import Seeds, UintArray, hash_keys
from fedfleet.tasks.kernel_choice import kernels_for

# splitmix64's constants as signed integers: torch has no unsigned ones, and products wrap around all the same.
_GOLDEN, _M1, _M2 = -7046029254386353131, -4658895280553007687, -7723592293110705685
_KEEP = {shift: (1 << (64 - shift)) - 1 for shift in (27, 30, 31)}  # makes an arithmetic shift a logical one


def scramble(z: torch.Tensor) -> torch.Tensor:
    """The finaliser of splitmix64 on int64 tensors."""
    z = (z ^ ((z >> 30) & _KEEP[30])) * _M1
    z = (z ^ ((z >> 27) & _KEEP[27])) * _M2
    return z ^ ((z >> 31) & _KEEP[31])


class AddressedDropout(nn.Module):
    """Dropout with probability p; `layer` tells the dropouts of one model apart. The identity when not training.

    `address` is one integer for the whole batch, or one per client when a stack of clients' batches lies one after the
    other in dimension 0. It is given anew for every step.
    """

    address: torch.Tensor

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p, self.layer = p, layer
        self._offset = ((layer + 1) * _M1 + 2**63) % 2**64 - 2**63  # wrapped around, as tensors do
        self.register_buffer("address", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0.0:
            return x
        if kernels_for(x) is not None:
            return _DropoutFunction.apply(x, self.address, self._offset, self.p)
        return apply_dropout(x, self.address, _element_hashes(x.numel() // self.address.numel(), x.device), self._offset, self.p)


class _DropoutFunction(torch.autograd.Function):
    """`apply_dropout` in one kernel; the mask is never stored, but made again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, address: torch.Tensor, offset: int, p: float) -> torch.Tensor:
        ctx.save_for_backward(address)
        ctx.rule = offset, p
        return _kernels(x).apply_dropout(x, address, offset, p)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor):
        (grad,), (address,) = grad_outputs, ctx.saved_tensors
        return _kernels(grad).apply_dropout(grad, address, *ctx.rule), None, None, None


def _kernels(x: torch.Tensor) -> Any:
    module = kernels_for(x)
    assert module is not None
    return module


@lru_cache(maxsize=16)
def _element_hashes(n: int, device: torch.device) -> torch.Tensor:
    """The element numbers of one client's activations, scattered."""
    return torch.arange(n, device=device, dtype=torch.int64) * _GOLDEN


def apply_dropout(x: torch.Tensor, address: torch.Tensor, element: torch.Tensor, offset: int, p: float) -> torch.Tensor:
    """x without the units that this address drops, the others scaled up."""
    base = scramble(address.reshape(-1, 1) + offset)
    bits = (scramble(base + element) >> 40) & 0xFFFFFF
    return x * (bits >= round(p * 2**24)).to(x.dtype).reshape(x.shape) * (1.0 / (1.0 - p))


def dropout_names(module: nn.Module) -> list[str]:
    """The names of the buffers that hold the addresses of a model's dropouts."""
    return [f"{name}.address" for name, leaf in module.named_modules() if isinstance(leaf, AddressedDropout)]


def addresses(seed: Seeds, keys: UintArray, tasks: Ints, step: int) -> Any:
    """One address per client for this step, as an int64 array."""
    return hash_keys(seed, "dropout", keys, tasks, step).view(np.int64)


def address_dropout(module: nn.Module) -> nn.Module:
    """The module with every `nn.Dropout` replaced by an addressed one, so that the seed of a run decides what is dropped."""
    layers = [(path, leaf) for path, leaf in module.named_modules(remove_duplicate=False) if type(leaf) is nn.Dropout]
    for number, (path, leaf) in enumerate(layers):
        module = _with_layer(module, path, AddressedDropout(leaf.p, number).train(leaf.training))
    return module


def plain_dropout(module: nn.Module) -> nn.Module:
    """The module with every addressed dropout replaced by `nn.Dropout`, for use outside a run."""
    layers = [(path, leaf) for path, leaf in module.named_modules(remove_duplicate=False) if isinstance(leaf, AddressedDropout)]
    for path, leaf in layers:
        module = _with_layer(module, path, nn.Dropout(leaf.p).train(leaf.training))
    return module


def _with_layer(module: nn.Module, path: str, layer: nn.Module) -> nn.Module:
    """The module with another layer at this path."""
    if not path:
        return layer
    parent, _, last = path.rpartition(".")
    setattr(module.get_submodule(parent), last, layer)
    return module
