"""A column per client, or, in a large fleet, one for many clients of neighbouring rank: a page must not grow with the fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedfleet.app.pages.svg import Series, bar_chart
from fedfleet.core.records import Floats, Ints

MOST = 2000  # clients that have a column, or points that are drawn, each of its own
_COLUMNS = 500


def groups(n: int) -> Ints:
    """Where each column begins and the last one ends.

    >>> groups(3).tolist(), len(groups(2000)), len(groups(1_000_000))
    ([0, 1, 2, 3], 2001, 501)
    """
    return np.arange(n + 1) if n <= MOST else np.linspace(0, n, _COLUMNS + 1).astype(np.int64)


def ranked_columns(
    values: Ints,
    order: Ints,
    x_label: str,
    y_label: str,
    colours: Sequence[str],
    kinds: Ints,
    title: Callable[[int], str],
) -> str:
    """The values of clients in this order, which falls; client c is of the kind kinds[c], with its colour and its title.

    A column of many clients has their mean, the colour of most of them, and says who they are.
    """
    edges = groups(len(order))
    if len(edges) == len(order) + 1:
        each: list[int] = order.tolist()
        own = [colours[int(k)] for k in kinds[order]]
        return bar_chart(values[order].tolist(), x_label, y_label, own, [title(c) for c in each])
    sums = np.add.reduceat(values[order], edges[:-1])
    means: Floats = sums / np.diff(edges)
    spans = [order[a:b] for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    most = [int(np.bincount(kinds[span]).argmax()) for span in spans]
    titles = [
        f"{len(span):,} clients, ranks {a + 1:,} to {a + len(span):,}: {values[span[-1]]:,} to {values[span[0]]:,} each"
        for a, span in zip(edges[:-1].tolist(), spans, strict=True)
    ]
    label = f"{x_label}; a column is {len(spans[0]):,} clients"
    return bar_chart(means.tolist(), label, y_label, [colours[k] for k in most], titles, over=len(order))


def thinned(series: Series) -> Series:
    """The line with at most so many points, the first and the last among them."""
    n = len(series.x)
    if n <= MOST:
        return series
    kept: list[int] = np.linspace(0, n - 1, MOST).astype(np.int64).tolist()
    return Series(series.name, [series.x[i] for i in kept], [series.y[i] for i in kept], series.colour, series.dashed)
