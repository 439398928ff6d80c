"""Kernels for accelerators, in Triton, for what torch alone would do in many passes over memory.

Shapes are compiled in, so that the index arithmetic costs nothing; a kernel for a new shape takes a fraction of a second.
Every kernel writes each of its elements once and adds in a fixed order: the same bits on every run.
"""

# Triton comes with CUDA builds of torch only, and its functions are a language of their own that only looks like Python.
# ruff: noqa: N803 - what is compiled in is written in capitals
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _gather(
    x, out, total,
    H: tl.constexpr, W: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, OH: tl.constexpr,
    OW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr, PH: tl.constexpr,
    PW: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    ow = at % OW
    oh = at // OW % OH
    kw = at // (OW * OH) % KW
    kh = at // (OW * OH * KW) % KH
    plane = at // (OW * OH * KW * KH)  # sample and channel together
    h = oh * SH + kh * DH - PH
    w = ow * SW + kw * DW - PW
    inside = (at < total) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
    value = tl.load(x + (plane * H + h) * W + w, mask=inside, other=0.0)
    tl.store(out + at, value, mask=at < total)


@triton.jit
def _scatter(
    grad, out, total,
    H: tl.constexpr, W: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, OH: tl.constexpr,
    OW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr, PH: tl.constexpr,
    PW: tl.constexpr, INDEX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    w = at % W + PW
    h = at // W % H + PH
    plane = at // (W * H)
    value = tl.zeros((BLOCK,), grad.dtype.element_ty)
    for kh in tl.static_range(KH):
        for kw in tl.static_range(KW):
            top = h - kh * DH
            left = w - kw * DW
            oh = top // SH
            ow = left // SW
            inside = (at < total) & (top >= 0) & (left >= 0) & (oh < OH) & (ow < OW)
            inside = inside & (top % SH == 0) & (left % SW == 0)
            place = (((plane * KH + kh) * KW + kw) * OH + oh) * OW + ow
            value += tl.load(grad + place, mask=inside, other=0.0)
    tl.store(out + at, value, mask=at < total)


@triton.jit
def _mix(z):
    # splitmix64's finaliser on signed integers; the masks make arithmetic shifts logical ones
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit
def _drop(x, address, out, total, each, offset, cut, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    base = _mix(tl.load(address + at // each, mask=inside, other=0) + offset)
    bits = (_mix(base + (at % each) * -7046029254386353131) >> 40) & 0xFFFFFF
    value = tl.load(x + at, mask=inside, other=0.0)
    tl.store(out + at, value * tl.where(bits >= cut, 1.0, 0.0) * scale, mask=inside)


@triton.jit
def _peak(end, start, out, squares, n, row, blocks, HAS_START: tl.constexpr, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    client = tl.program_id(1).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    change = tl.load(end + client * n + at, mask=inside, other=0.0)
    if HAS_START:
        change = change - tl.load(start + client * row + at, mask=inside, other=0.0)
    size = tl.where(change == change, tl.abs(change), float("inf"))  # NaN counts as boundless
    tl.store(out + client * blocks + block, tl.max(size, axis=0))
    tl.store(squares + client * blocks + block, tl.sum(change * change, axis=0))


@triton.jit
def _sum(end, start, factor, out, n, row, clients, HAS_START: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.zeros((BLOCK,), tl.int64)
    for client in range(clients):
        weight = tl.load(factor + client)
        change = tl.load(end + at, mask=inside, other=0.0)
        if HAS_START:
            change = change - tl.load(start + at, mask=inside, other=0.0)
            start += row
        end += n
        scaled = tl.where(weight != 0.0, change.to(tl.float64) * weight, 0.0)
        # rint: adding 1.5 * 2^52 leaves no room for a fraction; what is larger than that has none
        whole = (scaled + 6755399441055744.0) - 6755399441055744.0
        total += tl.where(tl.abs(scaled) < 2251799813685248.0, whole, scaled).to(tl.int64)
    before = tl.load(out + at, mask=inside, other=0)
    tl.store(out + at, before + total, mask=inside)


Pair = tuple[int, int]


def gather_patches(x: torch.Tensor, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair) -> torch.Tensor:
    """[n, in, h, w] -> [n, in * height * width, places]."""
    n, c, h, w = x.shape
    oh, ow = output_size((h, w), kernel, stride, dilation, padding)
    out = x.new_empty(n, c * kernel[0] * kernel[1], oh * ow)
    sizes = (h, w, *kernel, oh, ow, *stride, *dilation, *padding)
    _gather[(triton.cdiv(out.numel(), _BLOCK),)](x.contiguous(), out, out.numel(), *sizes, _index_type(out, x), _BLOCK)
    return out


def scatter_patches(grad: torch.Tensor, size: Pair, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair) -> torch.Tensor:
    """The transpose of `gather_patches`: every place of the input collects what its patches received."""
    c = grad.shape[1] // (kernel[0] * kernel[1])
    oh, ow = output_size(size, kernel, stride, dilation, padding)
    out = grad.new_empty(len(grad), c, *size)
    sizes = (*size, *kernel, oh, ow, *stride, *dilation, *padding)
    _scatter[(triton.cdiv(out.numel(), _BLOCK),)](grad.contiguous(), out, out.numel(), *sizes, _index_type(out, grad), _BLOCK)
    return out


def _index_type(*tensors: torch.Tensor) -> tl.dtype:
    """The narrowest integer that can address all of these: dividing wide ones costs more than moving the data."""
    return tl.int32 if max(t.numel() for t in tensors) < 2**31 - _BLOCK else tl.int64


def output_size(size: Pair, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair) -> Pair:
    """Height and width of a convolution's output."""
    high, wide = (
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in zip(size, kernel, stride, dilation, padding, strict=True)
    )
    return high, wide


def apply_dropout(x: torch.Tensor, address: torch.Tensor, offset: int, p: float) -> torch.Tensor:
    """x without the units that this address drops, the others scaled up; `dropout.apply_dropout` says how."""
    x = x.contiguous()
    out = torch.empty_like(x)
    sizes = (x.numel(), x.numel() // address.numel(), offset, round(p * 2**24), 1.0 / (1.0 - p))
    _drop[(triton.cdiv(x.numel(), _BLOCK),)](x, address, out, *sizes, _BLOCK)
    return out


def peaks_and_squares(end: torch.Tensor, start: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest |end - start| of each client, infinite where it is not a number, and the sum of its squares; [clients]."""
    clients, n = len(end), math.prod(end.shape[1:])
    blocks = triton.cdiv(n, _BLOCK)
    out, squares = end.new_empty(clients, blocks), end.new_empty(clients, blocks)
    row = 0 if start is None or not start.stride(0) else n
    start_rows = end if start is None else _rows(start)
    _peak[(blocks, clients)](end.contiguous(), start_rows, out, squares, n, row, blocks, start is not None, _BLOCK)
    return out.amax(1), squares.double().sum(1)


def add_exactly(total: torch.Tensor, end: torch.Tensor, start: torch.Tensor | None, factor: torch.Tensor) -> None:
    """total += sum over clients of rint(float64(end - start) factor); clients of factor 0 count as nothing."""
    n = math.prod(end.shape[1:])
    row = 0 if start is None or not start.stride(0) else n
    start_rows = end if start is None else _rows(start)
    grid = (triton.cdiv(n, _BLOCK),)
    # Without fusion: the product must be rounded before it is added to anything.
    _sum[grid](end.contiguous(), start_rows, factor, total, n, row, len(end), start is not None, _BLOCK, enable_fp_fusion=False)


def _rows(start: torch.Tensor) -> torch.Tensor:
    """Where the clients' beginnings lie: one row for all of them, or one each."""
    return start.contiguous() if start.stride(0) else start[0].contiguous()
