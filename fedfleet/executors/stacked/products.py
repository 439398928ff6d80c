"""Products of the matrices of all clients of a stack: torch's own, or on a CPU with wide vectors the compiled kernel."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import torch

# What a client's product must have before the kernel is faster, and before loading the compiler is worth it.
_LEAST_OPERATIONS, _LEAST_COLUMNS, _LEAST_ROWS_TO_PACK = 1 << 18, 16, 24


@cache
def _kernel() -> ModuleType | None:
    """The compiled kernel; None where vectors are narrower than it needs, or nothing can be compiled."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return None
    try:
        from fedfleet.executors.stacked import product_kernel
    except Exception:  # numba is not installed, or has no folder for its cache: torch does the same
        return None
    return product_kernel


@cache
def lstm_kernel() -> Any:
    """The compiled recurrence, where `kernel_for` gives a kernel."""
    from fedfleet.executors.stacked import lstm_kernel as kernel

    return kernel


def attention_kernel(*tensors: torch.Tensor) -> Any:
    """The compiled attention, if it can work on these tensors; None where it cannot."""
    if kernel_for(*tensors) is None:
        return None
    from fedfleet.executors.stacked import attention_kernel as kernel

    return kernel


def kernel_for(*tensors: torch.Tensor) -> ModuleType | None:
    """The kernel, if it can work on these tensors."""
    plain = all(v.device.type == "cpu" and v.dtype == torch.float32 for v in tensors)
    return _kernel() if plain else None


def is_worth_compiling(rows: int, k: int, columns: int) -> bool:
    """Is one client's product large enough? A stack's height must not decide: it would decide the bits of every client."""
    return 2 * rows * k * columns >= _LEAST_OPERATIONS and columns >= _LEAST_COLUMNS


def product(
    a: torch.Tensor, b: torch.Tensor, *, init: torch.Tensor | None = None, alpha: float = 1.0, out: torch.Tensor | None = None
) -> torch.Tensor:
    """init + alpha a b for every client: a [clients, m, k], b [clients, k, n]; outside autograd where `out` is given.

    Every operand may be a view, or one for all clients; `init` is [clients, 1 or m, n], and may be `out`.
    """
    (c, m, k), n = a.shape, b.shape[2]
    # The kernel reads addresses, and would read beyond what does not fit.
    fits = b.shape[:2] == (c, k) and (out is None or out.shape == (c, m, n))
    if not fits or (init is not None and (len(init) not in (1, c) or init.shape[1] not in (1, m) or init.shape[2] != n)):
        raise ValueError(f"a product of {list(a.shape)} and {list(b.shape)} does not fit")
    reads_rows = b.stride(2) == 1
    kernel = None
    if is_worth_compiling(m, k, n) and (reads_rows or m >= _LEAST_ROWS_TO_PACK) and not _needs_autograd(a, b, init):
        side_by_side = all(v is None or v.stride(2) == 1 for v in (init, out))
        kernel = kernel_for(*(v for v in (a, b, init, out) if v is not None)) if side_by_side else None
    if kernel is None:
        return _torch_product(a, b, init, alpha, out)
    out = a.new_empty(c, m, n) if out is None else out
    if reads_rows and b.stride(1) % 1024:  # rows that lie a page apart would fall onto the same lines of the cache
        _multiply(kernel, a, b, (b.stride(0), kernel.PANEL, b.stride(1)), out, init, alpha)
    else:
        _multiply_panels(kernel, a, panels_of(b), out, init, alpha)
    return out


def product_of_panels(a: torch.Tensor, panels: torch.Tensor, columns: int) -> torch.Tensor:
    """a times what `panels_of` has laid out, which has so many columns."""
    kernel, out = kernel_for(a, panels), a.new_empty(len(a), a.shape[1], columns)
    if kernel is None or a.shape[2] != panels.shape[2] or len(panels) not in (1, len(a)) or -(-columns // 32) != panels.shape[1]:
        raise ValueError(f"a product of {list(a.shape)} and panels {list(panels.shape)} does not fit")
    _multiply_panels(kernel, a, panels, out, None, 1.0)
    return out


def _needs_autograd(*tensors: torch.Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in tensors)


def _torch_product(
    a: torch.Tensor, b: torch.Tensor, init: torch.Tensor | None, alpha: float, out: torch.Tensor | None
) -> torch.Tensor:
    if init is None and alpha == 1.0:
        return torch.bmm(a, b) if out is None else torch.bmm(a, b, out=out)
    if init is None:
        return torch.bmm(a, b).mul_(alpha)
    if out is not None and out is init:
        return out.baddbmm_(a, b, alpha=alpha)
    return torch.baddbmm(init, a, b, alpha=alpha) if out is None else torch.baddbmm(init, a, b, alpha=alpha, out=out)


def panels_of(b: torch.Tensor) -> torch.Tensor:
    """[clients, k, n] in panels of 32 columns, [clients, n / 32, k, 32]; one for all clients where that is what it is."""
    kernel = kernel_for(b)
    assert kernel is not None
    b = b[:1] if b.stride(0) == 0 else b
    panels = b.new_empty(len(b), -(-b.shape[2] // kernel.PANEL), b.shape[1], kernel.PANEL)
    kernel.pack(panels.numpy(), b.detach().numpy())
    return panels


def _multiply_panels(
    kernel: ModuleType, a: torch.Tensor, panels: torch.Tensor, out: torch.Tensor, init: torch.Tensor | None, alpha: float
) -> None:
    _multiply(kernel, a, panels, (client_step(panels), panels.stride(1), kernel.PANEL), out, init, alpha)


def client_step(stack: torch.Tensor) -> int:
    """From one client to the next; 0 where one stands for all."""
    return stack.stride(0) if len(stack) > 1 else 0


def _multiply(
    kernel: ModuleType, a: torch.Tensor, b: torch.Tensor, steps: tuple[int, int, int], out: torch.Tensor,
    init: torch.Tensor | None, alpha: float,
) -> None:  # fmt: skip
    """out = init + alpha a b, where b is read by the steps from client to client, from panel to panel and from row to row."""
    (c, m, k), n = a.shape, out.shape[2]
    start = (0, 0, 0)
    if init is not None:
        start = init.data_ptr(), client_step(init), init.stride(1) if init.shape[1] > 1 else 0
    kernel.multiply(
        c, m, n, k, a.data_ptr(), *a.stride(), b.data_ptr(), *steps, out.data_ptr(), *out.stride()[:2], *start, alpha
    )  # fmt: skip
