"""Inputs on one scale: mean 0 and standard deviation 1, from sums that each owner could send."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.errors import printable
from fedfleet.core.records import Floats, Ints
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data.missing_values import sums_of

CHOICES = ("none", "standard")
MOST_APART = 100.0  # times that the spreads of two inputs may differ without a warning
_ENOUGH = 100_000  # samples to see how far inputs spread
_ROUNDING = 4 * np.finfo(np.float64).eps


@dataclass(frozen=True, slots=True)
class Scale:
    """The mean and the standard deviation of each input, float64 in the shape of a sample; that of a constant is 1."""

    mean: Floats
    sd: Floats


def fit_scale(x: Array, rows: Array | None = None, owner: Ints | None = None) -> Scale:
    """The scale of some rows (places or truth values, default: all), from what each owner would send: two steps of sums.

    First counts and sums, which give the mean; then the sums and the sums of squares of what differs from that mean. The second
    sums are small, so that they lose no digits, however far from zero the inputs lie; their own mean, which is the rounding of the
    first step, is taken out of both results.

    >>> fit_scale(np.array([[1.6e12, 5.0], [1.6e12 + 2, 5.0]])).sd.tolist()
    [1.0, 1.0]
    """
    used = x if rows is None else x[rows]
    flat = used.reshape(len(used), -1).astype(np.float64)
    who = owner if owner is None or rows is None else owner[rows]
    counts, sums = sums_of(flat, who)
    count = np.maximum(counts.sum(0), 1.0)
    mean = sums.sum(0) / count
    centred = flat - mean
    shift = sums_of(centred, who)[1].sum(0) / count
    squares = sums_of(centred * centred, who)[1].sum(0) / count
    mean = mean + shift
    sd = np.sqrt(np.maximum(squares - shift * shift, 0.0))
    sd = np.where(sd <= _ROUNDING * np.abs(mean), 1.0, sd)
    return Scale(mean.reshape(x.shape[1:]), sd.reshape(x.shape[1:]))


def apply_scale(x: Array, scale: Scale) -> Array:
    """Inputs on this scale, as float32."""
    return ((x.astype(np.float64) - scale.mean) / scale.sd).astype(np.float32)


def magnitude_warning(x: Array, names: tuple[str, ...] = ()) -> str | None:
    """A sentence where the spreads of two inputs differ so much that training follows one of them alone; None where all is well.

    >>> magnitude_warning(np.array([[0.0, 0.0], [1.0, 5000.0]]), ("share", "income"))
    'data: the inputs have very different ranges: \\'income\\' from 0 to 5000, \\'share\\' from 0 to 1; use scale = "standard"'
    """
    if x.ndim != 2 or x.dtype.kind not in "fiu" or len(x) < 2 or x.shape[1] < 2:
        return None
    low, high = x.min(0).astype(np.float64), x.max(0).astype(np.float64)
    moving = np.flatnonzero(high > low)
    if len(moving) < 2:
        return None
    reach = (high - low)[moving]
    spread = fit_scale(x[:: len(x) // _ENOUGH + 1]).sd[moving]
    # By deviation and by range: neither a rare event nor a single outlier makes a scale of its own.
    for measure in (spread, reach):
        wide, narrow = int(measure.argmax()), int(measure.argmin())
        if spread[wide] >= MOST_APART * spread[narrow] and reach[wide] >= MOST_APART * reach[narrow]:
            first, second = (_range(int(moving[i]), low, high, names) for i in (wide, narrow))
            return f'data: the inputs have very different ranges: {first}, {second}; use scale = "standard"'
    return None


def _range(column: int, low: Floats, high: Floats, names: tuple[str, ...]) -> str:
    name = repr(printable(names[column], 40)) if names else f"column {column}"
    return f"{name} from {low[column]:.6g} to {high[column]:.6g}"
