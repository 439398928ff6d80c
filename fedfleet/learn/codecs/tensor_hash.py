"""Addressed draws on stacks of tensors: the same numbers alone or in a stack, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_GOLDEN = -7046029254386353131  # splitmix64's step as a signed integer, as in tasks.dropout
CHUNK_ELEMENTS = 1 << 24  # elements whose draws lie in memory together


def draws(where: Any, leaf: int, n: int) -> Iterator[tuple[slice, Any]]:
    """For groups of clients, 63-bit integers [clients, n], one for every element of their leaf of this number."""
    import torch

    from fedfleet.tasks.dropout import scramble

    base = scramble(where + (leaf + 1) * 0x51ED270B)
    elements = torch.arange(n, device=where.device, dtype=torch.int64) * _GOLDEN
    step = max(1, CHUNK_ELEMENTS // max(n, 1))
    for a in range(0, len(where), step):
        part = slice(a, a + step)
        yield part, scramble(base[part].reshape(-1, 1) + elements) & 0x7FFFFFFFFFFFFFFF


def uniforms(where: Any, leaf: int, n: int) -> Iterator[tuple[slice, Any]]:
    """The same as float32 numbers in [0, 1), of 24 bits each."""
    import torch

    for part, bits in draws(where, leaf, n):
        yield part, (bits >> 39).to(torch.float32) * 2.0**-24
