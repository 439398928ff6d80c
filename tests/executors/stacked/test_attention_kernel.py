"""The compiled attention: PyTorch's numbers in double precision, for every length and width, wherever heads lie."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from fedfleet.executors.stacked import products
from fedfleet.executors.stacked.short_attention import LONGEST, WIDEST, _CompiledAttention

pytestmark = pytest.mark.skipif(products._kernel() is None, reason="this processor has no vectors of 512 bits, or numba is missing")
SIZES = [(3, 2, 7, 5), (2, 3, 32, 8), (2, 1, 33, WIDEST), (1, 2, LONGEST, 3), (2, 2, 1, 4)]  # samples, heads, places, width


def outcome(attend, whole):
    whole = whole.detach().requires_grad_()
    out = attend(*whole.permute(2, 0, 3, 1, 4).unbind(0))
    weights = torch.cos(torch.arange(out.numel(), dtype=out.dtype)).reshape(out.shape)
    return out.detach(), torch.autograd.grad((out * weights).sum(), whole)[0]


def drawn(n, heads, places, width):
    return torch.randn(n, places, 3, heads, width, generator=torch.Generator().manual_seed(places))


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_outputs_and_gradients_are_pytorchs(size, causal):
    whole, scale = drawn(*size), 0.7
    mine = outcome(lambda q, k, v: _CompiledAttention.apply(q, k, v, causal, scale), whole)
    truth = outcome(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale), whole.double())
    for a, b in zip(mine, truth, strict=True):
        assert torch.allclose(a.double(), b, atol=2e-6 * float(b.abs().max()))


def test_large_scores_do_not_overflow():
    q, k, v = (100.0 * part for part in drawn(*SIZES[1]).permute(2, 0, 3, 1, 4).unbind(0))
    mine, truth = _CompiledAttention.apply(q, k, v, True, 1.0), F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
    assert torch.allclose(mine, truth, atol=1e-2)


def test_one_samples_nan_stays_its_own_and_stays_nan():
    whole = drawn(*SIZES[1])
    whole[1, 5, 1] = torch.nan  # the keys of one place, which later places see
    out = _CompiledAttention.apply(*whole.permute(2, 0, 3, 1, 4).unbind(0), True, 1.0)
    assert out[0].isfinite().all()
    assert out[1, :, :5].isfinite().all()
    assert out[1, :, 5:].isnan().all()
