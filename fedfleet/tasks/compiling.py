"""Compiling small functions for accelerators, where that works; where it does not, they run as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch


@cache
def compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The function as one fused kernel; if the compiler refuses, now or for another shape, the function itself."""
    fast: Any = torch.compile(function, dynamic=False)
    works = True

    def call(*args: Any) -> torch.Tensor:
        nonlocal works
        if works:
            try:
                return fast(*args)
            except Exception:
                # Compilers fail in many ways, and none of them may fail a run that can go on without one.
                works = False
        return function(*args)

    return call
