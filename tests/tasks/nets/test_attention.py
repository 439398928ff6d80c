"""Transformers: tokens, positions, attention."""

import torch
from torch import nn

from fedfleet.tasks.nets.attention import Attention, ClassToken, Positions, Vit


def test_tokens_and_positions():
    x = torch.randn(2, 4, 6)
    token, positions = ClassToken(6), Positions(5, 6)
    with torch.no_grad():
        out = positions(token(x))
        assert torch.allclose(out[:, 1:], x + positions.table[1:])
        assert torch.allclose(out[0, 0], token.token + positions.table[0])


def test_attention_against_its_formula():
    net = Attention(6, 2).eval()
    x = torch.randn(3, 5, 6)
    q, k, v = net.qkv(x).split(6, dim=2)
    heads = [slice(0, 3), slice(3, 6)]
    mixed = [torch.softmax(q[..., h] @ k[..., h].transpose(1, 2) / 3**0.5, -1) @ v[..., h] for h in heads]
    torch.testing.assert_close(net(x), net.out(torch.cat(mixed, 2)))


def test_a_transformer_sees_where_patches_lie():
    torch.manual_seed(0)
    net = Vit((1, 8, 8), 3, patch=4, width=6, depth=1, heads=2).eval()
    nn.init.normal_(net.positions.table)
    x = torch.rand(1, 1, 8, 8)
    with torch.no_grad():
        assert net(x).shape == (1, 3)
        assert not torch.allclose(net(x), net(x.flip(3)))
        nn.init.zeros_(net.positions.table)
        swapped = torch.cat([x[..., 4:], x[..., :4]], 3)
        torch.testing.assert_close(net(x), net(swapped), rtol=1e-4, atol=1e-5)  # without positions a set of patches
