"""Values that are missing: counted by column, left out, or filled by sums that a federation could make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core.errors import BadInput, CurableInput, printable
from fedfleet.core.records import Floats, Ints
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data.raw_samples import RawSamples

CHOICES = ("error", "drop", "mean")
_NAMED = 5  # columns in a sentence


def without_missing(samples: RawSamples, choice: str) -> RawSamples:
    """Samples of which nothing is missing: refused, left out or filled, as `choice` says."""
    inputs = {column.name: column.missing() for column in samples.inputs}
    others = [*samples.labels, *(c for c in (samples.owner, samples.time) if c is not None)]
    never_filled = {column.name: column.missing() for column in others}
    gaps = {name: mask for name, mask in (*inputs.items(), *never_filled.items()) if mask.any()}
    if not gaps:
        return samples
    incomplete = np.logical_or.reduce(list(gaps.values()))
    if choice == "drop":
        return _drop_rows(samples, gaps, incomplete)
    unfilled = [name for name in gaps if name in never_filled and name not in inputs]
    if choice == "mean" and not unfilled:
        return _fill_with_means(samples, sum(int(c.missing().sum()) for c in samples.inputs))
    drop = f'missing = "drop", which leaves out {incomplete.sum():,} of {len(incomplete):,} samples'
    if choice == "mean":
        who = " and ".join(repr(printable(name, 40)) for name in unfilled)
        raise BadInput(f"data: {_counts(samples, gaps)}; {who} cannot be filled with a mean, so use {drop}")
    cure = f'use missing = "mean", or {drop}' if not unfilled else f"fill them in, or use {drop}"
    raise CurableInput(f"data: {_counts(samples, gaps)}; {cure}", {"missing": "drop" if unfilled else "mean"})


def _counts(samples: RawSamples, gaps: dict[str, Array]) -> str:
    total = sum(int(mask.sum()) for mask in gaps.values())
    most = sorted(gaps, key=lambda name: -int(gaps[name].sum()))
    parts = [f"{gaps[name].sum():,} in {printable(name, 40)!r}" for name in most[:_NAMED]]
    if len(most) > _NAMED:
        columns = "1 other column" if len(most) == _NAMED + 1 else f"{len(most) - _NAMED} other columns"
        parts.append(f"{sum(int(gaps[n].sum()) for n in most[_NAMED:]):,} in {columns}")
    first = int(np.flatnonzero(np.logical_or.reduce(list(gaps.values())))[0])
    place = samples.place(first).removeprefix(f"{samples.where}: ")
    what = "value" if total == 1 else "values"
    return f"{samples.where} has {total:,} missing {what}: {', '.join(parts)}, the first in {place}"


def _drop_rows(samples: RawSamples, gaps: dict[str, Array], incomplete: Array) -> RawSamples:
    if incomplete.all():
        worst = max(gaps, key=lambda name: int(gaps[name].sum()))
        raise BadInput(
            f"data: every sample of {samples.where} lacks a value ({gaps[worst].sum():,} of {len(incomplete):,} in "
            f"{printable(worst, 40)!r}), so "
            'missing = "drop" leaves nothing; choose columns with input=[..], or use missing = "mean"'
        )
    sentence = f"data: {incomplete.sum():,} of {len(incomplete):,} samples of {samples.where} lack a value and are left out"
    return replace(samples.rows(~incomplete), warnings=(*samples.warnings, sentence))


def _fill_with_means(samples: RawSamples, amount: int) -> RawSamples:
    owner = None if samples.owner is None else samples.owner.values
    inputs = tuple(replace(c, values=fill_means(c.values, owner, c.name)) if c.missing().any() else c for c in samples.inputs)
    what = "value is" if amount == 1 else "values are"
    sentence = f"data: {amount:,} missing {what} filled with the mean of the column"
    return replace(samples, inputs=inputs, warnings=(*samples.warnings, sentence))


def fill_means(values: Array, owner: Ints | None, name: str) -> Array:
    """Numbers with the mean of their place where one is missing."""
    flat = values.reshape(len(values), -1).astype(np.float64)
    counts, sums = sums_of(np.where(np.isnan(flat), 0.0, flat), owner, ~np.isnan(flat))
    count, total = counts.sum(0), sums.sum(0)
    if not count.all():
        raise BadInput(
            f"data: all values of {printable(name, 40)!r} are missing, so there is no mean; leave it out with input=[..]"
        )
    return np.where(np.isnan(flat), total / count, flat).reshape(values.shape)


def sums_of(flat: Floats, owner: Ints | None, counted: Array | None = None) -> tuple[Floats, Floats]:
    """What each owner would send: how many values of each column it has, and their sum; one row an owner."""
    counted = np.ones(flat.shape, bool) if counted is None else counted
    if owner is None:
        return counted.sum(0)[None].astype(np.float64), flat.sum(0)[None]
    owners, columns = int(owner.max()) + 1, range(flat.shape[1])
    counts = np.stack([np.bincount(owner, counted[:, i], owners) for i in columns], 1)
    sums = np.stack([np.bincount(owner, flat[:, i], owners) for i in columns], 1)
    return counts.astype(np.float64), sums.astype(np.float64)
