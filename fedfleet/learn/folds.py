"""Folds: how reports become one aggregate. The mean streams; the robust ones see the reports of a commit together.

All but `norm_bound` collect the reports of a commit, and count each report once: a weight is a claim, and attackers claim what
they like.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.aggregation import CollectedReports, Entry, Fold, plain_entry
from fedfleet.core.bounds import Ge, Lt
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Bound, Count, Natural, Positive
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import Names
from fedfleet.core.records import Context, ServerState
from fedfleet.core.trees import Tree


def mean(*, bound: Bound = 2.0**10, total_weight: Positive = 2.0**24, travels: Names | None = None) -> Fold:
    """The exact weighted mean of the updates: order-independent aggregation, bit-exact.

    `bound` limits every element of an update, `total_weight` the sum of the weights of one commit; together they fix
    the resolution, 2^-28 by default. `travels` says which names are averaged (default: all floating leaves).
    """

    def like(server: ServerState) -> Tree:
        return server.params if travels is None else {n: v for n, v in server.params.items() if travels(n)}

    return Fold(like, bound=bound, total_weight=total_weight)


_BLOCK = 1 << 14  # elements whose reports are sorted at once: they stay in the cache
_STATS: tuple[str, ...] = ("steps", "samples", "loss", "squared_loss", "update_norm")  # that every pass reports
_WIDE = 1 << 16  # elements of one product

Trim = Annotated[float, Ge(0), Lt(0.5)]


def median() -> Fold:
    """The middle value of every element; between the two middle ones if the reports are even in number.

    Yin et al. 2018. It holds as long as less than half of the reports are bad, and blurs what unlike clients disagree about.

    >>> combine_updates(median(), [[1.0], [2.0], [90.0]])
    [2.0]
    """

    def middle(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
        n = ordered.shape[1]
        return 0.5 * (ordered[:, (n - 1) // 2] + ordered[:, n // 2])

    return replace(mean(), combine=_combine_sorted(middle))


def trimmed_mean(share: Trim = 0.25) -> Fold:
    """The mean of every element without this share of the smallest and as many of the largest values.

    Yin et al. 2018. How many values that is at each end is rounded up (0.25 of 5 reports are 2; SciPy's `trim_mean` rounds down),
    so that the cut never holds fewer than the share that may be bad. At least one value remains. It holds as long as no larger
    share of the reports is bad.

    >>> combine_updates(trimmed_mean(0.25), [[1.0], [2.0], [4.0], [90.0]])
    [3.0]
    """

    def trim(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
        n = ordered.shape[1]
        cut = min(math.ceil(share * n - 1e-9), (n - 1) // 2)
        return ordered[:, cut : n - cut].mean(1)

    return replace(mean(), combine=_combine_sorted(trim))


def norm_bound(limit: Positive = 1.0) -> Fold:
    """The mean of updates none of which is longer than `limit`: longer ones are scaled down to it.

    Sun et al. 2019. It streams, keeps weights, and goes around every fold that adds up. What attackers can do is bounded, not
    undone: choose a limit that is not far above the norm of honest updates (statistic `update_norm`).

    >>> combine_updates(norm_bound(1.0), [[1.0], [-4.0]])
    [0.0]
    """
    return replace(mean(), clip=limit)


def krum(f: Natural = 1) -> Fold:
    """The one report that lies nearest to its n - f - 2 nearest neighbours, f being how many may be bad.

    Blanchard et al. 2017, who ask for n >= 2 f + 3. Of equals the earlier task wins.

    >>> combine_updates(krum(1), [[1.0], [1.1], [1.2], [0.5], [90.0]])
    [1.1]
    """
    return replace(mean(), combine=_mean_of_nearest(f, 1), least=2 * f + 3)


def multi_krum(f: Natural = 1, m: Count | None = None) -> Fold:
    """The plain mean of the m reports that Krum likes best; without m, of all but f.

    Blanchard et al. 2017.

    >>> combine_updates(multi_krum(1), [[1.0], [1.0], [1.5], [0.5], [90.0]])
    [1.0]
    """
    return replace(mean(), combine=_mean_of_nearest(f, m), least=max(2 * f + 3, m or 1))


def with_fold(algorithm: Algorithm, fold: Fold) -> Algorithm:
    """The algorithm with this fold: one that collects, or has entries of its own, replaces a plain mean only.

    Another one that streams goes around any fold that streams. What reports hold stays as the algorithm says.
    """
    inner = algorithm.fold
    own_sums = fold.enter is not plain_entry or fold.ages or fold.denominator is not None
    if fold.noise is not None:
        raise BadInput(
            "algorithm.fold: a fold cannot bring noise of its own, which the runtime adds with its key; use algorithm.private"
        )
    reason = (
        _why_not_plain(inner) if own_sums or not fold.streams else None if inner.streams else "combines reports in a way of its own"
    )
    if reason is None and own_sums and inner.enter is not plain_entry:
        reason = "weighs reports in a way of its own"
    if reason is None and (fold.clip is not None or not fold.streams):
        reason = inner.intact
    if reason is not None:
        raise BadInput(f"algorithm.fold: {algorithm.name!r} {reason}, which no other fold can do; leave `fold` out")
    new_fold = replace(inner, combine=fold.combine, clip=fold.clip, least=max(inner.least, fold.least))
    if fold.streams and fold.clip is None:  # the mean itself: what it was given counts
        new_fold = replace(new_fold, bound=fold.bound, total_weight=fold.total_weight, fine=fold.fine or inner.fine)
    if own_sums:  # whoever has another entry of its own was refused
        new_fold = replace(new_fold, enter=fold.enter, ages=fold.ages, denominator=fold.denominator)
    return replace(algorithm, fold=new_fold)


def _why_not_plain(fold: Fold) -> str | None:
    """Why a fold is more than a mean, in words; None if it is not."""
    if not fold.streams:
        return "combines reports in a way of its own"
    if fold.denominator is not None:
        return "divides its sum by a fixed number"
    if fold.ages:
        return "weighs reports by how late they are"
    if fold.partial:
        return "weighs each element by who trained it"
    entry = sample_entry(fold)
    return "adds up parts of reports, or several sums" if entry.sum or entry.parts is not None else None


def sample_entry(fold: Fold) -> Entry:
    """How a fold would let in a report of weight 1 that took one step."""
    stats: dict[str, float] = dict.fromkeys(_STATS, 1.0)
    try:
        return fold.enter(1.0, stats, Context(0, 1.0, 0))
    except KeyError:  # a statistic of its own: nothing can be said before there is a report
        return Entry(1.0)


def _combine_sorted(choose: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Callable[[CollectedReports], Tree]:
    """Combine element by element: `choose` gets rows of sorted values, one for each element."""

    def combine(collected: CollectedReports) -> Tree:
        result: Tree = {}
        for name, first in collected[0][0].update.items():
            if not np.issubdtype(first.dtype, np.floating):
                continue
            rows = [report.update[name].reshape(-1) for report, _ in collected]
            out = np.empty(first.size, np.float32)
            for a in range(0, first.size, _BLOCK):
                block = np.stack([row[a : a + _BLOCK] for row in rows], axis=1)
                block.sort(axis=1)
                out[a : a + _BLOCK] = choose(block.astype(np.float64))
            result[name] = out.reshape(first.shape)
        return result

    return combine


def _mean_of_nearest(f: int, m: int | None) -> Callable[[CollectedReports], Tree]:
    """The plain mean of the m reports with the smallest scores."""

    def combine(collected: CollectedReports) -> Tree:
        reports = [report.update for report, _ in collected]
        names = [n for n, v in reports[0].items() if np.issubdtype(v.dtype, np.floating)]
        scores = _scores([[r[n].reshape(-1) for n in names] for r in reports], f)
        best = np.sort(np.argsort(scores, kind="stable")[: max(1, len(reports) - f) if m is None else m])
        means = {n: np.mean([reports[i][n] for i in best], axis=0, dtype=np.float64) for n in names}
        return {n: np.asarray(v, np.float32) for n, v in means.items()}

    return combine


def _scores(reports: list[list[NDArray[Any]]], f: int) -> NDArray[np.float32]:
    """Krum's score of each report: the summed squared distances to its n - f - 2 nearest others."""
    n = len(reports)
    gram = np.zeros((n, n))
    for leaf in range(len(reports[0])):
        for a in range(0, reports[0][leaf].size, _WIDE):
            block = np.stack([r[leaf][a : a + _WIDE] for r in reports]).astype(np.float64)
            gram += block @ block.T
    squares = np.diag(gram)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2.0 * gram, 0.0)
    np.fill_diagonal(distances, np.inf)
    nearest = np.sort(distances, axis=1)[:, : max(1, n - f - 2)]
    # Single precision: the last bits of a product, which threads may change, decide nothing.
    return nearest.sum(1).astype(np.float32)


def combine_updates(fold: Fold, updates: list[list[float]]) -> list[float]:
    """What a fold makes of these updates, each of weight 1: for examples."""
    from fedfleet.core import aggregation
    from fedfleet.core.records import Report, ServerState

    acc = aggregation.zero(fold, ServerState({"w": np.zeros(len(updates[0]), np.float32)}))
    for i, update in enumerate(updates):
        aggregation.add(fold, acc, Report(i, i, {"w": np.array(update, np.float32)}, 1.0, {}), Context(0, 0.0, i, task=i))
    aggregate = aggregation.finish(fold, acc)
    return [] if aggregate is None else [round(v, 6) for v in aggregate.mean["w"].tolist()]
