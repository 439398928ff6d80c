"""Conformance of algorithms and folds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Aggregate, Fold
from fedfleet.core.cost import cost_of
from fedfleet.core.parts import Algorithm, Job, Task, Trial
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Context, Report, ServerState, whole_work
from fedfleet.core.rng import stream
from fedfleet.core.trees import Tree, content_hash
from fedfleet.executors.gather import admit


def check_fold(fold: Fold, server: ServerState, reports: list[Report] | None = None) -> None:
    """A fold refuses what it cannot use, survives saving, and folds chunks as it folds a stream.

    `reports` are healthy ones; without them, updates of the whole model are made up.
    """
    healthy = reports or [_report(fold, server, i) for i in range(6)]
    contexts = [Context(0, 1.0, r.client) for r in healthy]

    def refusal_of(report: Report) -> str | None:
        return aggregation.refusal(fold, aggregation.zero(fold, server), report, contexts[0])

    assert all(refusal_of(r) is None for r in healthy), "a finite update of the shape that it declares must be accepted"
    travelling = [n for n, v in healthy[0].update.items() if np.issubdtype(v.dtype, np.floating)]
    if travelling:
        broken = {**healthy[0].update, travelling[0]: np.full_like(healthy[0].update[travelling[0]], np.nan)}
        not_finite = Report(0, 3, broken, 1.0, {})
        assert refusal_of(not_finite), "an update that is not finite must be refused with a reason"
        short = Report(0, 3, {n: v for n, v in healthy[0].update.items() if n != travelling[0]}, 1.0, {})
        assert refusal_of(short), "an update without one of its leaves must be refused with a reason"
    assert aggregation.finish(fold, aggregation.zero(fold, server)) is None, "nothing folded gives no aggregate"

    def fold_all(items: list[tuple[Report, Context]]):
        acc = aggregation.zero(fold, server)
        for report, context in items:
            acc = aggregation.add(fold, acc, report, context)
        return acc

    pairs = list(zip(healthy, contexts, strict=True))
    whole = _hash(aggregation.finish(fold, fold_all(pairs)))
    assert _hash(aggregation.finish(fold, fold_all(pairs[::-1]))) == whole, "the order of arrival must not change a bit"
    half = len(pairs) // 2
    merged = aggregation.merge(fold, fold_all(pairs[:half]), fold_all(pairs[half:]))
    assert _hash(aggregation.finish(fold, merged)) == whole, "merging two chunks must equal folding their reports one by one"
    kept = aggregation.load(fold, server, aggregation.save(fold_all(pairs)))
    assert _hash(aggregation.finish(fold, kept)) == whole, "an accumulator must survive being saved and loaded"


def check_algorithm(algorithm: Algorithm, task: Task, execute) -> None:
    """Both halves fit: costs are known before training, updates fold, the model keeps its shape, nothing depends on order."""
    server = algorithm.init(task.init(0))
    clients = np.arange(3)
    sizes = np.array([20, 11, 1])
    cost = cost_of(algorithm, server, whole_work(clients), sizes)
    for column in (cost.samples, cost.bytes_down, cost.bytes_up):
        assert len(column) == 3 and np.isfinite(column).all() and (column >= 0).all(), "a cost must be finite, one per task"
    rows = [np.arange(20), np.arange(20, 31), np.arange(31, 32)]
    jobs: list[Job] = []
    for c in clients.tolist():
        local, again = algorithm.local(c, NO_SETTINGS), algorithm.local(c, NO_SETTINGS)
        assert isinstance(local, LocalPass) or callable(local), "the client's half must be a pass or a function"
        assert local == again, "the same client must get an equal pass each time, or nobody can train together"
        jobs.append(Job(c, c, 1000 + c, 7, algorithm.offer(server, c, NO_SETTINGS), local, rows[c]))
    before = content_hash(server.params)
    first, again = list(execute.train(jobs)), list(execute.train(jobs[::-1]))[::-1]
    assert content_hash(server.params) == before, "training must not change the model that was offered"
    for a, b, job in zip(first, again, jobs, strict=True):
        assert (a.task, a.client) == (job.task, job.client), "reports must come in the order of the jobs"
        assert content_hash(a.update) == content_hash(b.update), "a client's update must not depend on who trains before it"

    def fold_reports(reports: list[Report], what: str) -> aggregation.Folding:
        acc = aggregation.zero(algorithm.fold, server)
        for report in reports:
            reason = admit(algorithm.fold, server, acc, report, Context(0, 1.0, report.client), algorithm.accept)
            assert reason is None, f"its own fold refuses {what}: {reason}"
        return acc

    aggregate = aggregation.finish(algorithm.fold, fold_reports(first, "a healthy update"))
    assert aggregate is not None, "healthy reports must give an aggregate"
    after = algorithm.apply(server, aggregate)
    assert {n: v.shape for n, v in after.params.items()} == {n: v.shape for n, v in server.params.items()}
    assert all(np.isfinite(v).all() for v in after.params.values()), "the new model must be finite"
    assert content_hash(server.params) == before, "apply must not change the state it was given"
    _check_decoder(algorithm, server, first[0])
    # Once more from what they remember now: a second task must fit the first one's memory.
    twice = list(execute.train([replace(job, memory=r.memory or {}) for job, r in zip(jobs, first, strict=True)]))
    fold_reports(twice, "what a client with memory sends")
    if algorithm.personal is not None:
        personal = algorithm.personal(after.params, first[0].memory or {})
        next(iter(execute.evaluate([Trial(personal, rows[0])])))
    accept = algorithm.accept or (lambda server, report, context: report)
    check_fold(algorithm.fold, server, [accept(server, r, Context(0, 1.0, r.client)) for r in first])


def _check_decoder(algorithm: Algorithm, server: ServerState, report: Report) -> None:
    """Garbled reports are refused with a reason, whatever is wrong with them."""
    garbled_updates = [
        {},
        {n: v[..., :-1] if v.ndim else v for n, v in report.update.items()},
        {n: np.full_like(v, np.nan) if np.issubdtype(v.dtype, np.floating) else v for n, v in report.update.items()},
        {f"odd {n}": v for n, v in report.update.items()},
    ]
    for update in garbled_updates if report.update else ():
        acc = aggregation.zero(algorithm.fold, server)
        context = Context(0, 1.0, report.client)
        reason = admit(algorithm.fold, server, acc, replace(report, update=update), context, algorithm.accept)
        assert reason, "a garbled report must be refused with a reason"


def _report(fold: Fold, server: ServerState, i: int) -> Report:
    rng = stream(5, "check", i)
    update: Tree = {
        n: (rng.standard_normal(v.shape) * 0.1).astype(v.dtype) if np.issubdtype(v.dtype, np.floating) else v
        for n, v in fold.like(server).items()
    }
    return Report(i, i, update, 1.0 + i / 3, {})


def _hash(aggregate: Aggregate | None) -> list[str]:
    """Every bit of an aggregate."""
    if aggregate is None:
        return []
    sums = [f"{name} {m.weight} {m.count} {content_hash(m.tree)}" for name, m in sorted(aggregate.sums.items())]
    return [content_hash(aggregate.mean), str(aggregate.weight), str(aggregate.count), *sums]
