"""Folds: how reports become one aggregate."""

from __future__ import annotations

from fedfleet.core.aggregation import Fold
from fedfleet.core.limits import Bound, Positive
from fedfleet.core.passes import Names
from fedfleet.core.records import ServerState
from fedfleet.core.trees import Tree


def mean(*, bound: Bound = 2.0**10, total_weight: Positive = 2.0**24, travels: Names | None = None) -> Fold:
    """The exact weighted mean of the updates: no order of arrival or chunking can change a bit.

    `bound` limits every element of an update, `total_weight` the sum of the weights of one commit; together they fix
    the resolution, 2^-28 by default. `travels` says which names are averaged (default: all floating leaves).
    """

    def like(server: ServerState) -> Tree:
        return server.params if travels is None else {n: v for n, v in server.params.items() if travels(n)}

    return Fold(like, bound=bound, total_weight=total_weight)
