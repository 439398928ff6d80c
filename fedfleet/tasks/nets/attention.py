"""Small transformers for pictures and texts, their attention written out from linear layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

START_SPREAD = 0.02  # of the learnt tables, as in ViT
NORM_EPS = 1e-5  # PyTorch's; public weights of ViTs were trained with 1e-6


class Positions(nn.Module):
    """Adds a learnt table [tokens, width] to every sample."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(START_SPREAD * torch.randn(tokens, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table


class ClassToken(nn.Module):
    """Puts one learnt token [width] before the tokens of every sample."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = nn.Parameter(START_SPREAD * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.token.expand(x.shape[0], 1, -1), x], dim=1)


class DeepPrompt(nn.Module):
    """Learnt tokens [length, width] after the class token: put there before the first layer, in place of the last ones later."""

    def __init__(self, length: int, width: int, *, first: bool) -> None:
        super().__init__()
        self.behind = 1 if first else 1 + length
        self.table = nn.Parameter(nn.init.xavier_uniform_(torch.empty(length, width)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :1], self.table.expand(x.shape[0], -1, -1), x[:, self.behind :]], dim=1)


class Attention(nn.Module):
    """Self-attention of several heads; `causal`: each place sees only those before it, and itself."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(x).view(x.shape[0], x.shape[1], 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and a two-layer perceptron, each normalised before and added after."""

    def __init__(self, width: int, heads: int, eps: float = NORM_EPS, *, causal: bool = False) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width, eps), Attention(width, heads, causal=causal)
        self.norm2 = nn.LayerNorm(width, eps)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(gelu(self.wide(self.norm2(x))))


class Vit(nn.Module):
    """Patches become tokens, a class token reads them, and the head reads the class token.

    `prompts` is empty, or holds one `DeepPrompt` for each layer.
    """

    def __init__(
        self, shape: Sequence[int], classes: int, *, patch: int = 4, width: int = 192, depth: int = 6, heads: int = 3,
        eps: float = NORM_EPS, fit: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.fit = fit or nn.Identity()  # brings samples into this shape
        channels, height, across = shape
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.token = ClassToken(width)
        self.positions = Positions((height // patch) * (across // patch) + 1, width)
        self.layers = nn.Sequential(*(Layer(width, heads, eps) for _ in range(depth)))
        self.prompts = nn.ModuleList()
        self.norm = nn.LayerNorm(width, eps)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(self.fit(x)).flatten(2).transpose(1, 2)
        x = self.positions(self.token(x))
        for i, layer in enumerate(self.layers):
            x = layer(self.prompts[i](x) if self.prompts else x)
        return self.head(self.norm(x[:, 0]))

    def set_prompts(self, length: int) -> Vit:
        """Give every layer prompts of that many tokens; the model itself."""
        width = self.head.in_features
        self.prompts = nn.ModuleList(DeepPrompt(length, width, first=i == 0) for i in range(len(self.layers)))
        return self


class Gpt(nn.Module):
    """A small causal transformer: at every place of a text, a score for each token that could come next."""

    def __init__(self, tokens: int, places: int, *, width: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.positions = Positions(places, width)
        self.layers = nn.Sequential(*(Layer(width, heads, causal=True) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)
        nn.init.normal_(self.embed.weight, std=START_SPREAD)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(self.positions(self.embed(x)))))


def vit_b16(side: int, classes: int, fit: nn.Module | None = None) -> Vit:
    """ViT-B/16 (Dosovitskiy et al. 2021): patches of 16x16, twelve layers of width 768, twelve heads."""
    return Vit((3, side, side), classes, patch=16, width=768, depth=12, heads=12, eps=1e-6, fit=fit)
