"""What this machine can train on, and its name."""

from __future__ import annotations

import platform

from fedfleet.core.errors import BadInput


def require_cuda() -> None:
    """Refuse CUDA where there is none: a run that quietly took the CPU instead would be another run."""
    try:
        import torch
    except ImportError:
        raise BadInput("training needs PyTorch, which is not installed; install fedfleet[train]") from None
    if not torch.cuda.is_available():
        raise BadInput('run.device = "cuda": there is no CUDA device here; use cpu')


def has_cuda() -> bool:
    """Is there a GPU to train on?"""
    import torch

    return torch.cuda.is_available()


def hardware_name(device: str) -> str:
    """The name of a GPU ("none" if there is none), or the machine and the widest vectors that torch uses on it.

    It decides which kernels are chosen, and so the last bits.
    """
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
