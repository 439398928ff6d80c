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
from fedfleet.learn.codecs.tensor_hash import AT_ONCE, draws

AT, ADDRESS = "|at", "|address"


def topk(*, share: Share = 0.05) -> Codec:
    """The largest numbers of each leaf, by magnitude, and where they were; among equals the first.

    `share` of a leaf, rounded up. Meant with `feedback = true`, and with an integer codec behind it.
    """

    def squeeze(stack: Stack, where: Any) -> Stack:
        del where
        found: dict[str, Any] = {}
        for name, value in stack.items():
            flat = flattened(value)
            found[f"{name}{AT}"], found[name] = _taken(flat, _largest(flat, count(flat.shape[1], share)))
        return found

    def expand(stack: Stack, like: Tree) -> Stack:
        return {n: _put(stack[n], stack[f"{n}{AT}"], v.shape) for n, v in like.items()}

    def through(stack: Stack, where: Any) -> Stack:
        del where
        return {n: _only(v, _largest(flattened(v), count(math.prod(v.shape[1:]), share))) for n, v in stack.items()}

    return Codec("topk", (("share", share),), "select", _all_of_it, squeeze=squeeze, expand=expand, through=through)


def randomk(*, share: Share = 0.05, unbiased: bool = False) -> Codec:
    """Random numbers of each leaf, other ones in each task; their positions follow from an address of 8 bytes.

    `share` of a leaf, rounded up. `unbiased` divides them by the share, so that the mean over tasks is right; leave it off with
    `feedback = true`, which makes up for what is left out by itself.
    """

    def squeeze(stack: Stack, where: Any) -> Stack:
        found: dict[str, Any] = {ADDRESS: where.unsqueeze(1)} if stack else {}
        for number, (name, value) in enumerate(stack.items()):
            flat = flattened(value)
            _, kept = _taken(flat, _drawn(where, number, flat.shape[1], share))
            found[name] = _spoilt(kept * scale(flat.shape[1]), flat)
        return found

    def expand(stack: Stack, like: Tree) -> Stack:
        found: dict[str, Any] = {}
        for number, (name, leaf) in enumerate(like.items()):
            mask = _drawn(stack[ADDRESS][:, 0], number, leaf.size, share)
            found[name] = _put(stack[name], _places(mask), leaf.shape)
        return found

    def through(stack: Stack, where: Any) -> Stack:
        found: dict[str, Any] = {}
        for number, (name, value) in enumerate(stack.items()):
            size = math.prod(value.shape[1:])
            found[name] = _only(_spoilt(value * scale(size), value), _drawn(where, number, size, share))
        return found

    def scale(size: int) -> float:
        return size / count(size, share) if unbiased and size else 1.0

    def within(tree: Tree) -> Tree:
        return {n: v * scale(v.size) for n, v in _all_of_it(tree).items()}

    chosen = (("share", share), ("unbiased", unbiased))
    return Codec(
        "randomk", chosen, "select", within, addressed=True, squeeze=squeeze, expand=expand, through=through
    )  # fmt: skip


def count(size: int, share: float) -> int:
    """How many numbers of a leaf travel.

    >>> count(100, 0.05), count(3, 0.05), count(0, 0.05)
    (5, 1, 0)
    """
    return min(size, math.ceil(share * size - 1e-9))


def flattened(value: Any) -> Any:
    """A leaf of a stack as [clients, numbers], scalars and empty leaves too."""
    return value.reshape(len(value), math.prod(value.shape[1:]))


def _largest(flat: Any, k: int) -> Any:
    """Which k numbers of each row are the largest by magnitude; the first among equals, whatever the device. NaN is largest."""
    import torch

    keys = flat.abs().view(torch.int32)  # magnitudes order as their bits do
    together = max(1, AT_ONCE // max(keys.shape[1], 1))
    return torch.cat([_highest(part, k) for part in keys.split(together)])


def _drawn(where: Any, leaf: int, n: int, share: float) -> Any:
    """Which numbers of a leaf an address names."""
    import torch

    parts = [_highest(bits, count(n, share)) for _, bits in draws(where, leaf, n)]
    return torch.cat(parts) if parts else torch.zeros((0, n), dtype=torch.bool, device=where.device)


def _highest(keys: Any, k: int) -> Any:
    import torch

    if k == 0:
        return torch.zeros_like(keys, dtype=torch.bool)
    limit = keys.topk(k, 1, sorted=False).values.amin(1, keepdim=True)
    above, equal = keys > limit, keys == limit
    return above | (equal & (equal.to(torch.int32).cumsum(1) <= k - above.sum(1, keepdim=True)))


def _places(mask: Any) -> Any:
    import torch

    return mask.nonzero()[:, 1].reshape(len(mask), -1).to(torch.int32) if mask.shape[1] else mask.to(torch.int32)


def _taken(flat: Any, mask: Any) -> tuple[Any, Any]:
    """Places and values where the mask is set; every row has as many."""
    at = _places(mask)
    return at, flat.gather(1, at.long())


def _put(values: Any, at: Any, shape: tuple[int, ...]) -> Any:
    found = values.new_zeros((len(values), math.prod(shape)))
    return found.scatter_(1, at.long(), values).reshape(len(values), *shape)


def _only(value: Any, mask: Any) -> Any:
    """The numbers that the mask names, zeros elsewhere."""
    return value.where(mask.reshape(value.shape), value.new_zeros(()))


def _spoilt(kept: Any, whole: Any) -> Any:
    """A client with a number that is not finite sends nothing that is: else chance might leave out what makes it refused."""
    fine = flattened(whole).isfinite().all(1).reshape(-1, *(1,) * (kept.dim() - 1))
    return kept.where(fine, kept.new_full((), math.nan))


def _all_of_it(tree: Tree) -> Tree:
    """What is left out is lost whole."""
    return {n: np.abs(v.astype(np.float64)) if v.dtype == np.float32 else np.zeros(v.shape) for n, v in tree.items()}
