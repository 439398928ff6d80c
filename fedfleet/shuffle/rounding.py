"""From real plans to whole samples with exact row sums: controlled rounding, then a cheap transport per class."""

from __future__ import annotations

import numpy as np

from fedfleet.shuffle.divergence import Floats, Ints


def round_holdings(x: Floats, totals: Ints) -> Ints:
    """Whole counts near x [B, c, V] with every class total exact and every device total within about one sample.

    Class by class, the samples left after flooring go where the fraction, plus what earlier classes owe, is largest.
    """
    b, c, v = x.shape
    floor = np.floor(x + 1e-9)
    owed = np.zeros((b, v))
    whole = np.empty((b, c, v), np.int64)
    for i in range(c):
        base = floor[:, i]
        owed = owed + x[:, i] - base
        left = totals[:, i] - base.sum(1)
        eligible = np.where(x[:, i] > 1e-9, owed, -np.inf)
        rank = np.argsort(np.argsort(-eligible, axis=1, kind="stable"), axis=1, kind="stable")
        extra = rank < left[:, None]
        whole[:, i] = (base + extra).astype(np.int64)
        owed = owed - extra
    return whole


def spread_rest(plan: Floats, counts: Ints, holdings: Ints) -> Ints:
    """Whole plans [B, c, V, V] with the given rows and holdings [B, c, V] that stay near real ones.

    Everything is floored; what is then left in rows and wanted by devices is matched by the largest fraction first.
    """
    b, c, v = counts.shape
    whole = np.floor(plan + 1e-9).astype(np.int64)
    left, wanted = counts - whole.sum(3), holdings - whole.sum(2)
    order = np.argsort(-(plan - whole).reshape(b, c, v * v), axis=2, kind="stable")
    flat, rest, need = whole.reshape(b * c, v * v), left.reshape(b * c, v), wanted.reshape(b * c, v)
    order = order.reshape(b * c, v * v)
    rows = np.arange(b * c)
    for step in range(v * v):
        pick = order[:, step]
        source, target = pick // v, pick % v
        sent = np.maximum(np.minimum(rest[rows, source], need[rows, target]), 0)
        flat[rows, pick] += sent
        rest[rows, source] -= sent
        need[rows, target] -= sent
    own = np.arange(v)
    flat[:, own * v + own] += rest  # a fraction of nearly one can leave a sample over: it stays at home
    return flat.reshape(b, c, v, v)


def round_plans(plan: Floats, counts: Ints) -> Ints:
    """Whole plans near real ones [B, c, V, V]; rows sum to counts [B, c, V] exactly."""
    holdings = round_holdings(plan.sum(2), counts.sum(2))
    return spread_rest(plan, counts, holdings)


def largest_remainder(plan: Floats, counts: Ints) -> Ints:
    """The plain way, row by row: floor, then one more where the fraction is largest."""
    base = np.floor(plan + 1e-9)
    left = counts - base.sum(3)
    rank = np.argsort(np.argsort(-(plan - base), axis=3, kind="stable"), axis=3, kind="stable")
    return (base + (rank < left[..., None])).astype(np.int64)
