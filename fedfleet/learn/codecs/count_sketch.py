"""The count sketch: a few rows of buckets into which every number is added with a random sign.

Charikar et al. 2002; Rothchild et al. 2020 (FetchSGD) for updates. Number i is added to bucket h_r(i) of row r with the sign
s_r(i); its estimate is the median over rows of s_r(i) S[r, h_r(i)]. Everybody uses the same hashes, so that sketches add up:
sketch(x + y) = sketch(x) + sketch(y).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from fedfleet.core.codec import Codec, Stack
from fedfleet.core.limits import Seed, Share
from fedfleet.core.rng import hash_keys
from fedfleet.core.trees import Tree
from fedfleet.learn.codecs.sparsification import count, flatten

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

    settings = (("rows", rows), ("share", share), ("top", top), ("seed", seed))
    return Codec("sketch", settings, "select", _error_bounds, squeeze=squeeze, expand=expand)


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


def _error_bounds(tree: Tree) -> Tree:
    """In the worst case every number lies in one bucket, or is left out: no error exceeds the sum of all magnitudes."""
    floats = [np.abs(v.astype(np.float64)).sum() for v in tree.values() if v.dtype == np.float32]
    total = float(sum(floats)) * (1 + 1e-5)
    return {n: np.full(v.shape, total if v.dtype == np.float32 else 0.0) for n, v in tree.items()}
