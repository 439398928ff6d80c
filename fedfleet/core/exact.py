"""The exact mean: sums that no order of arrival, chunking, process or edge can change by a bit.

Each report is rounded once to 64-bit fixed point, acc += rint(float64(x) * weight * 2^K); integer addition is
associative, so the rest cannot matter. K = 62 - ceil(log2(bound * largest total weight)) leaves no room for overflow
as long as every element obeys its bound and the weights their limit, which `refusal` enforces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.errors import RunFailed
from fedfleet.core.trees import Tree, mismatch

_BLOCK = 1 << 15  # elements per pass: two float64 blocks stay in the second-level cache
_WEIGHT_BITS = 60
_LIMB_BITS = 32  # the low limb of a two-limb leaf carries so many further bits


@dataclass(frozen=True, slots=True)
class Scale:
    """How one leaf is represented: the bound on |x|, the power K, and whether a second limb carries finer bits."""

    bound: float
    power: int
    two_limbs: bool = False


def scale_for(bound: float, total_weight: float, *, two_limbs: bool = False) -> Scale:
    """The finest fixed-point scale that cannot overflow.

    >>> scale_for(2.0**10, 2.0**24).power
    28
    """
    return Scale(bound, 62 - math.ceil(math.log2(bound * total_weight)), two_limbs)


@dataclass(slots=True)
class Accumulator:
    """Fixed-point sums by leaf, and the exact total weight as an integer of 2^-60. Working memory: `add` consumes it.

    `closed` is the mean, from whoever has summed and divided elsewhere (an accelerator); then there are no sums any more.
    """

    sums: dict[str, NDArray[np.int64]]
    fine: dict[str, NDArray[np.int64]]
    weight: int = 0
    count: int = 0
    closed: Tree | None = None


def zero(like: Tree, scales: dict[str, Scale]) -> Accumulator:
    """An empty accumulator for trees shaped like this one."""
    return Accumulator(
        {name: np.zeros(like[name].shape, np.int64) for name in scales},
        {name: np.zeros(like[name].shape, np.int64) for name, s in scales.items() if s.two_limbs},
    )


def refusal(update: Tree, weight: float, like: Tree, scales: dict[str, Scale], total_weight: float) -> str | None:
    """Why a report may not enter the sum: wrong shape, not finite, beyond its bound, impossible weight; None if it may."""
    least = math.ldexp(1.0, -_WEIGHT_BITS)  # less would count as nothing, and nothing has no mean
    if not least <= weight <= total_weight:
        return f"its weight {weight} is not in [{least:.3g}, {total_weight:g}]"
    if not like and not update:
        return None
    odd = mismatch(update, like)
    if odd:
        return odd
    for name, scale in scales.items():
        leaf = update[name]
        if not leaf.size:
            continue
        low, high = float(leaf.min()), float(leaf.max())  # NaN passes through min and max
        if not (math.isfinite(low) and math.isfinite(high)):
            return f"leaf {name!r} is not finite"
        if max(-low, high) > scale.bound:
            return f"leaf {name!r} reaches {max(-low, high):.6g}, beyond its bound {scale.bound:g}"
    return None


def add(acc: Accumulator, update: Tree, weight: float, scales: dict[str, Scale]) -> Accumulator:
    """The sum with one more weighted update."""
    _open(acc)
    for name, scale in scales.items():
        factor = math.ldexp(weight, scale.power)
        x, total = update[name].reshape(-1), acc.sums[name].reshape(-1)
        fine = acc.fine[name].reshape(-1) if scale.two_limbs else None
        for a in range(0, len(x), _BLOCK):
            scaled = x[a : a + _BLOCK].astype(np.float64)
            scaled *= factor
            coarse = np.rint(scaled)
            total[a : a + _BLOCK] += coarse.astype(np.int64)
            if fine is not None:  # the remainder is exact in float64, and small
                fine[a : a + _BLOCK] += np.rint((scaled - coarse) * 2.0**_LIMB_BITS).astype(np.int64)
    acc.weight += round(math.ldexp(weight, _WEIGHT_BITS))
    acc.count += 1
    return acc


def merge(a: Accumulator, b: Accumulator) -> Accumulator:
    """The sum of two sums; consumes the first."""
    _open(a, b)
    for name, total in a.sums.items():
        total += b.sums[name]
    for name, total in a.fine.items():
        total += b.fine[name]
    a.weight += b.weight
    a.count += b.count
    return a


def _open(*accs: Accumulator) -> None:
    if any(acc.closed is not None for acc in accs):
        raise RunFailed("a sum that was divided already cannot be added to; fold without closing it")


def mean(acc: Accumulator, scales: dict[str, Scale]) -> Tree | None:
    """The weighted mean as float32; None if nothing was added."""
    if acc.closed is not None:
        return acc.closed
    if acc.count == 0:
        return None
    out: Tree = {}
    for name, scale in scales.items():
        value: NDArray[Any] = acc.sums[name]
        if scale.two_limbs:
            value = value + acc.fine[name] * 2.0**-_LIMB_BITS
        out[name] = _divided(value, divisor(acc, scale))
    return out


def divisor(acc: Accumulator, scale: Scale) -> float:
    """What a sum is divided by: scaling by a power of two is exact, so that one division does both with the same bits."""
    return math.ldexp(math.ldexp(float(acc.weight), -_WEIGHT_BITS), scale.power)


def _divided(value: NDArray[Any], by: float) -> NDArray[np.float32]:
    """value / by as float32, block by block so that the doubles in between never leave the cache."""
    out = np.empty(value.shape, np.float32)
    source, target = value.reshape(-1), out.reshape(-1)
    block = np.empty(min(_BLOCK, len(source)), np.float64)
    for a in range(0, len(source), _BLOCK):
        part = block[: len(source) - a]
        np.divide(source[a : a + _BLOCK], by, out=part)
        target[a : a + _BLOCK] = part
    return out


def save(acc: Accumulator) -> Tree:
    """An accumulator as a tree, so that it can be kept or forwarded by an edge."""
    _open(acc)
    words = [(acc.weight >> (32 * i)) & 0xFFFFFFFF for i in range(8)]
    head = {"weight": np.array(words, np.int64), "count": np.array([acc.count], np.int64)}
    return head | {f"sum/{n}": v for n, v in acc.sums.items()} | {f"fine/{n}": v for n, v in acc.fine.items()}


def load(tree: Tree) -> Accumulator:
    """The inverse of `save`."""
    weight = sum(int(word) << (32 * i) for i, word in enumerate(tree["weight"]))
    sums = {n[4:]: v.copy() for n, v in tree.items() if n.startswith("sum/")}
    fine = {n[5:]: v.copy() for n, v in tree.items() if n.startswith("fine/")}
    return Accumulator(sums, fine, weight, int(tree["count"][0]))
