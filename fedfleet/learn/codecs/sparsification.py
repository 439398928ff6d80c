"""Few of many numbers: the largest of each leaf, random ones, or those that a count sketch finds. The others arrive as zero.

Top-k: Aji and Heafield 2017, and Lin et al. 2018, who keep what is left out for the next time (`feedback = true`). Random-k:
Konecny et al. 2016; both ends know from one address which numbers those are, so that no position travels.

The count sketch (Charikar et al. 2002; Rothchild et al. 2020 for updates) adds every number with a random sign into one bucket of
each of a few rows: number i goes into bucket h_r(i) of row r with the sign s_r(i), and its estimate is the median over rows of
s_r(i) S[r, h_r(i)]. Everybody uses the same hashes, so that sketches add up: sketch(x + y) = sketch(x) + sketch(y).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.codec import Codec, Stack
from fedfleet.core.limits import Seed, Share
from fedfleet.core.records import Ints
from fedfleet.core.rng import hash_keys
from fedfleet.core.trees import Array, Tree
from fedfleet.learn.codecs.messages import CHUNK_ELEMENTS, draws, draws_of_one

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

    def squeeze_tree(tree: Tree, _address: int) -> Tree:
        result = dict[str, Array]()
        for name, leaf in tree.items():
            positions = np.flatnonzero(_highest_of_one(np.abs(leaf).reshape(-1).view(np.int32), count(leaf.size, share)))
            result[f"{name}{AT}"], result[name] = positions.astype(np.int32), leaf.reshape(-1)[positions]
        return result

    def expand_tree(tree: Tree, like: Tree) -> Tree:
        return {n: _scatter_one(tree[n], tree[f"{n}{AT}"], v.shape) for n, v in like.items()}

    return Codec(
        "topk", (("share", share),), "select", _magnitudes, squeeze=squeeze, expand=expand, through=through,
        squeeze_tree=squeeze_tree, expand_tree=expand_tree,
    )  # fmt: skip


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

    def squeeze_tree(tree: Tree, address: int) -> Tree:
        result: dict[str, Array] = {ADDRESS: np.array([address], np.int64)} if tree else {}
        for number, (name, leaf) in enumerate(tree.items()):
            values = leaf.reshape(-1)[_random_positions(address, number, leaf.size, share)] * np.float32(scale(leaf.size))
            result[name] = values if np.isfinite(leaf).all() else np.full_like(values, np.nan)
        return result

    def expand_tree(tree: Tree, like: Tree) -> Tree:
        result = dict[str, Array]()
        for number, (name, leaf) in enumerate(like.items()):
            positions = _random_positions(int(tree[ADDRESS][0]), number, leaf.size, share)
            result[name] = _scatter_one(tree[name], positions, leaf.shape)
        return result

    settings = (("share", share), ("unbiased", unbiased))
    return Codec(
        "randomk", settings, "select", within, addressed=True, squeeze=squeeze, expand=expand, through=through,
        squeeze_tree=squeeze_tree, expand_tree=expand_tree,
    )  # fmt: skip


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


# ---- one message, with numpy alone --------------------------------------------------------------------------------


def _random_positions(address: int, leaf: int, n: int, share: float) -> Ints:
    """Which numbers of a leaf an address names."""
    return np.flatnonzero(_highest_of_one(draws_of_one(address, leaf, n), count(n, share)))


def _highest_of_one(keys: Array, k: int) -> Array:
    """Which k of these integers are the largest; the first among equals."""
    if k == 0:
        return np.zeros(len(keys), bool)
    limit = np.partition(keys, len(keys) - k)[len(keys) - k]
    above, equal = keys > limit, keys == limit
    return above | (equal & (np.cumsum(equal) <= k - above.sum()))


def _scatter_one(values: Array, positions: Array, shape: tuple[int, ...]) -> Array:
    if len(positions) and not 0 <= positions.min() <= positions.max() < math.prod(shape):
        raise ValueError("it names numbers that the leaf does not have")
    result = np.zeros(math.prod(shape), values.dtype)
    result[positions] = values
    return result.reshape(shape)


def _magnitudes(tree: Tree) -> Tree:
    """What is left out is lost whole."""
    return {n: np.abs(v.astype(np.float64)) if v.dtype == np.float32 else np.zeros(v.shape) for n, v in tree.items()}


# ---- count sketch -------------------------------------------------------------------------------------------------

SKETCH = "|sketch"
Rows = Annotated[int, Ge(1), Le(99)]


def sketch(*, rows: Rows = 5, share: Share = 0.2, top: Share = 0.02, seed: Seed = 0) -> Codec:
    """A count sketch of all numbers together, of which the largest estimates arrive, and zero elsewhere.

    `share` is the size of the sketch against the numbers that go in; `top` the share of them that is estimated on arrival (1: all);
    `seed` picks the hashes, the same for all clients. Meant with `feedback = true`.
    """

    def squeeze(stack: Stack, _where: Any) -> Stack:
        import torch

        if not stack:
            return {}
        flat = torch.cat([flatten(v) for v in stack.values()], 1)
        sketches = np.stack([sketch_vector(one, rows, share, seed) for one in flat.cpu().numpy()])
        return {SKETCH: torch.from_numpy(sketches).to(flat.device)}

    def expand(stack: Stack, like: Tree) -> Stack:
        import torch

        if not like:
            return {}
        sizes = [leaf.size for leaf in like.values()]
        sketches = stack[SKETCH]
        result = np.stack([estimate_vector(one, sum(sizes), top, seed) for one in sketches.cpu().numpy()])
        parts = torch.from_numpy(result).to(sketches.device).split(sizes, 1)
        return {n: part.reshape(len(part), *leaf.shape) for (n, leaf), part in zip(like.items(), parts, strict=True)}

    def squeeze_tree(tree: Tree, _address: int) -> Tree:
        if not tree:
            return {}
        return {SKETCH: sketch_vector(np.concatenate([v.reshape(-1) for v in tree.values()]), rows, share, seed)}

    def expand_tree(tree: Tree, like: Tree) -> Tree:
        if not like:
            return {}
        ends = np.cumsum([leaf.size for leaf in like.values()])
        parts = np.split(estimate_vector(tree[SKETCH], int(ends[-1]), top, seed), ends[:-1])
        return {n: part.reshape(leaf.shape) for (n, leaf), part in zip(like.items(), parts, strict=True)}

    settings = (("rows", rows), ("share", share), ("top", top), ("seed", seed))
    return Codec(
        "sketch", settings, "select", _sketch_bounds, squeeze=squeeze, expand=expand,
        squeeze_tree=squeeze_tree, expand_tree=expand_tree,
    )  # fmt: skip


def buckets(size: int, rows: int, share: float) -> int:
    """How many buckets a row has: a whole share of the numbers, spread over the rows."""
    return max(1, math.ceil(share * size / rows))


def sketch_vector(flat: Any, rows: int, share: float, seed: int) -> Any:
    """The sketch of one vector, [rows, buckets]; sums in double precision, in the order of the numbers."""
    width = buckets(len(flat), rows, share)
    values = flat.astype(np.float64)
    table = np.zeros((rows, width), np.float32)
    for r in range(rows):
        positions, signs = _hashes(len(flat), width, r, seed)
        table[r] = np.bincount(positions, values * signs, width)
    return table


def estimate_vector(table: Any, size: int, top: float, seed: int) -> Any:
    """The vector that a sketch stands for: the `top` share with the largest estimates, the first among equals."""
    if not np.isfinite(table).all():  # a median would hide it
        return np.full(size, np.nan, np.float32)
    estimates = np.empty((len(table), size), np.float32)
    for r, row in enumerate(table):
        positions, signs = _hashes(size, table.shape[1], r, seed)
        estimates[r] = row[positions] * signs
    medians = np.median(estimates, axis=0).astype(np.float32)
    largest = np.argsort(-np.abs(medians), kind="stable")[: count(size, top)]
    result = np.zeros(size, np.float32)
    result[largest] = medians[largest]
    return result


@lru_cache(maxsize=16)
def _hashes(size: int, width: int, row: int, seed: int) -> tuple[Any, Any]:
    """Bucket and sign of every number in one row."""
    hashes = hash_keys(seed, "sketch", np.arange(size, dtype=np.uint64), row)
    signs = ((hashes >> np.uint64(63)).astype(np.float32) * 2.0 - 1.0).astype(np.float32)
    return ((hashes & np.uint64(2**62 - 1)) % np.uint64(width)).astype(np.int64), signs


def _sketch_bounds(tree: Tree) -> Tree:
    """In the worst case every number lies in one bucket, or is left out: no error exceeds the sum of all magnitudes."""
    floats = [np.abs(v.astype(np.float64)).sum() for v in tree.values() if v.dtype == np.float32]
    total = float(sum(floats)) * (1 + 1e-5)
    return {n: np.full(v.shape, total if v.dtype == np.float32 else 0.0) for n, v in tree.items()}
