"""Conformance of folds: what they refuse, that no order changes a bit, and that what they answer follows from the reports alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Aggregate, Fold, Folding
from fedfleet.core.errors import FedFleetError
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.rng import stream
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Tree
from fedfleet.testing.conformance import CheckLog, Conformance, fingerprint
from fedfleet.testing.surroundings import Surroundings

_ROUNDING = 1e-4  # of the largest value: what other orders of a sum may change where a fold adds up in single precision


def check_fold(fold: Fold, server: ServerState, reports: list[Report] | None = None, *, quiet: bool = False) -> Conformance:
    """A fold refuses what it cannot use, survives saving, and folds chunks as it folds a stream; it is a pure function.

    `reports` are healthy ones; without them, updates of the whole model are made up.
    """
    log = CheckLog("the fold")
    healthy = reports or [_report(fold, server, i) for i in range(6)]
    contexts = [Context(0, 1.0, r.client, task=r.task) for r in healthy]
    _check_refusals(fold, server, healthy, contexts, log)
    pairs = list(zip(healthy, contexts, strict=True))
    around, before = Surroundings(fold), fingerprint(healthy)
    with around(1, leaves_generators="a fold"):
        result = finish_fold(fold, fold_all(fold, server, pairs))
    whole = _bits(result)
    log.answer(whole)
    assert fingerprint(healthy) == before, "a fold must not change the reports that it is given: copy an array before you write"
    with around(2, leaves_generators="a fold"):
        backwards, once_more = (_bits(finish_fold(fold, fold_all(fold, server, p))) for p in (pairs[::-1], pairs))
    # What collects gets the reports sorted: if their order matters there, it remembers something.
    assert backwards == whole or fold.combine is not None, (
        "the order of arrival must not change a bit of the aggregate; let `enter` look at its own report alone, and "
        "remember nothing"
    )
    assert once_more == backwards == whole, (
        "the same reports must fold to the same aggregate, at any time: no chance, no clock, no memory of the fold's own"
    )
    half = len(pairs) // 2
    merged = aggregation.merge(fold, fold_all(fold, server, pairs[:half]), fold_all(fold, server, pairs[half:]))
    assert _bits(finish_fold(fold, merged)) == whole, "merging two chunks must equal folding their reports one by one"
    saved = unpack_tree(pack_tree(aggregation.save(fold_all(fold, server, pairs))))
    kept = aggregation.load(fold, server, saved)
    assert _bits(finish_fold(fold, kept)) == whole, "an accumulator must survive being saved and loaded"
    log.checked("the order of reports, chunks, saving, chance and the clock change no bit of the aggregate")
    if result is not None:
        _check_shapes(fold, server, result)
        log.checked("the aggregate has the shapes of the model, in float32")
    if fold.combine is not None:
        _check_numbering(fold, server, healthy, result)
        _check_count(fold, server, healthy[0])
        log.checked("it goes neither by the numbers of tasks and clients, nor by how many reports say the same")
    return log.end(quiet)


def _check_refusals(fold: Fold, server: ServerState, healthy: list[Report], contexts: list[Context], log: CheckLog) -> None:
    def refusal_of(report: Report) -> str | None:
        return aggregation.refusal(fold, aggregation.zero(fold, server), report, contexts[0])

    reasons = [refusal_of(r) for r in healthy]
    assert all(reason is None for reason in reasons), (
        f"a finite update of the shape that it declares must be accepted, and is refused: {next(filter(None, reasons))}"
    )
    travelling = [n for n, v in healthy[0].update.items() if np.issubdtype(v.dtype, np.floating)]
    if travelling:
        broken = {**healthy[0].update, travelling[0]: np.full_like(healthy[0].update[travelling[0]], np.nan)}
        not_finite = Report(0, 3, broken, 1.0, {})
        assert refusal_of(not_finite), "an update that is not finite must be refused with a reason"
        short = Report(0, 3, {n: v for n, v in healthy[0].update.items() if n != travelling[0]}, 1.0, {})
        assert refusal_of(short), "an update without one of its leaves must be refused with a reason"
    assert aggregation.finish(fold, aggregation.zero(fold, server)) is None, "nothing folded gives no aggregate"
    log.checked("it accepts finite updates of the declared shapes, and refuses others")


def _check_shapes(fold: Fold, server: ServerState, result: Aggregate) -> None:
    """Every leaf has its own shape: another one might broadcast, and nobody would notice."""
    like = fold.like(server)
    for mean in result.sums.values():
        for name, leaf in mean.tree.items():
            assert isinstance(leaf, np.ndarray) and name in like, (  # pyright: ignore[reportUnnecessaryIsInstance]
                f"the aggregate must hold arrays by the names of the model, and has {name!r}: {type(leaf).__name__}"
            )
            assert leaf.shape == like[name].shape, (
                f"leaf {name!r} of the aggregate must have the shape {like[name].shape}, and has {leaf.shape}, which would be "
                "broadcast over the model; give one number for each element"
            )
            assert leaf.dtype == np.float32 or like[name].dtype != np.float32, (
                f"leaf {name!r} of the aggregate must be float32, and is {leaf.dtype}; end with .astype(np.float32)"
            )


def _check_numbering(fold: Fold, server: ServerState, healthy: list[Report], result: Aggregate | None) -> None:
    """The same reports under other numbers give the same aggregate, but for rounding."""
    other = [replace(r, task=900 - 7 * r.task, client=500 - r.client) for r in healthy]
    renumbered = finish_fold(fold, fold_all(fold, server, [(r, Context(0, 1.0, r.client, task=r.task)) for r in other]))
    assert (result is None) == (renumbered is None) and all(
        _is_near(mean.tree, renumbered.sums[name].tree) for name, mean in (result.sums if result else {}).items() if renumbered
    ), "a fold must go by what reports say, and this one goes by their places or by the numbers of tasks and clients"


def _check_count(fold: Fold, server: ServerState, report: Report) -> None:
    """More of the same reports do not make a larger aggregate, unless the fold says what it divides by."""
    if fold.denominator is not None:
        return
    few, many = (
        finish_fold(
            fold, fold_all(fold, server, [(replace(report, task=i, client=i), Context(0, 1.0, i, task=i)) for i in range(n)])
        )
        for n in (max(3, fold.least), 2 * max(3, fold.least))
    )
    assert few is None or many is None or _is_near(few.mean, many.mean), (
        "twice as many equal reports must give the same aggregate, and give another one: divide by the weights or the number of "
        "the reports that came, or say `denominator`"
    )


def _is_near(one: Tree, other: Tree) -> bool:
    return one.keys() == other.keys() and all(
        np.allclose(v, other[n], rtol=_ROUNDING, atol=_ROUNDING * float(np.abs(v).max(initial=0.0))) for n, v in one.items()
    )


def fold_all(fold: Fold, server: ServerState, pairs: Sequence[tuple[Report, Context]]) -> Folding:
    """These reports, folded one by one."""
    acc = aggregation.zero(fold, server)
    for report, context in pairs:
        acc = aggregation.add(fold, acc, report, context)
    return acc


def finish_fold(fold: Fold, acc: Folding) -> Aggregate | None:
    """The aggregate; what the fold is refused for is a rule that it broke."""
    try:
        return aggregation.finish(fold, acc)
    except FedFleetError as error:
        raise AssertionError(str(error)) from error


def _report(fold: Fold, server: ServerState, i: int) -> Report:
    rng = stream(5, "check", i)
    update: Tree = {
        n: (rng.standard_normal(v.shape) * 0.1).astype(v.dtype) if np.issubdtype(v.dtype, np.floating) else v
        for n, v in fold.like(server).items()
    }
    return Report(i, i, update, 1.0 + i / 3, {})


def _bits(aggregate: Aggregate | None) -> list[str]:
    """Every bit of an aggregate."""
    if aggregate is None:
        return []
    return [fingerprint(aggregate.mean), str(aggregate.weight), str(aggregate.count), fingerprint(dict(aggregate.sums))]
