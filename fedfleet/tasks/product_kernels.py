"""Products of a few rows of each client with its own large weights, in Triton: they take as long as the weights take to be read.

The libraries' products of single precision are made for larger batches, and with 16 rows take more than twice as long. Numbers are
split into three of bfloat16 on the way, as in `convolution_kernels`.
"""

# ruff: noqa: N803 - what is compiled in is written in capitals
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

_ROWS = 32  # more rows fill the libraries' tiles
_LARGE = 1 << 18  # elements of one client's weights


@triton.jit
def _product(
    x, weight, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TURNED: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    client = tl.program_id(1).to(tl.int64)
    m, n = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    x += client * M * K
    weight += client * N * K
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        rows = tl.load(x + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        if TURNED:
            part = tl.load(weight + n[:, None] * K + k[None, :], mask=(n < N)[:, None] & (k < K)[None, :], other=0.0)
            total = tl.dot(rows, tl.trans(part), total, input_precision=PRECISION)
        else:
            part = tl.load(weight + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
            total = tl.dot(rows, part, total, input_precision=PRECISION)
    tl.store(out + client * M * N + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


def precision() -> str:
    """How numbers are split on the way."""
    return "bf16x6"


def takes(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Is this product worth it: few rows, large weights, and all of single precision?"""
    single = not torch.backends.cuda.matmul.allow_tf32 and x.dtype == weight.dtype == torch.float32
    large = weight.shape[1] * weight.shape[2] >= _LARGE and x.shape[1] <= _ROWS
    return single and large and (weight.is_contiguous() or weight.transpose(1, 2).is_contiguous())


def stack_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[clients, m, k] times [clients, k, n], or the transpose of [clients, n, k] in memory."""
    x, turned = x.contiguous(), not weight.is_contiguous()
    (clients, m, k), n = x.shape, weight.shape[2]
    out = x.new_empty(clients, m, n)
    rows = max(16, triton.next_power_of_2(m))
    _product[triton.cdiv(n, 64), clients](x, weight, out, m, n, k, turned, precision(), rows, 64, 64, num_warps=4, num_stages=3)
    return out
