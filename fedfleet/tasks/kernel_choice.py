"""Where own kernels can run: on CUDA tensors, when Triton is installed. Elsewhere plain torch does the same, in more passes."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import torch

# The first of Triton's versions and of GPUs that multiply in halves of single precision.
_TRITON, _CAPABILITY = (3, 5), (8, 0)


@cache
def _kernels(name: str) -> ModuleType | None:
    try:
        return import_module(f"fedfleet.tasks.{name}")
    except ImportError:  # builds of torch for CPUs, and for some systems, come without Triton
        return None


def kernels_for(x: torch.Tensor, name: str = "kernels") -> ModuleType | None:
    """The kernels of this module, if they can work on this tensor; None where there are none."""
    return _kernels(name) if x.is_cuda else None


def convolutions_for(x: torch.Tensor) -> ModuleType | None:
    """The kernels for convolutions, where numbers can be split."""
    return kernels_for(x, "convolution_kernels") if splits_numbers(x) else None


def splits_numbers(x: torch.Tensor) -> bool:
    """Are these numbers of single precision, on a GPU with units for products of matrices and a compiler that splits numbers?"""
    return x.dtype == torch.float32 and _has_units(x.device)


@cache
def _has_units(device: torch.device) -> bool:
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < _CAPABILITY:
        return False
    try:
        import triton  # pyright: ignore[reportMissingImports]
    except ImportError:
        return False
    return tuple(map(int, triton.__version__.split(".")[:2])) >= _TRITON
