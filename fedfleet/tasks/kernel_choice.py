"""Where own kernels can run: on CUDA tensors, when Triton is installed. Elsewhere plain torch does the same, in more passes."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import torch


@cache
def _kernels() -> ModuleType | None:
    try:
        from fedfleet.tasks import kernels
    except ImportError:  # builds of torch for CPUs, and for some systems, come without Triton
        return None
    return kernels


def kernels_for(x: torch.Tensor) -> ModuleType | None:
    """The kernels that can work on this tensor; None where there are none."""
    return _kernels() if x.is_cuda else None
