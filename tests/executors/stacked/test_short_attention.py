"""Attention over short sequences gives PyTorch's own numbers, and stands back from what it is not made for."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from fedfleet.executors.stacked import short_attention
from fedfleet.executors.stacked.short_attention import LONGEST, WIDEST, AttentionWatch, ShortAttention

SHAPE = (3, 2, 7, 5)


def inputs(shape=SHAPE, dtype=torch.float32):
    """Queries, keys and values as a model hands them over: views of one tensor, heads behind places."""
    samples, heads, places, width = shape
    whole = torch.sin(torch.arange(samples * places * 3 * heads * width, dtype=torch.float64)).to(dtype)
    whole = whole.reshape(samples, places, 3, heads, width).requires_grad_()
    return whole, whole.permute(2, 0, 3, 1, 4).unbind(0)


def outcome(mode, shape=SHAPE, **settings):
    """The output, and the gradient of everything that went in."""
    whole, parts = inputs(shape)
    if mode is None:
        out = F.scaled_dot_product_attention(*parts, **settings)
    else:
        with mode:
            out = F.scaled_dot_product_attention(*parts, **settings)
    (out * torch.cos(out.detach())).sum().backward()
    return out.detach(), whole.grad


@pytest.fixture
def taken(monkeypatch):
    """How often the own way was taken."""
    calls, attend = [], short_attention._attend
    monkeypatch.setattr(short_attention, "_attend", lambda *args, **settings: calls.append(1) or attend(*args, **settings))
    return calls


@pytest.mark.parametrize("settings", [{}, {"is_causal": True}, {"scale": 0.7, "is_causal": True}], ids=["all", "causal", "scaled"])
def test_it_is_pytorchs_attention_forward_and_backward(settings, taken):
    wanted, mine = outcome(None, **settings), outcome(ShortAttention(), **settings)
    assert taken
    for a, b in zip(wanted, mine, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_no_place_sees_a_later_one():
    _, (q, k, v) = inputs()
    later = v.detach().clone()
    later[:, :, 4:] += 1.0
    with torch.no_grad(), ShortAttention():
        before, after = (F.scaled_dot_product_attention(q, k, value, is_causal=True) for value in (v, later))
    assert torch.equal(before[:, :, :4], after[:, :, :4])
    assert not torch.equal(before[:, :, 4], after[:, :, 4])


def test_it_gives_the_same_bits_each_time():
    once, again = outcome(ShortAttention()), outcome(ShortAttention())
    assert all(map(torch.equal, once, again))


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((1, 1, LONGEST + 1, 4), {}),
        ((1, 1, 4, WIDEST + 1), {}),
        (SHAPE, {"attn_mask": torch.ones(7, 7, dtype=torch.bool)}),
        (SHAPE, {"dropout_p": 0.5}),
    ],
    ids=["long", "wide", "mask of one's own", "dropout"],
)
def test_what_it_is_not_made_for_goes_to_pytorch(shape, settings, taken):
    torch.manual_seed(0)
    wanted = outcome(None, shape, **settings)
    torch.manual_seed(0)
    mine = outcome(ShortAttention(), shape, **settings)
    assert not taken
    assert all(map(torch.equal, wanted, mine))


def test_double_precision_goes_to_pytorch(taken):
    _, (q, k, v) = inputs(dtype=torch.float64)
    with ShortAttention():
        F.scaled_dot_product_attention(q, k, v)
    assert not taken


def test_a_watch_notes_attention_alone():
    _, (q, k, v) = inputs()
    with AttentionWatch() as watch:
        F.relu(q)
        assert not watch.called
        F.scaled_dot_product_attention(q, k, v)
    assert watch.called
