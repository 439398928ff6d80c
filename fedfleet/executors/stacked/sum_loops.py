"""Looking at updates and adding them up where they lie, on a CPU: compiled loops that read every update twice in all.

Their integers are those of `core.exact`. They serve models that are large enough to be worth loading the compiler, where it is
installed; elsewhere plain torch does the same, in more passes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

COMPILE_MIN_ELEMENTS = 100_000  # of a leaf: loading the compiler takes half a second, and smaller leaves are added in a millisecond
_BLOCK = 4096  # elements whose sums stay in the first cache while every client is added
_MAGNITUDE = np.uint32(0x7FFF_FFFF)  # without their signs, bits of floats are in the order of their values; NaN is above infinity


class SumLoops(NamedTuple):
    """The compiled loops, over updates [clients, elements]."""

    add: Callable[..., None]
    look: Callable[..., None]


def _add(total: Any, x: Any, factors: Any) -> None:
    for a in range(0, total.size, _BLOCK):
        b = min(a + _BLOCK, total.size)
        for c in range(len(x)):
            factor = factors[c]
            if factor != 0.0:  # an update that was refused may hold anything
                for i in range(a, b):
                    total[i] += np.int64(np.rint(np.float64(x[c, i]) * factor))


def _look(x: Any, bits: Any, peaks: Any, squares: Any) -> None:
    for c in range(len(x)):
        peak, total = np.uint32(0), 0.0
        for i in range(x.shape[1]):
            peak = max(peak, bits[c, i] & _MAGNITUDE)
            value = np.float64(x[c, i])
            total += value * value
        peaks[c], squares[c] = peak, total


@functools.cache
def _compile_loops() -> SumLoops | None:
    try:
        from numba import njit, types
    except ImportError:
        return None
    table, words = (types.Array(kind, 2, "C", readonly=True) for kind in (types.float32, types.uint32))
    doubles, total, peaks = types.float64[::1], types.int64[::1], types.uint32[::1]
    try:
        add = njit(types.void(total, table, doubles), cache=True, nogil=True)(_add)
        # Sums of squares may be added in any order, as long as it is always the same.
        look = njit(types.void(table, words, peaks, doubles), cache=True, nogil=True, fastmath={"reassoc"})(_look)
        return SumLoops(add, look)
    except Exception:  # no folder for its cache, a cache that was torn: torch does the same
        return None


def sum_loops(update: torch.Tensor) -> SumLoops | None:
    """The loops that can work on these updates, [clients, ..]; None where plain torch serves them better."""
    large = update.device.type == "cpu" and update.dtype == torch.float32 and update[0].numel() >= COMPILE_MIN_ELEMENTS
    return _compile_loops() if large and update.is_contiguous() else None


def peaks_and_squares(loops: SumLoops, update: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest magnitude of each client, not finite where an element is not, and the sum of its squares."""
    rows = update.detach().reshape(len(update), -1).numpy()
    peaks, squares = np.zeros(len(rows), np.uint32), np.zeros(len(rows))
    loops.look(rows, rows.view(np.uint32), peaks, squares)
    return torch.from_numpy(peaks.view(np.float32)), torch.from_numpy(squares)


def add_exactly(loops: SumLoops, total: torch.Tensor, update: torch.Tensor, factors: torch.Tensor) -> None:
    """total += the sum over clients of rint(float64(update) factor), flat; refused clients have factor 0."""
    if total.numel() != update[0].numel():  # a compiled loop would write beyond its array
        raise ValueError(f"updates have {update[0].numel()} elements, their sum has {total.numel()}")
    loops.add(total.numpy(), update.detach().reshape(len(update), -1).numpy(), factors.numpy())
