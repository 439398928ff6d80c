"""Convolutions one client after the other: each client's own, with one channel or many, moved in place or by gradients."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from fedfleet.executors.stacked.client_convolutions import channels_last, convolve_clients
from fedfleet.executors.stacked.fused_step import Move
from fedfleet.executors.stacked.layers import Conv
from fedfleet.executors.stacked.linear_layers import Stack

CLIENTS, BATCH = 3, 2


def leaf_of(like):
    stack = Stack()
    stack.clients = CLIENTS
    leaf = Conv(stack, like)
    draw = torch.Generator().manual_seed(0)
    leaf.weight = torch.randn(CLIENTS, like.out_channels, like.weight[0].numel(), generator=draw)
    leaf.bias = torch.randn(CLIENTS, like.out_channels, generator=draw) if like.bias is not None else None
    leaf.names = {"weight": "weight", "bias": "bias"}
    return leaf


CONVOLUTIONS = [
    nn.Conv2d(1, 4, 3, padding=1),
    nn.Conv2d(3, 5, (3, 2), stride=2, bias=False),
    nn.Conv2d(2, 4, 3, dilation=2, padding=(2, 1)),
]


def samples(like, requires_grad=False):
    return torch.randn(CLIENTS * BATCH, like.in_channels, 9, 8, generator=torch.Generator().manual_seed(1)).requires_grad_(
        requires_grad
    )


def own(leaf, like, x, c):
    weight = leaf.weight[c].reshape(like.weight.shape)
    bias = None if leaf.bias is None else leaf.bias[c]
    return F.conv2d(x[c * BATCH : (c + 1) * BATCH], weight, bias, like.stride, like.padding, like.dilation)


@pytest.mark.parametrize("like", CONVOLUTIONS, ids=str)
def test_each_client_has_its_own_convolution(like):
    leaf, x = leaf_of(like), samples(like)
    out = convolve_clients(leaf, x)
    assert torch.allclose(out, torch.cat([own(leaf, like, x, c) for c in range(CLIENTS)]), atol=1e-5)


@pytest.mark.parametrize("like", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("needs_down", [False, True])
def test_a_fused_step_is_a_step_along_each_clients_gradient(like, needs_down):
    leaf, reference = leaf_of(like), leaf_of(like)
    x, same = samples(like, needs_down), samples(like, True)
    reference.weight.requires_grad_()
    if reference.bias is not None:
        reference.bias.requires_grad_()
    torch.cat([own(reference, like, same, c) for c in range(CLIENTS)]).square().sum().backward()
    leaf.stack.move, leaf.stack.trigger = Move(0.01), torch.zeros((), requires_grad=True)
    convolve_clients(leaf, x).square().sum().backward()
    for name in ("weight", "bias") if leaf.bias is not None else ("weight",):
        before = getattr(reference, name)
        assert torch.allclose(getattr(leaf, name), before.detach() - 0.01 * before.grad, atol=1e-4)
    if needs_down:
        assert torch.allclose(x.grad, same.grad, atol=1e-3)


def test_weights_may_ask_for_gradients_instead():
    like = CONVOLUTIONS[2]
    leaf, x = leaf_of(like), samples(like)
    leaf.weight.requires_grad_()
    convolve_clients(leaf, x)[:BATCH].sum().backward()
    assert leaf.weight.grad[0].any()
    assert not leaf.weight.grad[1:].any()


@pytest.mark.parametrize("channels", [1, 3])
def test_channels_lie_side_by_side_and_the_strides_say_so(channels):
    x = torch.randn(2, channels, 4, 5)
    y = channels_last(x)
    assert torch.equal(x, y)
    assert y.stride() == (20 * channels, 1, 5 * channels, channels)
    assert channels_last(y) is y


def test_a_leaf_takes_them_where_a_clients_work_is_large():
    like = nn.Conv2d(8, 32, 5, padding=2)
    leaf, x = leaf_of(like), torch.randn(CLIENTS * BATCH, 8, 12, 12)
    assert leaf(x).stride(1) == 1
    assert leaf_of(CONVOLUTIONS[0])(samples(CONVOLUTIONS[0])).stride(1) > 1
