"""Floats of 16 bits: half the bytes. FP16 is finer and ends at 65,504; BF16 has the range of FP32 and 8 bits of precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedfleet.core.codec import Codec, Stack
from fedfleet.core.trees import Tree


def fp16() -> Codec:
    """IEEE half precision: 11 bits of precision; beyond 65,504 numbers become infinite, and such a report is refused."""
    import torch

    return _half(
        "fp16", torch.float16, lambda v: np.where(np.abs(v) >= 65520.0, np.inf, np.abs(v) * 2.0**-11 + 2.0**-25)
    )


def bf16() -> Codec:
    """Brain floats: 8 bits of precision and the whole range of float32, as integers of 16 bits."""
    import torch

    # Above the largest such float, halfway to where the next would be, rounding gives infinity.
    return _half("bf16", torch.bfloat16, lambda v: np.where(np.abs(v) > 3.3895e38, np.inf, np.abs(v) * 2.0**-8 + 1e-40))


def _half(name: str, kind: Any, error: Any) -> Codec:
    import torch

    def squeeze(stack: Stack, where: Any) -> Stack:
        del where
        # Numpy has no brain floats: they travel as the integers that their bits are.
        return {n: v.to(kind) if kind is torch.float16 else v.to(kind).view(torch.int16) for n, v in stack.items()}

    def expand(stack: Stack, like: Tree) -> Stack:
        return {n: stack[n].view(kind).to(torch.float32) for n in like}

    def through(stack: Stack, where: Any) -> Stack:
        del where
        return {n: v.to(kind).to(torch.float32) for n, v in stack.items()}

    def within(tree: Tree) -> Tree:
        return {n: error(v.astype(np.float64)) if v.dtype == np.float32 else np.zeros(v.shape) for n, v in tree.items()}

    return Codec(name, (), "round", within, squeeze=squeeze, expand=expand, through=through)
