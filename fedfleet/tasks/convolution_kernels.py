"""Convolutions of many clients at once, each with weights of its own, in Triton: no patches are ever written down.

A convolution of one client is a product of its weights [out, k] with the patches of its samples [k, places], k running over input
channels and the taps of the kernel. Written down, the patches of a 5x5 kernel take 25 times the memory of the input, and to write
and read them takes longer than the products. The kernels here read each patch where it lies in the input.

Matrix units multiply bfloat16. A number of single precision is the sum of three of those, to 24 bits: the input is split once into
three *planes*, padded, with its channels last, and six products of planes are added up in single precision. That leaves an error of
1e-7 of the result, a fifth of what single precision leaves. Where PyTorch is set to TF32, two planes and three products do,
with 4e-6, where TF32 leaves 3e-4 (measured on an H200).
"""

# ruff: noqa: N803, N806 - what is compiled in is written in capitals
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from fedfleet.tasks.kernels import output_size

Pair = tuple[int, int]
_CHANNELS = 16  # a multiple of them is what the matrix units take
# Means nothing for bfloat16, but keeps the compiler from putting a product and the addition after it together again.
_APART = tl.constexpr(64)
_PROGRAMS = 512  # that many keep the processors of a large GPU busy


@triton.jit
def _split(value, target, plane, mask, PLANES: tl.constexpr):
    first = value.to(tl.bfloat16)
    tl.store(target, first, mask=mask)
    if PLANES > 1:
        rest = value - first.to(tl.float32)
        second = rest.to(tl.bfloat16)
        tl.store(target + plane, second, mask=mask)
        if PLANES > 2:
            tl.store(target + 2 * plane, (rest - second.to(tl.float32)).to(tl.bfloat16), mask=mask)


@triton.jit
def _split_input(
    x, out, plane, C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, HP: tl.constexpr, WP: tl.constexpr, PH: tl.constexpr,
    PW: tl.constexpr, PLANES: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    h, w = at // WP - PH, at % WP - PW
    real = (h >= 0) & (h < H) & (w >= 0) & (w < W)
    value = tl.load(x + sample * (C * H * W) + c[:, None] * (H * W) + (h * W + w)[None, :], mask=real[None, :], other=0.0)
    target = out + sample * (HP * WP * C) + at[:, None] * C + c[None, :]
    _split(tl.trans(value), target, plane, (at < HP * WP)[:, None], PLANES)


@triton.jit
def _split_weight(
    weight, out, plane, total, ROWS: tl.constexpr, DEPTH: tl.constexpr, TAPS: tl.constexpr, TURNED: tl.constexpr,
    PLANES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    k, row, tap, client = at % DEPTH, at // DEPTH % ROWS, at // (DEPTH * ROWS) % TAPS, at // (DEPTH * ROWS * TAPS)
    source = (client * DEPTH + k) * ROWS + row if TURNED else (client * ROWS + row) * DEPTH + k
    value = tl.load(weight + source * TAPS + tap, mask=at < total, other=0.0)
    _split(value, out + at, plane, at < total, PLANES)


@dataclass(slots=True)
class Planes:
    """Samples [n, c, h, w], padded and split: planes [planes, n, h, w, c]."""

    values: torch.Tensor
    padding: Pair


def plane_count() -> int:
    """How many planes PyTorch's setting for products asks for."""
    return 2 if torch.backends.cuda.matmul.allow_tf32 else 3


def split(x: torch.Tensor, padding: Pair) -> Planes:
    """The planes of samples."""
    x = x.contiguous()
    (n, c, h, w), (ph, pw), planes = x.shape, padding, plane_count()
    high, wide, block = h + 2 * ph, w + 2 * pw, _block(c)
    out = torch.empty(planes, n, high, wide, c, dtype=torch.bfloat16, device=x.device)
    grid = (triton.cdiv(high * wide, 64), n, c // block)
    _split_input[grid](x, out, out[0].numel(), c, h, w, high, wide, ph, pw, planes, block, 64)
    return Planes(out, padding)


def _weight_planes(weight: torch.Tensor, taps: int, *, turned: bool) -> torch.Tensor:
    """[clients, out, in * taps] -> [planes, clients, taps, out, in]; turned round: [.., in, out]."""
    clients, o, width = weight.shape
    rows, depth = (width // taps, o) if turned else (o, width // taps)
    out = torch.empty(plane_count(), clients, taps, rows, depth, dtype=torch.bfloat16, device=weight.device)
    total = out[0].numel()
    _split_weight[(triton.cdiv(total, 1024),)](weight.contiguous(), out, total, total, rows, depth, taps, turned, len(out), 1024)
    return out


@triton.jit
def _add_products(a0, a1, a2, b0, b1, b2, total, small, PLANES: tl.constexpr):
    if PLANES > 2:
        # Matrix units cut what they add to a sum off below its last bit. So the small products have a sum of their own, and each
        # step's large ones begin anew and are added by the rounding adder.
        small = tl.dot(a2, b0, small)
        small = tl.dot(a0, b2, small)
        small = tl.dot(a1, b1, small)
        small = tl.dot(a1, b0, small)
        small = tl.dot(a0, b1, small)
        total += tl.dot(a0, b0, max_num_imprecise_acc=_APART)
    else:
        if PLANES > 1:
            total = tl.dot(a1, b0, total)
            total = tl.dot(a0, b1, total)
        total = tl.dot(a0, b0, total)
    return total, small


@triton.jit
def _convolve_planes(
    x, weight, bias, out, x_plane, weight_plane, places, samples,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, CO: tl.constexpr,
    OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    DH: tl.constexpr, DW: tl.constexpr, HAS_BIAS: tl.constexpr, FLIP: tl.constexpr, PLANES: tl.constexpr,
    BO: tl.constexpr, BP: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(2) * BO + tl.arange(0, BO)
    c = tl.arange(0, BC)
    inside = place < places
    sample, at = place // (OH * OW), place % (OH * OW)
    base = tl.where(inside, sample * (H * W) + at // OW * (SH * W) + at % OW * SW, 0) * C
    rows = x + client * samples * (H * W * C) + base[:, None] + c[None, :]
    parts = weight + client * (KH * KW * CO * C) + tl.where(o < CO, o, 0)[:, None] * C + c[None, :]
    total, small = tl.zeros((BP, BO), tl.float32), tl.zeros((BP, BO), tl.float32)
    for step in range(KH * KW * (C // BC)):
        tap, first = step // (C // BC), step % (C // BC) * BC
        kh, kw = tap // KW, tap % KW
        if FLIP:
            kh, kw = KH - 1 - kh, KW - 1 - kw
        offset = (kh * (DH * W) + kw * DW) * C + first
        part = tap * (CO * C) + first
        a0, b0 = tl.load(rows + offset), tl.load(parts + part)
        a1, b1, a2, b2 = a0, b0, a0, b0
        if PLANES > 1:
            a1, b1 = tl.load(rows + offset + x_plane), tl.load(parts + part + weight_plane)
        if PLANES > 2:
            a2, b2 = tl.load(rows + offset + 2 * x_plane), tl.load(parts + part + 2 * weight_plane)
        total, small = _add_products(a0, a1, a2, tl.trans(b0), tl.trans(b1), tl.trans(b2), total, small, PLANES)
    total += small
    if HAS_BIAS:
        total += tl.load(bias + client * CO + o, mask=o < CO, other=0.0)[None, :]
    target = out + client * samples * (CO * OH * OW) + sample * (CO * OH * OW) + at
    tl.store(target[:, None] + o[None, :] * (OH * OW), total, mask=inside[:, None] & (o < CO)[None, :])


@triton.jit
def _gradient_planes(
    x, grad, out, bias_out, x_plane, grad_plane, samples, share,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, CO: tl.constexpr,
    GH: tl.constexpr, GW: tl.constexpr, GP: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr,
    SH: tl.constexpr, SW: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr, HAS_BIAS: tl.constexpr, PLANES: tl.constexpr,
    BO: tl.constexpr, BN: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    N: tl.constexpr = KH * KW * C
    places = share * (OH * OW)
    client, split = tl.program_id(1).to(tl.int64), tl.program_id(2)
    blocks = tl.cdiv(N, BN)
    o = tl.program_id(0) // blocks * BO + tl.arange(0, BO)
    n = tl.program_id(0) % blocks * BN + tl.arange(0, BN)
    tap, c = n // C, n % C
    offset, column = (tap // KW * (DH * W) + tap % KW * DW) * C + c, (n < N)[None, :]
    rows = x + (client * samples + split * share) * (H * W * C)
    sources = grad + (client * samples + split * share) * (GH * GW * CO) + GP * CO
    total, small = tl.zeros((BO, BN), tl.float32), tl.zeros((BO, BN), tl.float32)
    bias_total = tl.zeros((BO,), tl.float32)
    for start in range(0, places, BP):
        place = start + tl.arange(0, BP)
        inside = place < places
        sample, at = tl.where(inside, place, 0) // (OH * OW), place % (OH * OW)
        base = (sample * (H * W) + at // OW * (SH * W) + at % OW * SW) * C
        source = (sample * (GH * GW) + at // OW * GW + at % OW) * CO
        a = sources + source[:, None] + o[None, :]
        b = rows + base[:, None] + offset[None, :]
        known = inside[:, None] & (o < CO)[None, :]
        a0, b0 = tl.load(a, mask=known, other=0.0), tl.load(b, mask=column, other=0.0)
        a1, b1, a2, b2 = a0, b0, a0, b0
        if PLANES > 1:
            a1, b1 = tl.load(a + grad_plane, mask=known, other=0.0), tl.load(b + x_plane, mask=column, other=0.0)
        if PLANES > 2:
            a2, b2 = tl.load(a + 2 * grad_plane, mask=known, other=0.0), tl.load(b + 2 * x_plane, mask=column, other=0.0)
        total, small = _add_products(tl.trans(a0), tl.trans(a1), tl.trans(a2), b0, b1, b2, total, small, PLANES)
        if HAS_BIAS:
            value = a0.to(tl.float32)
            if PLANES > 1:
                value += a1.to(tl.float32)
            if PLANES > 2:
                value += a2.to(tl.float32)
            bias_total += tl.sum(value, axis=0)
    total += small
    part = client * tl.num_programs(2) + split
    target = out + part * (CO * N) + o[:, None] * N + (c * (KH * KW) + tap)[None, :]
    tl.store(target, total, mask=(o < CO)[:, None] & (n < N)[None, :])
    if HAS_BIAS:
        tl.store(bias_out + part * CO + o, bias_total, mask=(o < CO) & (tl.program_id(0) % blocks == 0))


def convolve(
    x: Planes, weight: torch.Tensor, bias: torch.Tensor | None, kernel: Pair, stride: Pair, dilation: Pair, *, turned: bool = False
) -> torch.Tensor:
    """Samples with each client's weight [clients, out, in * kh * kw] and bias [clients, out] -> [n, out, oh, ow].

    Turned round, the other way through the same weights: [n, out, ..] -> [n, in, ..], as gradients go.
    """
    taps = kernel[0] * kernel[1]
    parts = _weight_planes(weight, taps, turned=turned)
    planes, n, h, w, c = x.values.shape
    clients, o = parts.shape[1], parts.shape[3]
    oh, ow = output_size((h, w), kernel, stride, dilation, (0, 0))
    out = torch.empty(n, o, oh, ow, device=weight.device)
    places = n // clients * oh * ow
    bo, bp, warps, stages = forward_tile(o, planes)
    sizes = (places, n // clients, c, h, w, o, oh, ow, *kernel, *stride, *dilation)
    _convolve_planes[triton.cdiv(places, bp), clients, triton.cdiv(o, bo)](
        x.values, parts, weight if bias is None else bias.contiguous(), out, x.values[0].numel(), parts[0].numel(), *sizes,
        bias is not None, turned, planes, bo, bp, _block(c), num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def weight_gradient(
    x: Planes, grad: Planes, clients: int, kernel: Pair, stride: Pair, dilation: Pair, *, bias: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gradients of each client's weight [clients, out, in * kh * kw], and of its bias if it has one."""
    planes, n, h, w, c = x.values.shape
    (_, _, gh, gw, o), (ph, pw) = grad.values.shape, grad.padding
    width, samples = c * kernel[0] * kernel[1], n // clients
    bo, bn, bp, warps, stages = gradient_tile(o, width, planes)
    programs = triton.cdiv(width, bn) * triton.cdiv(o, bo)
    parts = cut(samples, clients * programs)
    out, bias_out = torch.empty(clients, parts, o, width, device=x.values.device), None
    if bias:
        bias_out = torch.empty(clients, parts, o, device=x.values.device)
    sizes = (samples, samples // parts, c, h, w, o, gh, gw, ph * gw + pw, gh - 2 * ph, gw - 2 * pw, *kernel, *stride, *dilation)
    _gradient_planes[programs, clients, parts](
        x.values, grad.values, out, out if bias_out is None else bias_out, x.values[0].numel(), grad.values[0].numel(), *sizes,
        bias, planes, bo, bn, bp, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return add_parts(out), None if bias_out is None else add_parts(bias_out)


def cut(samples: int, programs: int) -> int:
    """Into how many parts of its samples a client's sum is cut, so that enough programs run."""
    return next((n for n in range(1, samples + 1) if samples % n == 0 and n * programs >= _PROGRAMS), samples)


def add_parts(parts: torch.Tensor) -> torch.Tensor:
    return parts[:, 0] if parts.shape[1] == 1 else parts.sum(1)


def _block(channels: int) -> int:
    """The channels that one step takes: the largest power of two in them, up to 64."""
    return min(64, channels & -channels)


def tile_rows(outputs: int) -> int:
    """Output channels of a tile: a power of two that holds them, up to 64."""
    return max(16, min(64, triton.next_power_of_2(outputs)))


def forward_tile(outputs: int, planes: int) -> tuple[int, int, int, int]:
    """Output channels and places of a tile, warps, stages."""
    del planes
    rows = tile_rows(outputs)
    return (rows, 128, 8, 3) if rows == 64 else (rows, 64, 4, 3)


def gradient_tile(outputs: int, width: int, planes: int) -> tuple[int, int, int, int, int]:
    """Output channels, columns of the weight and places of a tile, warps, stages."""
    del planes, width
    return tile_rows(outputs), 64, 64, 4, 2


def takes_planes(*channels: int) -> bool:
    """Are there channels enough on all sides?"""
    return all(n % _CHANNELS == 0 for n in channels)
