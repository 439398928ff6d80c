"""The loops in which a server spends its time: checking a report and adding it to the exact sums, compiled where numba is.

Each gives the very bits of its counterpart in `core.exact` and `core.clip`, which serve where numba is missing and where a
model is so small that loading numba would not pay. The loops below are ordinary Python; they are compiled at their first use,
kept in a cache on disk, and run without the interpreter's lock.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedfleet.core import clip, exact
from fedfleet.core.exact import Accumulator, Scale
from fedfleet.core.trees import Tree, mismatch

COMPILE_MIN_ELEMENTS = 4096  # elements of a model below which numpy takes some microseconds, and loading numba half a second
_LIMB = 2.0**32
# Of a floating type: the unsigned integer of its size, and the mask that takes the sign away. Without signs the bits of floats are
# in the order of their values, what is infinite above all numbers and NaN above that.
_BITS: dict[str, tuple[Any, Any]] = {  # by the letter of the type, since numpy works its name out every time
    "f": (np.dtype(np.uint32), np.uint32(0x7FFF_FFFF)),
    "d": (np.dtype(np.uint64), np.uint64(0x7FFF_FFFF_FFFF_FFFF)),
}


class CompiledLoops(NamedTuple):
    """The compiled loops."""

    add: Callable[[NDArray[Any], NDArray[Any], float], None]
    add_fine: Callable[[NDArray[Any], NDArray[Any], NDArray[Any], float], None]
    highest: Callable[[NDArray[Any], Any], Any]
    squares: Callable[[NDArray[Any], NDArray[Any]], float]


def _add(total: Any, x: Any, scale: float) -> None:
    for i in range(x.size):
        total[i] += np.int64(np.rint(np.float64(x[i]) * scale))


def _add_fine(total: Any, fine: Any, x: Any, scale: float) -> None:
    for i in range(x.size):
        scaled = np.float64(x[i]) * scale
        coarse = np.rint(scaled)
        total[i] += np.int64(coarse)
        fine[i] += np.int64(np.rint((scaled - coarse) * _LIMB))


def _highest_bits(bits: Any, mask: Any) -> Any:
    top = mask & ~mask  # a zero of the same type
    for i in range(bits.size):
        top = max(top, bits[i] & mask)
    return top


def _squares(x: Any, half_sums: Any) -> float:
    n = x.size  # at least 1
    half = (n + 1) // 2
    for i in range(half):
        first = np.float64(x[i])
        half_sums[i] = first * first
    for i in range(n - half):
        other = np.float64(x[half + i])
        half_sums[i] += other * other
    n = half
    while n > 1:
        half = (n + 1) // 2
        for i in range(n - half):
            half_sums[i] += half_sums[half + i]
        n = half
    return half_sums[0]


@functools.cache
def _compile_loops() -> tuple[CompiledLoops | None, str | None]:
    """The loops, or why there are none."""
    try:
        from numba import njit, types
    except ImportError:
        return None, (
            "numba is not installed, so reports are added with numpy: the same bits, several times slower; install fedfleet[server]"
        )

    def read(kind: Any) -> Any:  # leaves may lie anywhere in a message that nobody may change
        return types.Array(kind, 1, "C", readonly=True, aligned=False)

    sums, doubles = types.int64[::1], types.float64[::1]
    kinds = (types.float32, types.float64)
    signed = {
        _add: [types.void(sums, read(k), types.float64) for k in kinds],
        _add_fine: [types.void(sums, sums, read(k), types.float64) for k in kinds],
        _highest_bits: [k(read(k), k) for k in (types.uint32, types.uint64)],
        _squares: [types.float64(read(k), doubles) for k in kinds],
    }
    try:
        return CompiledLoops(*(njit(s, cache=True, nogil=True)(loop) for loop, s in signed.items())), None
    except Exception as error:  # no folder for its cache, a cache that was torn: slower is better than not at all
        return None, (
            f"numba cannot compile ({type(error).__name__}: {str(error)[:200]}), so reports are added with numpy: the same "
            "bits, several times slower; allow writing to the folder in NUMBA_CACHE_DIR, or empty it"
        )


def speed_warning(like: Tree) -> str | None:
    """Compile what such trees need, and say what a person should know about its speed; None if all is well."""
    return _compile_loops()[1] if _is_worth_compiling(like) else None


def _is_worth_compiling(tree: Tree) -> bool:
    return sum(leaf.size for leaf in tree.values()) >= COMPILE_MIN_ELEMENTS


def _loops(tree: Tree) -> CompiledLoops | None:
    return _compile_loops()[0] if _is_worth_compiling(tree) else None


def _flat(leaf: NDArray[Any]) -> NDArray[Any]:
    """A leaf as the loops can read it."""
    flat = leaf.reshape(-1)
    if flat.dtype.char not in _BITS or not flat.dtype.isnative:
        flat = flat.astype(np.float64)
    return flat if flat.flags.c_contiguous else np.ascontiguousarray(flat)


def refusal(
    update: Tree,
    weight: float,
    like: Tree,
    scales: Mapping[str, Scale],
    heaviest: float,
    flat_update: NDArray[Any] | None = None,
) -> str | None:
    """Why a report may not enter the sum, in one pass over it; the sentences of `exact.refusal`.

    `flat_update` is the same update as one array: then one look passes all leaves at once, and leaves are looked at where it fails.
    """
    loops = _loops(like)
    if loops is None:
        return exact.refusal(update, weight, like, dict(scales), heaviest)
    fault = exact.weight_refusal(weight, heaviest) or mismatch(update, like)
    if fault:
        return fault
    if flat_update is not None and flat_update.dtype.char in _BITS:
        top = _max_abs(loops, flat_update)
        if math.isfinite(top) and top <= min(scale.bound for scale in scales.values()):
            return None
    for name, scale in scales.items():
        top = _max_abs(loops, _flat(update[name]))
        if not math.isfinite(top):
            return f"leaf {name!r} is not finite"
        if top > scale.bound:
            return f"leaf {name!r} reaches {top:.6g}, beyond its bound {scale.bound:g}"
    return None


def _max_abs(loops: CompiledLoops, flat: NDArray[Any]) -> float:
    """The largest absolute value; whatever is not finite is larger than all numbers, or not comparable."""
    kind, mask = _BITS[flat.dtype.char]
    return float(kind.type(loops.highest(flat.view(kind), mask)).view(flat.dtype))


def squares_of(update: Tree, names: Iterable[str]) -> list[float]:
    """The sum of squares of each of these leaves, added in the order of `clip.pairwise_sum`."""
    loops = _loops(update)
    if loops is None:
        return clip.squares_of(update, names)
    flats = [_flat(update[name]) for name in names]
    scratch = np.empty(max(((flat.size + 1) // 2 for flat in flats), default=0), np.float64)
    return [float(loops.squares(flat, scratch)) if flat.size else 0.0 for flat in flats]


def add(acc: Accumulator, update: Tree, weight: float, scales: Mapping[str, Scale], *, factor: float, units: int) -> None:
    """One more weighted update in the sum, which must have let it pass: the bits of `exact.add`."""
    loops = _loops(update)
    if loops is None:
        exact.add(acc, update, weight, dict(scales), factor=factor, counted=units)
        return
    for name, scale in scales.items():
        if update[name].size != acc.sums[name].size:  # a compiled loop would write beyond its array
            raise ValueError(f"leaf {name!r} has {update[name].size} elements, its sum has {acc.sums[name].size}")
        multiplier = math.ldexp(weight * factor, scale.power)
        total, x = acc.sums[name].reshape(-1), _flat(update[name])
        if scale.two_limbs:
            loops.add_fine(total, acc.fine[name].reshape(-1), x, multiplier)
        else:
            loops.add(total, x, multiplier)
    acc.weight += units
    acc.count += 1


def add_whole(total: NDArray[np.int64], flat_update: NDArray[Any], weight: float, scale: Scale, *, factor: float) -> bool:
    """The same for all leaves at once, which must have one scale of one limb; False where that would not be faster."""
    loops = _compile_loops()[0] if flat_update.size >= COMPILE_MIN_ELEMENTS and flat_update.dtype.char in _BITS else None
    if loops is None:
        return False
    if flat_update.size != total.size:  # a compiled loop would write beyond its array
        raise ValueError(f"a report has {flat_update.size} elements, its sum has {total.size}")
    loops.add(total, flat_update, math.ldexp(weight * factor, scale.power))
    return True
