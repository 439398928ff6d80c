"""Whom to take, by one number per candidate: the highest scores, ties by addressed hash; and how many."""

from __future__ import annotations

import numpy as np

from fedfleet.choose.utility import largest
from fedfleet.core.parts import Draw
from fedfleet.core.records import Floats, Ints, Keys
from fedfleet.core.rng import hash_keys, uniforms

_ONE: Keys = np.zeros(1, np.uint64)


def pick_number(draw: Draw) -> int:
    """One number for this pick of this round: one address, since every column of it costs a pass over the roster."""
    return draw.round << 32 ^ draw.first


def best(score: Floats, keys: Keys, n: int, draw: Draw, label: str) -> Ints:
    """The places of the n highest scores, highest first; NaN counts as the lowest of all.

    Hashes are made only for those who are taken and those who tie with the last of them.

    >>> best(np.array([1.0, np.nan, 3.0, 2.0]), np.arange(4, dtype=np.uint64), 2, Draw(0, 0), "x").tolist()
    [2, 3]
    """
    n = min(n, len(score))
    if n <= 0:
        return np.zeros(0, np.int64)
    score = np.where(np.isnan(score), -np.inf, score)

    def luck(at: Ints) -> Keys:
        return hash_keys(draw.seed, label, keys[at], pick_number(draw))

    at = largest(score, n, luck)
    return at[np.lexsort((luck(at), -score[at]))]


def round_at_random(share: float, draw: Draw, label: str) -> int:
    """A number of clients that is `share` on average: the fraction is rounded at random, one draw for each pick."""
    luck = float(uniforms(draw.seed, label, _ONE, pick_number(draw))[0])
    return int(np.floor(share)) + int(luck < share - np.floor(share))
