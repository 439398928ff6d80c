"""Edges at work: the turns of a whole wave, with all their devices trained together by the executor inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Folding
from fedfleet.core.edges import MAX_SYNCS, NestedPass, Turn, Visit
from fedfleet.core.parts import Executor, Job
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import Array, Tree, difference
from fedfleet.engine.hierarchy import check_turn, make_visits, memory_after, turn_cost, turn_seconds, turn_stats
from fedfleet.executors.gather import admit


@dataclass(slots=True)
class _EdgeTurn:
    """One edge's turn under way: the model at the edge, the sum of its devices' reports, the losses they saw."""

    job: Job
    visit: Visit
    turn: Turn
    model: Tree
    acc: Folding | None = None
    counters: Tree = field(default_factory=dict[str, Array])  # integer leaves of a report, which no mean has
    bad_report: Report | None = None  # a report that cannot be used, kept for the server to say so
    weight: float = 0.0
    refused: int = 0
    losses: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])


def nested_executor(inner: Executor) -> Executor:
    """An executor for edges. Devices of all edges that average at the same time are one cohort of the inner executor.

    A turn of one average forwards its exact sum, so that no layer of edges can change a bit of the server's mean.
    """

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        visits = make_visits(jobs)
        nested_pass = jobs[0].local if jobs else None
        assert nested_pass is None or isinstance(nested_pass, NestedPass)
        turns = nested_pass.rule.plan(visits) if nested_pass else ()
        edges: list[_EdgeTurn] = []
        for job, visit, turn in zip(jobs, visits, turns, strict=True):
            check_turn(visit, turn)
            edges.append(_EdgeTurn(job, visit, turn, job.offer.params))
        for k in range(max((len(turn.syncs) for turn in turns), default=0)):
            _average(inner, [e for e in edges if k < len(e.turn.syncs)], k)
        return map(_report, edges)

    def evaluate(trials: Any) -> Iterable[Any]:
        return inner.evaluate(trials)

    return replace(inner, name=f"nested-{inner.name}", train=train, evaluate=evaluate, fold=None, together=True)


def _average(inner: Executor, edges: list[_EdgeTurn], k: int) -> None:
    """The k-th average of each of these edges."""
    work: list[tuple[_EdgeTurn, Job]] = []
    for edge in edges:
        job, visit, sync = edge.job, edge.visit, edge.turn.syncs[k]
        assert isinstance(job.local, NestedPass)
        for slot, rows in zip(sync.slots.tolist(), sync.rows, strict=True):
            if len(rows):  # a device that was emptied sits out
                device, task = int(visit.devices[slot]), job.task * MAX_SYNCS + k
                algorithm, key = job.local.algorithm, int(visit.keys[slot])
                offer = algorithm.offer(ServerState(edge.model), device, NO_SETTINGS)
                half = algorithm.local(device, NO_SETTINGS)
                work.append((edge, Job(task, device, key, job.seed, offer, half, rows, sync.steps)))
    for edge in edges:
        edge.acc, edge.weight = None, 0.0
    for (edge, job), report in zip(work, inner.train([job for _, job in work]), strict=True):
        _add_report(edge, job, report)
    for edge in edges:
        _move_model(edge)


def _add_report(edge: _EdgeTurn, job: Job, report: Report) -> None:
    assert isinstance(edge.job.local, NestedPass)
    fold, server = edge.job.local.algorithm.fold, ServerState(edge.model)
    acc = aggregation.zero(fold, server) if edge.acc is None else edge.acc
    if admit(fold, server, acc, report, Context(0, 0.0, job.client)) is not None:
        edge.bad_report, edge.refused = report, edge.refused + 1
        return
    edge.acc = acc
    edge.weight += report.weight
    edge.counters = {n: v for n, v in report.update.items() if not np.issubdtype(v.dtype, np.floating)}
    edge.losses.append((report.stats.get("loss", 0.0), report.stats.get("samples", 0.0)))


def _move_model(edge: _EdgeTurn) -> None:
    """Move the edge's model by the mean of its devices; if that was the only average, the sum itself is what counts."""
    if edge.acc is None or len(edge.turn.syncs) == 1:
        return
    assert isinstance(edge.job.local, NestedPass)
    change = aggregation.finish(edge.job.local.algorithm.fold, edge.acc)
    assert change is not None
    edge.model = {n: v + change.mean[n] if n in change.mean else v for n, v in edge.model.items()}


def _report(edge: _EdgeTurn) -> Report:
    job, turn = edge.job, edge.turn
    assert isinstance(job.local, NestedPass)
    fold, single_sync = job.local.algorithm.fold, len(turn.syncs) == 1
    costs = turn_cost(job, edge.visit, turn)
    seconds = turn_seconds(costs)
    samples = sum(n for _, n in edge.losses)
    stats = {
        **turn_stats(edge.visit, turn, seconds),
        "loss": sum(loss * n for loss, n in edge.losses) / samples if samples else float("nan"),
        "samples": float(len(job.rows)),
        "refused": float(edge.refused),
    }
    memory = memory_after(job, turn, seconds)
    if edge.acc is None:  # nothing that could be used: the server refuses it by name, and knows the reason
        assert edge.bad_report is not None
        bad_report = edge.bad_report
        return Report(job.task, job.client, bad_report.update, bad_report.weight, stats, memory, seconds=seconds, spent=costs)
    weight = edge.weight if turn.weight is None else turn.weight
    total = aggregation.finish(fold, edge.acc)
    assert total is not None
    update = total.mean if single_sync else difference(edge.model, job.offer.params)
    exact_sum = edge.acc if single_sync and turn.weight is None else None
    update = {**edge.counters, **update}
    return Report(job.task, job.client, update, weight, stats, memory, seconds=seconds, forwarded=exact_sum, spent=costs)
