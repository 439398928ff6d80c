"""Max pooling of windows that do not overlap, in Triton: PyTorch's own backward pass takes several times as long as the memory."""

# ruff: noqa: N803 - what is compiled in is written in capitals
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _pool(
    x, out, best, total, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    plane, h, w = at // (OH * OW), at // OW % OH, at % OW
    corner = x + (plane * H + h * KH) * W + w * KW
    value = tl.load(corner, mask=inside, other=0.0)
    where = tl.zeros((BLOCK,), tl.int8)
    for tap in tl.static_range(1, KH * KW):
        other = tl.load(corner + tap // KW * W + tap % KW, mask=inside, other=0.0)
        larger = (other > value) | (other != other)  # the first of equal ones stays; what is not a number is passed on
        value = tl.where(larger, other, value)
        where = tl.where(larger, tl.full((BLOCK,), tap, tl.int8), where)
    tl.store(out + at, value, mask=inside)
    tl.store(best + at, where, mask=inside)


@triton.jit
def _unpool(
    grad, best, out, total, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr,
    KW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    plane, h, w = at // (H * W), at // W % H, at % W
    inside = (at < total) & (h // KH < OH) & (w // KW < OW)
    source = (plane * OH + h // KH) * OW + w // KW
    mine = h % KH * KW + w % KW
    chosen = tl.load(best + source, mask=inside, other=-1).to(tl.int32) == mine.to(tl.int32)
    value = tl.load(grad + source, mask=inside & chosen, other=0.0)
    tl.store(out + at, value, mask=at < total)


def max_pool(x: torch.Tensor, window: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest value of each window of each plane [.., h, w], and which of the window's places it was at."""
    x = x.contiguous()
    (h, w), (kh, kw) = x.shape[-2:], window
    out = x.new_empty(*x.shape[:-2], h // kh, w // kw)
    best = torch.empty(out.shape, dtype=torch.int8, device=x.device)
    _pool[(triton.cdiv(out.numel(), _BLOCK),)](x, out, best, out.numel(), h, w, h // kh, w // kw, kh, kw, _BLOCK)
    return out, best


def max_pool_backward(grad: torch.Tensor, best: torch.Tensor, size: tuple[int, int], window: tuple[int, int]) -> torch.Tensor:
    """The gradient of the input [.., h, w] from that of the output: each window's goes to where its largest value was."""
    (h, w), (kh, kw) = size, window
    out = grad.new_empty(*grad.shape[:-2], h, w)
    sizes = (h, w, h // kh, w // kw, kh, kw)
    _unpool[(triton.cdiv(out.numel(), _BLOCK),)](grad.contiguous(), best, out, out.numel(), *sizes, _BLOCK)
    return out
