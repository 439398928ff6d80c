"""What this machine can train on, its name, and how its C library keeps memory."""

from __future__ import annotations

import ctypes
import platform
from functools import cache

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


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's mallopt
_LARGEST = 32 << 20  # what glibc allows


@cache
def keep_large_blocks() -> bool:
    """Ask the C library to keep blocks of up to 32 MB for the next time; False where it is another one than glibc.

    A model of 5 MB that is made anew in every round costs 3 ms of page faults each time, and a fifth of that when kept.
    """
    try:
        library = ctypes.CDLL("libc.so.6")
        return bool(library.mallopt(_MMAP_THRESHOLD, _LARGEST) and library.mallopt(_TRIM_THRESHOLD, 16 * _LARGEST))
    except (OSError, AttributeError):
        return False
