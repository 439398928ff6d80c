"""Few of many numbers: the largest of each leaf, or random ones. The others arrive as zero.

Top-k: Aji and Heafield 2017, and Lin et al. 2018, who keep what is left out for the next time (`feedback = true`). Random-k:
Konecny et al. 2016; both ends know from one address which numbers those are, so that no position travels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedfleet.core.codec import Codec, Stack
from fedfleet.core.limits import Share
from fedfleet.core.trees import Tree
from fedfleet.learn.codecs.messages import CHUNK_ELEMENTS, draws

AT, ADDRESS = "|at", "|address"


def topk(*, share: Share = 0.05) -> Codec:
    """The largest numbers of each leaf, by magnitude, and where they were; among equals the first.

    `share` of a leaf, rounded up. Meant with `feedback = true`, and with an integer codec behind it.
    """

    def squeeze(stack: Stack, _where: Any) -> Stack:
        result: dict[str, Any] = {}
        for name, value in stack.items():
            flat = flatten(value)
            result[f"{name}{AT}"], result[name] = _gather(flat, _largest_mask(flat, count(flat.shape[1], share)))
        return result

    def expand(stack: Stack, like: Tree) -> Stack:
        return {n: _scatter(stack[n], stack[f"{n}{AT}"], v.shape) for n, v in like.items()}

    def through(stack: Stack, _where: Any) -> Stack:
        return {n: _apply_mask(v, _largest_mask(flatten(v), count(math.prod(v.shape[1:]), share))) for n, v in stack.items()}

    return Codec("topk", (("share", share),), "select", _magnitudes, squeeze=squeeze, expand=expand, through=through)


def randomk(*, share: Share = 0.05, unbiased: bool = False) -> Codec:
    """Random numbers of each leaf, other ones in each task; their positions follow from an address of 8 bytes.

    `share` of a leaf, rounded up. `unbiased` divides them by the share, so that the mean over tasks is right; leave it off with
    `feedback = true`, which makes up for what is left out by itself.
    """

    def squeeze(stack: Stack, where: Any) -> Stack:
        result: dict[str, Any] = {ADDRESS: where.unsqueeze(1)} if stack else {}
        for number, (name, value) in enumerate(stack.items()):
            flat = flatten(value)
            _, values = _gather(flat, _random_mask(where, number, flat.shape[1], share))
            result[name] = _spread_nan(values * scale(flat.shape[1]), flat)
        return result

    def expand(stack: Stack, like: Tree) -> Stack:
        result: dict[str, Any] = {}
        for number, (name, leaf) in enumerate(like.items()):
            mask = _random_mask(stack[ADDRESS][:, 0], number, leaf.size, share)
            result[name] = _scatter(stack[name], _positions(mask), leaf.shape)
        return result

    def through(stack: Stack, where: Any) -> Stack:
        result: dict[str, Any] = {}
        for number, (name, value) in enumerate(stack.items()):
            size = math.prod(value.shape[1:])
            result[name] = _apply_mask(_spread_nan(value * scale(size), value), _random_mask(where, number, size, share))
        return result

    def scale(size: int) -> float:
        return size / count(size, share) if unbiased and size else 1.0

    def within(tree: Tree) -> Tree:
        return {n: v * scale(v.size) for n, v in _magnitudes(tree).items()}

    settings = (("share", share), ("unbiased", unbiased))
    return Codec("randomk", settings, "select", within, addressed=True, squeeze=squeeze, expand=expand, through=through)


def count(size: int, share: float) -> int:
    """How many numbers of a leaf travel.

    >>> count(100, 0.05), count(3, 0.05), count(0, 0.05)
    (5, 1, 0)
    """
    return min(size, math.ceil(share * size - 1e-9))


def flatten(value: Any) -> Any:
    """A leaf of a stack as [clients, numbers], scalars and empty leaves too."""
    return value.reshape(len(value), math.prod(value.shape[1:]))


def _largest_mask(flat: Any, k: int) -> Any:
    """Which k numbers of each row are the largest by magnitude; the first among equals, whatever the device. NaN is largest."""
    import torch

    keys = flat.abs().view(torch.int32)  # magnitudes order as their bits do
    rows_at_once = max(1, CHUNK_ELEMENTS // max(keys.shape[1], 1))
    return torch.cat([_highest_mask(part, k) for part in keys.split(rows_at_once)])


def _random_mask(where: Any, leaf: int, n: int, share: float) -> Any:
    """Which numbers of a leaf an address names."""
    import torch

    parts = [_highest_mask(bits, count(n, share)) for _, bits in draws(where, leaf, n)]
    return torch.cat(parts) if parts else torch.zeros((0, n), dtype=torch.bool, device=where.device)


def _highest_mask(keys: Any, k: int) -> Any:
    import torch

    if k == 0:
        return torch.zeros_like(keys, dtype=torch.bool)
    limit = keys.topk(k, 1, sorted=False).values.amin(1, keepdim=True)
    above, equal = keys > limit, keys == limit
    return above | (equal & (equal.to(torch.int32).cumsum(1) <= k - above.sum(1, keepdim=True)))


def _positions(mask: Any) -> Any:
    import torch

    return mask.nonzero()[:, 1].reshape(len(mask), -1).to(torch.int32) if mask.shape[1] else mask.to(torch.int32)


def _gather(flat: Any, mask: Any) -> tuple[Any, Any]:
    """Places and values where the mask is set; every row has as many."""
    positions = _positions(mask)
    return positions, flat.gather(1, positions.long())


def _scatter(values: Any, positions: Any, shape: tuple[int, ...]) -> Any:
    result = values.new_zeros((len(values), math.prod(shape)))
    return result.scatter_(1, positions.long(), values).reshape(len(values), *shape)


def _apply_mask(value: Any, mask: Any) -> Any:
    """The numbers that the mask names, zeros elsewhere."""
    return value.where(mask.reshape(value.shape), value.new_zeros(()))


def _spread_nan(values: Any, whole: Any) -> Any:
    """A client with a number that is not finite sends nothing that is: else chance might leave out what makes it refused."""
    finite = flatten(whole).isfinite().all(1).reshape(-1, *(1,) * (values.dim() - 1))
    return values.where(finite, values.new_full((), math.nan))


def _magnitudes(tree: Tree) -> Tree:
    """What is left out is lost whole."""
    return {n: np.abs(v.astype(np.float64)) if v.dtype == np.float32 else np.zeros(v.shape) for n, v in tree.items()}
