"""What this machine can train on."""

from __future__ import annotations

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
