"""Scores: what a client is worth, and how the best are picked or drawn, ties broken by addressed hashes.

Lai et al., "Oort: Efficient Federated Learning via Guided Participant Selection", OSDI 2021. Columns are single precision: they
rank millions of clients, and doubling every duration still doubles exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.choose.uniform import smallest
from fedfleet.core.parts import Draw
from fedfleet.core.records import Floats, Ints, Keys
from fedfleet.core.rng import hash_keys, uniforms

Singles = NDArray[np.float32]
_NARROW = 1e-4  # utilities that lie closer together than this are told apart no further
_FAINT = np.float32(1e-30)  # a weight of nothing is this much, so that quotients stay finite
_MANY, _SOME = 1 << 16, 1 << 13  # from how many values on it pays to look at some of them first, and at how many
_LARGE = float(np.finfo(np.float32).max) / 4


def statistical_utility(samples: Floats, squared_loss: Floats) -> Floats:
    """Statistical utility |B| sqrt(mean squared loss); NaN where it is not known.

    >>> statistical_utility(np.array([10.0, 10.0]), np.array([4.0, np.inf])).tolist()
    [20.0, nan]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        result = samples * np.sqrt(squared_loss)
        return np.where(np.isfinite(squared_loss) & np.isfinite(samples), np.minimum(result, _LARGE), np.nan)


def normalise_utility(utility: Singles, clip: float) -> Singles:
    """Utilities from about 0 to 1: what lies above the `clip` quantile counts as that, and the least is just above 0.

    >>> normalise_utility(np.array([0.0, 20.0, 80.0], np.float32), 0.4).tolist()
    [0.0, 0.25, 0.25]
    """
    if not len(utility):
        return utility
    ceiling = value_at_rank(utility, min(int(len(utility) * clip), len(utility) - 1))
    least = np.float32(utility.min() * 0.999)
    return (np.minimum(utility, ceiling) - least) / np.float32(max(float(utility.max()) - float(least), _NARROW))


def temporal_uncertainty(last: NDArray[np.int32], now: int, weight: float) -> Singles:
    """Temporal uncertainty: sqrt(weight ln(round) / last round that the client reported in)."""
    return np.sqrt(np.float32(weight * math.log(now)) / last.astype(np.float32))


def preferred_seconds(seconds: Singles, share: float) -> float:
    """How long a trip may take: this quantile of the durations that are known (finite, not 0); infinite if none is, or for 1."""
    if share >= 1.0 - 1e-9:
        return math.inf
    unknown, finite = len(seconds) - np.count_nonzero(seconds), np.count_nonzero(seconds < np.inf)
    known = int(finite - unknown)
    return float(value_at_rank(seconds, int(unknown) + min(int(known * share), known - 1))) if known else math.inf


def penalise_slow(score: Singles, seconds: Singles, preferred: float, penalty: float) -> Singles:
    """Scores times (T / t)^penalty where a client's trip takes t, longer than the preferred T; 0 seconds: not known.

    >>> penalise_slow(np.ones(3, np.float32), np.array([0, 5, 40], np.float32), 10.0, 2.0).tolist()
    [1.0, 1.0, 0.0625]
    """
    if preferred == math.inf or penalty == 0.0:
        return score
    slow = np.flatnonzero(seconds > np.float32(preferred))
    result = score.copy()
    result[slow] *= (np.float32(preferred) / seconds[slow]) ** penalty
    return result


def weighted_sample(weights: Singles, luck: Keys, n: int) -> Ints:
    """The places of n drawn one after the other with chances by weight, none twice; `luck` holds one 64-bit hash for each.

    Everyone runs for an exponential time of rate `weight`, and the n first are in (Efraimidis and Spirakis 2006). A time
    -ln(1 - u) / w is u / w at least, so that logarithms are taken only of those who can be among the first.
    """
    if n <= 0:
        return np.zeros(0, np.int64)
    positive_weights = np.maximum(weights, _FAINT)
    if n < len(positive_weights):
        soonest = (luck >> np.uint64(32)).astype(np.uint32).astype(np.float32) * np.float32(2.0**-32) / positive_weights
        first = np.flatnonzero(soonest <= value_at_rank(soonest, n - 1))
        bound = float(_race_times(positive_weights[first], luck[first]).max()) * (1.0 + 1e-6)
        near = np.flatnonzero(soonest <= bound)
    else:
        near = np.arange(len(positive_weights))
    return near[np.lexsort((luck[near], _race_times(positive_weights[near], luck[near])))[:n]]


def _race_times(weights: Singles, luck: Keys) -> Floats:
    return -np.log1p(-((luck >> np.uint64(11)).astype(np.float64) * 2.0**-53)) / weights


def nth_largest(values: NDArray[Any], n: int) -> Any:
    """The n-th largest value, counted from 1."""
    return value_at_rank(values, len(values) - n)


def value_at_rank(values: NDArray[Any], rank: int) -> Any:
    """The value at this place of the sorted column, counted from 0.

    Of many values, some tell between which two it nearly always lies, so that only what lies there need be ordered (Floyd and
    Rivest 1975): several times faster than partitioning all of them, and never another answer.
    """
    n = len(values)
    if n >= _MANY:
        some = np.sort(values[np.arange(_SOME) * 2_654_435_761 % n])  # scattered: columns have patterns
        place, off = rank * len(some) // n, 4 * math.isqrt(len(some))
        low = some[place - off] if place >= off else values.min()
        high = some[place + off] if place + off < len(some) else values.max()
        if np.count_nonzero(values < low) <= rank < np.count_nonzero(values <= high):
            upto = int(np.count_nonzero(values <= low))
            if rank < upto:
                return low
            near = values[(values > low) & (values < high)]  # of values that are the same there may be very many
            return np.partition(near, rank - upto)[rank - upto] if rank < upto + len(near) else high
    return np.partition(values, rank)[rank]


def largest(values: NDArray[Any], n: int, luck: Callable[[Ints], Keys]) -> Ints:
    """The places of the n largest values, in no order; of those that are equal at the edge, the ones with the smallest luck.

    >>> largest(np.array([5, 7, 7, 9]), 2, lambda at: np.array([30, 20], np.uint64)).tolist()
    [3, 2]
    """
    if n >= len(values) or n <= 0:
        return np.arange(max(0, min(n, len(values))))
    edge = nth_largest(values, n)
    above, equal = np.flatnonzero(values > edge), np.flatnonzero(values == edge)
    return np.concatenate([above, equal[smallest(luck(equal), n - len(above))]])


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
