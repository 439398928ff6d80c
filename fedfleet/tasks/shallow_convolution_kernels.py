"""Convolutions of many clients at once from inputs of few channels, as a first layer has, in Triton.

Split into planes (`convolution_kernels`), such an input would be mostly padding. These kernels read single precision where it lies,
and split each number on the way, to the same precision.
"""

# ruff: noqa: N803, N806 - what is compiled in is written in capitals
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch.nn import functional as F  # noqa: N812

from fedfleet.tasks.convolution_kernels import Pair, add_parts, cut, plane_count, tile_rows
from fedfleet.tasks.kernels import output_size


@triton.jit
def _convolve_few(
    x, weight, bias, out, places, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, CO: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BO: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    K: tl.constexpr = C * KH * KW
    client = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(2) * BO + tl.arange(0, BO)
    inside = place < places
    sample, at = place // (OH * OW), place % (OH * OW)
    base = sample * (C * H * W) + at // OW * (SH * W) + at % OW * SW
    x += client * samples * (C * H * W)
    weight += client * (CO * K)
    total = tl.zeros((BO, BP), tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        offset = k // (KH * KW) * (H * W) + k // KW % KH * (DH * W) + k % KW * DW
        patches = tl.load(x + offset[:, None] + base[None, :], mask=(k < K)[:, None] & inside[None, :], other=0.0)
        part = tl.load(weight + o[:, None] * K + k[None, :], mask=(o < CO)[:, None] & (k < K)[None, :], other=0.0)
        total = tl.dot(part, patches, total, input_precision=PRECISION)
    if HAS_BIAS:
        total += tl.load(bias + client * CO + o, mask=o < CO, other=0.0)[:, None]
    target = out + client * samples * (CO * OH * OW) + sample * (CO * OH * OW) + at
    tl.store(target[None, :] + o[:, None] * (OH * OW), total, mask=(o < CO)[:, None] & inside[None, :])


@triton.jit
def _gradient_few(
    x, grad, out, bias_out, samples, share,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, CO: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BO: tl.constexpr, BN: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    N: tl.constexpr = C * KH * KW
    places = share * (OH * OW)
    client, split = tl.program_id(1).to(tl.int64), tl.program_id(2)
    blocks = tl.cdiv(N, BN)
    o = tl.program_id(0) // blocks * BO + tl.arange(0, BO)
    n = tl.program_id(0) % blocks * BN + tl.arange(0, BN)
    offset = n // (KH * KW) * (H * W) + n // KW % KH * (DH * W) + n % KW * DW
    x += (client * samples + split * share) * (C * H * W)
    grad += (client * samples + split * share) * (CO * OH * OW)
    total = tl.zeros((BO, BN), tl.float32)
    bias_total = tl.zeros((BO,), tl.float32)
    for start in range(0, places, BP):
        place = start + tl.arange(0, BP)
        inside = place < places
        sample, at = place // (OH * OW), place % (OH * OW)
        base = sample * (C * H * W) + at // OW * (SH * W) + at % OW * SW
        source = sample * (CO * OH * OW) + at
        g = tl.load(grad + source[None, :] + o[:, None] * (OH * OW), mask=(o < CO)[:, None] & inside[None, :], other=0.0)
        patches = tl.load(x + offset[:, None] + base[None, :], mask=(n < N)[:, None] & inside[None, :], other=0.0)
        total = tl.dot(g, tl.trans(patches), total, input_precision=PRECISION)
        if HAS_BIAS:
            bias_total += tl.sum(g, axis=1)
    part = client * tl.num_programs(2) + split
    tl.store(out + part * (CO * N) + o[:, None] * N + n[None, :], total, mask=(o < CO)[:, None] & (n < N)[None, :])
    if HAS_BIAS:
        tl.store(bias_out + part * CO + o, bias_total, mask=(o < CO) & (tl.program_id(0) % blocks == 0))


def precision() -> str:
    """How numbers are split on the way, as `plane_count` says."""
    return "bf16x3" if plane_count() == 2 else "bf16x6"


def convolve(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair
) -> torch.Tensor:
    """[n, in, h, w] with each client's weight [clients, out, in * kh * kw] and bias [clients, out] -> [n, out, oh, ow]."""
    x, weight = _padded(x, padding), weight.contiguous()
    (n, c, h, w), (clients, o, width) = x.shape, weight.shape
    oh, ow = output_size((h, w), kernel, stride, dilation, (0, 0))
    out = x.new_empty(n, o, oh, ow)
    places, bo = n // clients * oh * ow, min(32, tile_rows(o))
    sizes = (places, n // clients, c, h, w, o, oh, ow, *kernel, *stride, *dilation)
    _convolve_few[triton.cdiv(places, 128), clients, triton.cdiv(o, bo)](
        x, weight, weight if bias is None else bias.contiguous(), out, *sizes, bias is not None, precision(), bo, 128,
        32 if width > 16 else 16, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


def weight_gradient(
    x: torch.Tensor, grad: torch.Tensor, clients: int, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair, *, bias: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gradients of each client's weight [clients, out, in * kh * kw], and of its bias if it has one."""
    x, grad = _padded(x, padding), grad.contiguous()
    (n, c, h, w), (o, oh, ow) = x.shape, grad.shape[1:]
    width, samples, bo = c * kernel[0] * kernel[1], n // clients, min(32, tile_rows(o))
    programs = triton.cdiv(width, 32) * triton.cdiv(o, bo)
    parts = cut(samples, clients * programs // 2)
    out, bias_out = x.new_empty(clients, parts, o, width), x.new_empty(clients, parts, o) if bias else None
    sizes = (samples, samples // parts, c, h, w, o, oh, ow, *kernel, *stride, *dilation)
    _gradient_few[programs, clients, parts](
        x, grad, out, out if bias_out is None else bias_out, *sizes, bias, precision(), bo, 32, 32, num_warps=4, num_stages=3
    )
    return add_parts(out), None if bias_out is None else add_parts(bias_out)


def _padded(x: torch.Tensor, padding: Pair) -> torch.Tensor:
    high, wide = padding
    return F.pad(x, (wide, wide, high, high)) if high or wide else x.contiguous()
