"""Convolutions of many clients at once, each with weights of its own, in Triton: no patches are ever written down.

A convolution of one client is a product of its weights [out, k] with the patches of its samples [k, places], k running over input
channels and the places of the kernel. The kernels below read a patch where it lies in the (padded) input, as they need it. Written
down, the patches of a 5x5 kernel take 25 times the memory of the input, and reading and writing them took longer than the products.

Products are made of halves of single precision: each number is a sum of two or three of bfloat16, which matrix units multiply and
add up in single precision. Of three (`bf16x6`: six products) the error is 1e-7 of the result, no larger than that of single
precision itself; of two (`bf16x3`) 4e-6, where TF32 leaves 3e-4 (measured on an H200).
"""

# ruff: noqa: N803 - what is compiled in is written in capitals
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch.nn import functional as F  # noqa: N812

from fedfleet.tasks.kernels import output_size

Pair = tuple[int, int]


@triton.jit
def _convolve(
    x, weight, bias, out,
    PLACES: tl.constexpr, SAMPLES: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, HAS_BIAS: tl.constexpr, FLIP: tl.constexpr, PRECISION: tl.constexpr,
    BO: tl.constexpr, BP: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    K: tl.constexpr = C * KH * KW
    client = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(2) * BO + tl.arange(0, BO)
    inside = place < PLACES
    sample, at = place // (OH * OW), place % (OH * OW)
    base = sample * (C * H * W) + at // OW * (SH * W) + at % OW * SW
    x += client * (SAMPLES * C * H * W)
    weight += client * (O * K)
    total = tl.zeros((BO, BP), tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        c, kh, kw = k // (KH * KW), k // KW % KH, k % KW
        if FLIP:
            kh, kw = KH - 1 - kh, KW - 1 - kw
        offset = c * (H * W) + kh * (DH * W) + kw * DW
        patches = tl.load(x + offset[:, None] + base[None, :], mask=(k < K)[:, None] & inside[None, :], other=0.0)
        part = tl.load(weight + o[:, None] * K + k[None, :], mask=(o < O)[:, None] & (k < K)[None, :], other=0.0)
        total = tl.dot(part, patches, total, input_precision=PRECISION)
    if HAS_BIAS:
        total += tl.load(bias + client * O + o, mask=o < O, other=0.0)[:, None]
    out += client * (SAMPLES * O * OH * OW)
    target = sample * (O * OH * OW) + at
    tl.store(out + target[None, :] + o[:, None] * (OH * OW), total, mask=(o < O)[:, None] & inside[None, :])


@triton.jit
def _weight_gradient(
    x, grad, out, bias_out,
    PLACES: tl.constexpr, SAMPLES: tl.constexpr, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, O: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr,
    BO: tl.constexpr, BN: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    K: tl.constexpr = C * KH * KW
    client = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * BN + tl.arange(0, BN)
    o = tl.program_id(2) * BO + tl.arange(0, BO)
    offset = k // (KH * KW) * (H * W) + k // KW % KH * (DH * W) + k % KW * DW
    x += client * (SAMPLES * C * H * W)
    grad += client * (SAMPLES * O * OH * OW)
    total = tl.zeros((BO, BN), tl.float32)
    bias_total = tl.zeros((BO,), tl.float32)
    for first in range(0, PLACES, BP):
        place = first + tl.arange(0, BP)
        inside = place < PLACES
        sample, at = place // (OH * OW), place % (OH * OW)
        base = sample * (C * H * W) + at // OW * (SH * W) + at % OW * SW
        source = sample * (O * OH * OW) + at
        g = tl.load(grad + source[None, :] + o[:, None] * (OH * OW), mask=(o < O)[:, None] & inside[None, :], other=0.0)
        patches = tl.load(x + offset[:, None] + base[None, :], mask=(k < K)[:, None] & inside[None, :], other=0.0)
        total = tl.dot(g, tl.trans(patches), total, input_precision=PRECISION)
        if HAS_BIAS:
            bias_total += tl.sum(g, axis=1)
    tl.store(out + client * (O * K) + o[:, None] * K + k[None, :], total, mask=(o < O)[:, None] & (k < K)[None, :])
    if HAS_BIAS:
        if tl.program_id(0) == 0:
            tl.store(bias_out + client * O + o, bias_total, mask=o < O)


def precision() -> str:
    """How products are made: as PyTorch is set for products, single precision or, with TF32 allowed, nearly."""
    return "bf16x3" if torch.backends.cuda.matmul.allow_tf32 else "bf16x6"


def convolve(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair,
    *, flip: bool = False,
) -> torch.Tensor:  # fmt: skip
    """[n, in, h, w] with each client's weight [clients, out, in * kh * kw] (and bias [clients, out]) -> [n, out, oh, ow]."""
    x, weight = _padded(x, padding), weight.contiguous()
    (n, c, h, w), (clients, o, _) = x.shape, weight.shape
    oh, ow = output_size((h, w), kernel, stride, dilation, (0, 0))
    out = x.new_empty(n, o, oh, ow)
    places = n // clients * oh * ow
    bo, bp, bk, warps, stages = _forward_tile(o, c * kernel[0] * kernel[1])
    grid = (triton.cdiv(places, bp), clients, triton.cdiv(o, bo))
    sizes = (places, n // clients, c, h, w, o, oh, ow, *kernel, *stride, *dilation)
    _convolve[grid](
        x, weight, weight if bias is None else bias.contiguous(), out, *sizes, bias is not None, flip, precision(), bo, bp, bk,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def input_gradient(
    grad: torch.Tensor, weight: torch.Tensor, kernel: Pair, dilation: Pair, padding: Pair
) -> torch.Tensor:
    """The gradient of the input of a convolution of stride 1: one more convolution, with the kernels turned round."""
    clients, o, width = weight.shape
    taps = kernel[0] * kernel[1]
    turned = weight.reshape(clients, o, width // taps, taps).transpose(1, 2).reshape(clients, width // taps, o * taps)
    beyond = dilation[0] * (kernel[0] - 1) - padding[0], dilation[1] * (kernel[1] - 1) - padding[1]
    return convolve(grad, turned, None, kernel, (1, 1), dilation, beyond, flip=True)


def weight_gradient(
    x: torch.Tensor, grad: torch.Tensor, clients: int, kernel: Pair, stride: Pair, dilation: Pair, padding: Pair, *, bias: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gradients of each client's weight [clients, out, in * kh * kw], and of its bias if it has one."""
    x, grad = _padded(x, padding), grad.contiguous()
    (n, c, h, w), (o, oh, ow) = x.shape, grad.shape[1:]
    width, places = c * kernel[0] * kernel[1], n // clients * oh * ow
    out, bias_out = x.new_empty(clients, o, width), x.new_empty(clients, o) if bias else None
    bo, bn, bp, warps, stages = _gradient_tile(o, width)
    sizes = (places, n // clients, c, h, w, o, oh, ow, *kernel, *stride, *dilation)
    _weight_gradient[triton.cdiv(width, bn), clients, triton.cdiv(o, bo)](
        x, grad, out, out if bias_out is None else bias_out, *sizes, bias, precision(), bo, bn, bp, num_warps=warps, num_stages=stages
    )
    return out, bias_out


def _padded(x: torch.Tensor, padding: Pair) -> torch.Tensor:
    (high, wide) = padding
    return F.pad(x, (wide, wide, high, high)) if high or wide else x.contiguous()


def _rows(outputs: int) -> int:
    """Rows of a tile: a power of two that holds the output channels, as far as registers go."""
    return max(16, min(64, triton.next_power_of_2(outputs)))


def _forward_tile(outputs: int, width: int) -> tuple[int, int, int, int, int]:
    """Output channels, places and depth of a tile, warps, stages."""
    return _rows(outputs), 128, 32 if width >= 32 else 16, 4, 3


def _gradient_tile(outputs: int, width: int) -> tuple[int, int, int, int, int]:
    """Output channels, columns of the weight and places of a tile, warps, stages."""
    return _rows(outputs), 64 if width >= 64 else 32, 32, 4, 3
