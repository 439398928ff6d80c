"""The exact mean: sums that no order of arrival, chunking, process or edge can change by a bit.

Each report is rounded once to 64-bit fixed point, acc += rint(float64(x) * weight * factor * 2^K); integer addition is
associative, so the rest cannot matter. K = 62 - ceil(log2(bound * largest total weight)) leaves no room for overflow
as long as every element obeys its bound, factors lie in [-1, 1] and the weights obey their limit, which `refusal` and
`overweight_refusal` enforce.

A report may give some leaves, or some elements of a leaf, less than its whole weight (a client that trained only part of the
model). What is missing is added up beside the sums, exactly as well, and leaves the denominator of that leaf or element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.errors import RunFailed
from fedfleet.core.trees import Tree, mismatch

_BLOCK = 1 << 15  # elements per pass: two float64 blocks stay in the second-level cache
_WEIGHT_BITS = 60
_MIN_WEIGHT = 2.0**-_WEIGHT_BITS  # a weight of less would count as nothing, and nothing has no mean
_UNITS = 2.0**_WEIGHT_BITS
_LIMB_BITS = 32  # the low limb of a two-limb leaf carries that many further bits


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


# The share of a report's weight that each leaf, or each element of a leaf, gets; leaves that are not named get all of it.
Parts = Mapping[str, "float | NDArray[np.floating[Any]]"]


@dataclass(slots=True)
class Accumulator:
    """Fixed-point sums by leaf, and the exact total weight as an integer of 2^-60. Working memory: `add` consumes it.

    `lacking` is the weight that single leaves did not get, in the same unit; `thin` the weight that single elements did not get, as
    fixed point of `missing_power` bits. `final_mean` is the mean, from a caller that has summed and divided elsewhere (an
    accelerator); then there are no sums any more.
    """

    sums: dict[str, NDArray[np.int64]]
    fine: dict[str, NDArray[np.int64]]
    weight: int = 0
    count: int = 0
    final_mean: Tree | None = None
    lacking: dict[str, int] = field(default_factory=dict[str, int])
    thin: dict[str, NDArray[np.int64]] = field(default_factory=dict[str, NDArray[np.int64]])


def zero(like: Tree, scales: dict[str, Scale]) -> Accumulator:
    """An empty accumulator for trees shaped like this one."""
    return Accumulator(
        {name: np.zeros(like[name].shape, np.int64) for name in scales},
        {name: np.zeros(like[name].shape, np.int64) for name, s in scales.items() if s.two_limbs},
    )


@lru_cache(maxsize=64)
def share_of_room(total_weight: float, reports: int) -> float:
    """The most that each of so many reports may weigh, so that all of them fit into a sum, to the last unit.

    >>> share_of_room(2.0**24, 16), 3 * weight_units(share_of_room(1.0, 3)) <= weight_units(1.0)
    (1048576.0, True)
    """
    share = total_weight / reports
    while reports * weight_units(share) > weight_units(total_weight):
        share = math.nextafter(share, 0.0)
    return share


def weight_refusal(weight: float, heaviest: float) -> str | None:
    """Why no report can weigh this; None if it can."""
    if not _MIN_WEIGHT <= weight <= heaviest:
        return f"its weight {weight} is not in [{_MIN_WEIGHT:.3g}, {heaviest:g}]"
    return None


def overweight_refusal(acc: Accumulator, weight: float, total_weight: float) -> str | None:
    """Why no more of this weight fits into the sum: beyond the limit the fixed-point sums could overflow; None if it fits."""
    if acc.weight + weight_units(weight) > total_weight * 2.0**_WEIGHT_BITS:
        return f"with its weight {weight:g} those of one commit would exceed {total_weight:g}; raise the fold's total_weight"
    return None


def weight_units(weight: float) -> int:
    """A weight as an integer of 2^-60."""
    return round(weight * _UNITS)


def refusal(update: Tree, weight: float, like: Tree, scales: dict[str, Scale], heaviest: float) -> str | None:
    """Why a report may not enter the sum: wrong shape, not finite, beyond its bound, impossible weight; None if it may."""
    if not _MIN_WEIGHT <= weight <= heaviest:
        return weight_refusal(weight, heaviest)
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


def add(
    acc: Accumulator,
    update: Tree,
    weight: float,
    scales: dict[str, Scale],
    *,
    factor: float = 1.0,
    parts: Parts | None = None,
    total_weight: float = 2.0**24,
    counted: int | None = None,
) -> Accumulator:
    """The sum with one more weighted update; `factor` scales the update and not its weight, `parts` both, leaf by leaf.

    `counted` is the weight in units, from a caller that has computed it already.
    """
    _check_open(acc)
    for name, scale in scales.items():
        part = parts.get(name) if parts is not None else None
        if isinstance(part, float) and part == 0.0:  # nothing to add, and whole layers of it
            add_missing_weight(acc, name, weight, part, acc.sums[name].shape, total_weight)
            continue
        whole = math.ldexp(weight * factor, scale.power)
        x, total = update[name].reshape(-1), acc.sums[name].reshape(-1)
        fine = acc.fine[name].reshape(-1) if scale.two_limbs else None
        each = None if part is None or isinstance(part, float) else np.asarray(part, np.float64).reshape(-1)
        if isinstance(part, float):
            whole *= part
        for a in range(0, len(x), _BLOCK):
            scaled = x[a : a + _BLOCK].astype(np.float64)
            if each is not None:
                scaled *= each[a : a + _BLOCK]
            scaled *= whole
            coarse = np.rint(scaled)
            total[a : a + _BLOCK] += coarse.astype(np.int64)
            if fine is not None:  # the remainder is exact in float64, and small
                fine[a : a + _BLOCK] += np.rint((scaled - coarse) * 2.0**_LIMB_BITS).astype(np.int64)
        if part is not None:
            add_missing_weight(acc, name, weight, part, acc.sums[name].shape, total_weight)
    acc.weight += weight_units(weight) if counted is None else counted
    acc.count += 1
    return acc


def add_missing_weight(acc: Accumulator, name: str, weight: float, part: Any, shape: tuple[int, ...], total_weight: float) -> None:
    """Note what this leaf, or each of its elements, did not get of a report's weight."""
    if isinstance(part, float):
        acc.lacking[name] = acc.lacking.get(name, 0) + weight_units(weight * (1.0 - part))
        return
    missing = weight * (1.0 - np.asarray(part, np.float64).reshape(shape))
    missing = np.rint(np.ldexp(missing, missing_power(total_weight))).astype(np.int64)
    acc.thin[name] = acc.thin[name] + missing if name in acc.thin else missing


def missing_power(total_weight: float) -> int:
    """The bits behind the point of what elements lack: as fine as cannot overflow."""
    return 62 - math.ceil(math.log2(total_weight))


def merge(a: Accumulator, b: Accumulator) -> Accumulator:
    """The sum of two sums; consumes the first."""
    _check_open(a, b)
    for name, total in a.sums.items():
        total += b.sums[name]
    for name, total in a.fine.items():
        total += b.fine[name]
    for name, missing in b.lacking.items():
        a.lacking[name] = a.lacking.get(name, 0) + missing
    for name, missing in b.thin.items():
        a.thin[name] = a.thin[name] + missing if name in a.thin else missing
    a.weight += b.weight
    a.count += b.count
    return a


def _check_open(*accs: Accumulator) -> None:
    if any(acc.final_mean is not None for acc in accs):
        raise RunFailed("cannot add to a sum that was already divided; fold without closing it")


def mean(
    acc: Accumulator, scales: dict[str, Scale], denominator: float | None = None, total_weight: float = 2.0**24
) -> Tree | None:
    """The weighted mean as float32, or the weighted sum over a fixed denominator; None if nothing was added.

    An element without any weight is zero.
    """
    if acc.final_mean is not None:
        return acc.final_mean
    if acc.count == 0:
        return None
    out: Tree = {}
    for name, scale in scales.items():
        value: NDArray[Any] = acc.sums[name]
        if scale.two_limbs:
            value = value + acc.fine[name] * 2.0**-_LIMB_BITS
        if name in acc.thin and denominator is None:
            out[name] = _elementwise_mean(acc, name, value, scale, total_weight)
            continue
        scale_divisor = divisor(acc, scale, name, denominator)
        out[name] = _divide(value, scale_divisor) if scale_divisor else np.zeros(value.shape, np.float32)
    return out


def divisor(acc: Accumulator, scale: Scale, name: str = "", denominator: float | None = None) -> float:
    """What a sum is divided by: scaling by a power of two is exact, so that one division does both with the same bits."""
    if denominator is not None:
        return math.ldexp(denominator, scale.power)
    return math.ldexp(math.ldexp(float(acc.weight - acc.lacking.get(name, 0)), -_WEIGHT_BITS), scale.power)


def _elementwise_mean(acc: Accumulator, name: str, value: NDArray[Any], scale: Scale, total_weight: float) -> NDArray[np.float32]:
    """The mean of a leaf whose elements have denominators of their own."""
    missing = np.ldexp(acc.thin[name].astype(np.float64), -missing_power(total_weight))
    whole = divisor(acc, scale, name) - np.ldexp(missing, scale.power)
    least = math.ldexp(1.0, scale.power - missing_power(total_weight) + 10)  # below that there is rounding, and no weight
    safe = np.where(whole > least, whole, np.inf)
    return np.asarray(value / safe, np.float32)


def _divide(value: NDArray[Any], scale_divisor: float) -> NDArray[np.float32]:
    """value / by as float32, block by block so that the doubles in between never leave the cache."""
    out = np.empty(value.shape, np.float32)
    source, target = value.reshape(-1), out.reshape(-1)
    block = np.empty(min(_BLOCK, len(source)), np.float64)
    for a in range(0, len(source), _BLOCK):
        part = block[: len(source) - a]
        np.divide(source[a : a + _BLOCK], scale_divisor, out=part)
        target[a : a + _BLOCK] = part
    return out


def save(acc: Accumulator) -> Tree:
    """An accumulator as a tree, so that it can be kept or forwarded by an edge."""
    _check_open(acc)
    head = {"weight": _int_to_words(acc.weight), "count": np.array([acc.count], np.int64)}
    sums = {f"sum/{n}": v for n, v in acc.sums.items()} | {f"fine/{n}": v for n, v in acc.fine.items()}
    missing = {f"lacking/{n}": _int_to_words(v) for n, v in acc.lacking.items()} | {f"thin/{n}": v for n, v in acc.thin.items()}
    return head | sums | missing


def load(tree: Tree) -> Accumulator:
    """The inverse of `save`."""

    def leaves_below(prefix: str) -> Tree:
        return {n[len(prefix) :]: v for n, v in tree.items() if n.startswith(prefix)}

    sums, fine, thin = ({n: v.copy() for n, v in leaves_below(prefix).items()} for prefix in ("sum/", "fine/", "thin/"))
    lacking = {n: _words_to_int(v) for n, v in leaves_below("lacking/").items()}
    return Accumulator(sums, fine, _words_to_int(tree["weight"]), int(tree["count"][0]), lacking=lacking, thin=thin)


def _int_to_words(value: int) -> NDArray[np.int64]:
    return np.array([(value >> (32 * i)) & 0xFFFFFFFF for i in range(8)], np.int64)


def _words_to_int(words: NDArray[Any]) -> int:
    return sum(int(word) << (32 * i) for i, word in enumerate(words))
