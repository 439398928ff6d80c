"""A step of Adam in one pass over memory, in Triton: each of its tensors is read once and written once."""

# ruff: noqa: N803 - what is compiled in is written in capitals
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

_BLOCK = 1024


@triton.jit
def _adam(
    param, grad, first, second, rate, out, total, each, b1, b2, rest1, rest2, root, eps, scale, decay,
    RATES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    p, g = tl.load(param + at, mask=inside), tl.load(grad + at, mask=inside)
    m, v = tl.load(first + at, mask=inside), tl.load(second + at, mask=inside)
    m = m * b1 + g * rest1
    v = v * b2 + g * g * rest2
    step = m / (tl.sqrt(v) * root + eps)
    own = tl.load(rate + at // each, mask=inside) if RATES else rate
    p = p * (1.0 - own * decay) - step * (own * scale)
    tl.store(first + at, m, mask=inside)
    tl.store(second + at, v, mask=inside)
    tl.store(out + at, p, mask=inside)


def adam_step(
    param: torch.Tensor, grad: torch.Tensor, moments: tuple[torch.Tensor, torch.Tensor], rate: float | torch.Tensor, step: int,
    *, betas: tuple[float, float], eps: float, decay: float,
) -> torch.Tensor:  # fmt: skip
    """The parameters after a step, [clients, ..]; the moments change in place. `decay` is AdamW's; `rate` is one, or one each."""
    param, (first, second), (b1, b2) = param.detach().contiguous(), moments, betas
    out, total = torch.empty_like(param), param.numel()
    own = isinstance(rate, torch.Tensor)
    numbers = (b1, b2, 1 - b1, 1 - b2, (1 - b2**step) ** -0.5, eps, 1.0 / (1 - b1**step), decay)
    _adam[(triton.cdiv(total, _BLOCK),)](
        param, grad.contiguous(), first, second, rate.contiguous() if own else float(rate), out, total,
        total // max(len(param), 1), *numbers, own, _BLOCK,
    )  # fmt: skip
    return out
