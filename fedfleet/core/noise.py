"""Noise for the sums of a commit: Gaussian, addressed by a key, added to the exact integers before anyone sees them.

An integer plus a rounded draw is the rounded sum of both, so that what holds for the Gaussian mechanism holds here: rounding comes
after the noise. Draws are made of SHAKE-256, which cannot be foreseen without the key.

Noise is fresh at every commit, or that of a binary tree over all commits (Kairouz et al. 2021, DP-FTRL): node (level, index)
covers the commits index 2^level + 1 .. (index + 1) 2^level. After commit t the noise in all that was released together is
that of the few nodes that t is made of, so it grows with log t instead of t; what a single commit gets is the difference to the
commit before.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.errors import RunFailed
from fedfleet.core.rng import address

if TYPE_CHECKING:
    from fedfleet.core.aggregation import Folding

_BLOCK = 1 << 16  # normals that are drawn at once
_MOST = 2.0**56  # standard deviation in units of a sum of 64 bits: many draws of it fit
_FRESH = 1 << 30  # the level of noise that belongs to one commit alone


@dataclass(frozen=True, slots=True)
class Noise:
    """Gaussian noise of this standard deviation in every element of a sum: fresh for every commit, or of a tree over all."""

    std: float
    kind: Literal["fresh", "tree"] = "fresh"


def seeded_key(seed: int) -> bytes:
    """The key of a study: anyone who knows the seed can remove the noise."""
    return address(seed, "noise")


def terms(kind: Literal["fresh", "tree"], commit: int) -> list[tuple[int, int, int]]:
    """The draws that enter a commit (from 1 on), each with its sign: (sign, level, index).

    >>> terms("tree", 4)
    [(1, 2, 0), (-1, 0, 2), (-1, 1, 0)]
    """
    if kind == "fresh":
        return [(1, _FRESH, commit)]
    top = (commit & -commit).bit_length() - 1  # the node that this commit completes
    removed = [(-1, level, ((commit - 1) >> level) - 1) for level in range(top)]
    return [(1, top, (commit >> top) - 1), *removed]


def normals(key: bytes, name: str, level: int, index: int, count: int) -> NDArray[np.float64]:
    """So many standard normal numbers for one address, by Box and Muller."""
    text = name.encode()
    place = key + struct.pack("<Iqq", len(text), level, index) + text
    result = np.empty(count + count % 2)
    for at in range(0, len(result), _BLOCK):
        part = result[at : at + _BLOCK]
        words = np.frombuffer(hashlib.shake_256(place + struct.pack("<q", at)).digest(8 * len(part)), np.uint64)
        u = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53  # never 0
        radius, angle = np.sqrt(-2.0 * np.log(u[0::2])), 2.0 * np.pi * u[1::2]
        part[0::2], part[1::2] = radius * np.cos(angle), radius * np.sin(angle)
    return result[:count]


def add_noise(noise: Noise, acc: Folding, key: bytes, commit: int) -> Folding:
    """The sums with the noise of this commit; consumes them, so that no caller keeps the sums without it."""
    for name in sorted(acc.sums):
        sums = acc.sums[name].sums
        for leaf, scale in acc.scales.items():
            std = math.ldexp(noise.std, scale.power)
            if std > _MOST:
                raise RunFailed(f"noise of {noise.std:g} does not fit into the sum of leaf {leaf!r}; raise algorithm.bound")
            for sign, level, index in terms(noise.kind, commit):
                draws = normals(key, f"{name}|{leaf}", level, index, sums[leaf].size)
                # Each node is rounded by itself: what is taken out again is exactly what was put in.
                sums[leaf] += sign * np.rint(draws * std).astype(np.int64).reshape(sums[leaf].shape)
    return acc
