"""The processor that trains, by a name that decides which kernels are chosen, and so the last bits."""

from __future__ import annotations

import platform


def hardware_name(device: str) -> str:
    """The name of a GPU ("none" if there is none), or the machine and the widest vectors that torch uses on it."""
    import torch

    if device == "cuda":
        return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
