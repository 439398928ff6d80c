"""Folds: how reports become one aggregate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedfleet.core import exact
from fedfleet.core.errors import RunFailed
from fedfleet.core.limits import Positive
from fedfleet.core.parts import ExactMean, Fold
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import Tree

Names = Callable[[str], bool]


def mean(*, bound: Positive = 2.0**10, total_weight: Positive = 2.0**24, travels: Names | None = None) -> Fold:
    """The exact weighted mean of the updates: no order of arrival or chunking can change a bit.

    `bound` limits every element of an update, `total_weight` the sum of the weights of one commit; together they fix
    the resolution, 2^-28 by default. `travels` says which names are averaged (default: all floating leaves).
    """
    one = exact.scale_for(bound, total_weight)
    known: dict[tuple[str, ...], dict[str, exact.Scale]] = {}

    def scales(tree: Tree) -> dict[str, exact.Scale]:
        names = tuple(tree)
        if names not in known:
            known[names] = {
                n: one for n in names if np.issubdtype(tree[n].dtype, np.floating) and (travels is None or travels(n))
            }
        return known[names]

    def like(server: ServerState) -> Tree:
        return server.params if travels is None else {n: v for n, v in server.params.items() if travels(n)}

    def zero(server: ServerState) -> exact.Accumulator:
        return exact.zero(server.params, scales(like(server)))

    def check(server: ServerState, report: Report) -> str | None:
        tree = like(server)
        return exact.refusal(report.update, report.weight, tree, scales(tree), total_weight)

    def add(acc: exact.Accumulator, report: Report, context: Context) -> exact.Accumulator:
        del context
        return within_limit(exact.add(acc, report.update, report.weight, scales(report.update)))

    def merge(a: exact.Accumulator, b: exact.Accumulator) -> exact.Accumulator:
        return within_limit(exact.merge(a, b))

    def within_limit(acc: exact.Accumulator) -> exact.Accumulator:
        if acc.weight > total_weight * 2.0**60:  # beyond it the fixed-point sums could overflow
            raise RunFailed(f"the weights of one commit exceed {total_weight:g}; raise the fold's total_weight")
        return acc

    def finish(acc: exact.Accumulator) -> Tree | None:
        return exact.mean(acc, dict.fromkeys(acc.sums, one))

    def exact_mean(server: ServerState) -> ExactMean:
        return ExactMean(scales(like(server)), total_weight)

    return Fold(zero, check, add, merge, finish, exact.save, exact.load, exact_mean)
