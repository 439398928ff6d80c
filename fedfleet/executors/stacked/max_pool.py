"""Max pooling for all clients of a stack on an accelerator, where the windows do not overlap.

It holds for every model that calls `max_pool2d`, also one of a person's own: the largest value of each window, as PyTorch finds it,
and the gradient to the first place that has it. PyTorch's own backward pass looks, for each place of the input, through all windows
that could have chosen it, and takes several times as long as the memory does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from fedfleet.tasks.kernel_choice import kernels_for

Pair = tuple[int, int]


class WindowPooling(TorchFunctionMode):
    """While it is entered, max pooling of windows that do not overlap takes the way below; everything else is as it was."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        window = plain_window(*args, **(kwargs or {})) if func in (F.max_pool2d, torch.max_pool2d) else None
        if window is None:
            return func(*args, **(kwargs or {}))
        return MaxPool.apply(args[0] if args else (kwargs or {})["input"], window)


def plain_window(
    input: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Pair | None:
    """The window, if windows stand side by side and there are kernels for this tensor; else None."""
    window, between = _pair(kernel_size), _pair(stride) if stride is not None and stride != [] else _pair(kernel_size)
    plain = between == window and _pair(padding) == (0, 0) and _pair(dilation) == (1, 1) and not ceil_mode and not return_indices
    fits = input.dtype == torch.float32 and window[0] * window[1] <= 127 and min(input.shape[-2:]) >= max(window)
    return window if plain and fits and kernels_for(input, "pooling_kernels") is not None else None


def _pair(value: Any) -> Pair:
    if isinstance(value, int):
        return value, value
    return (value[0], value[-1])


class MaxPool(torch.autograd.Function):
    """[.., h, w] -> [.., h // kh, w // kw]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, window: Pair) -> torch.Tensor:
        kernels = kernels_for(x, "pooling_kernels")
        assert kernels is not None
        out, best = kernels.max_pool(x, window)
        ctx.size, ctx.window = tuple(x.shape[-2:]), window
        ctx.save_for_backward(best)
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor):
        (grad,), (best,) = grad_outputs, ctx.saved_tensors
        kernels = kernels_for(grad, "pooling_kernels")
        assert kernels is not None
        return kernels.max_pool_backward(grad, best, ctx.size, ctx.window), None
