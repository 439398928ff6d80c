"""Conformance of executors: whatever a pass may ask for, an executor does as the literal one does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Aggregate, Entry, Fold
from fedfleet.core.parts import Executor, Job, Task, Trial
from fedfleet.core.passes import STATS
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import Tree, content_hash
from fedfleet.executors.inline import inline
from fedfleet.learn.folds import mean
from fedfleet.testing.passes import Case, cases

ROUNDING = 1e-5  # what single precision loses in a pass in which no kink was crossed
TOLERANCE = 1e-4  # of a tensor's largest value, after a local pass on a smooth model


@dataclass(frozen=True, slots=True)
class ExecutorCheck:
    """How far an executor was from the literal one, over all cells: the worst cell by name."""

    cells: int
    worst: float
    where: str


def check_executor(
    execute: Executor, task: Task, *, same_bits: bool = False, tolerance: float = TOLERANCE, only: Iterable[Case] | None = None
) -> ExecutorCheck:
    """Every cell of the matrix of passes against `inline`: updates, memory, weights, statistics, order; and sums in place.

    `same_bits`: nothing may differ by a bit. Else each tensor lies within `tolerance` of its largest value, which on models without
    kinks any order of summation does.
    """
    literal, worst, where, cells = inline(task), 0.0, "", 0
    for case in only if only is not None else cases(task):
        expected, actual = list(literal.train(case.jobs)), list(execute.train(case.jobs))
        assert len(actual) == len(case.jobs), f"{case.name}: {len(actual)} reports for {len(case.jobs)} jobs"
        for job, a, b in zip(case.jobs, expected, actual, strict=True):
            gap = _compare(f"{execute.name}, {case.name}, client {job.client}", job, a, b, same_bits)
            assert gap <= tolerance, f"{execute.name}, {case.name}, client {job.client}: {gap:.2e} from inline"
            worst, where = max((worst, where), (gap, case.name))
        cells += 1
        if execute.fold is not None:
            _check_folding(execute, task, case, actual)
    _check_evaluation(execute, literal, task, same_bits)
    return ExecutorCheck(cells, worst, where)


def check_kinks(execute: Executor, task: Task, jobs: Sequence[Job]) -> tuple[float, float]:
    """On a model with kinks: no farther from double precision than twice as far as inline is, or than rounding alone takes it.

    Gives both distances.
    """
    double = replace(
        task, dataset=replace(task.dataset, x=task.dataset.x.astype(np.float64)), init=lambda seed: _double_tree(task.init(seed))
    )
    double_jobs = [replace(job, offer=replace(job.offer, params=_double_tree(job.offer.params))) for job in jobs]
    exact = list(inline(double).train(double_jobs))
    distances = [
        max(_gap(a.update, b.update, _double_tree(j.offer.params)) for a, b, j in zip(exact, reports, jobs, strict=True))
        for reports in (list(inline(task).train(jobs)), list(execute.train(jobs)))
    ]
    assert distances[1] <= max(2.0 * distances[0], ROUNDING), (
        f"{execute.name} lies {distances[1]:.2e} from float64, inline {distances[0]:.2e}"
    )
    return distances[0], distances[1]


def _compare(name: str, job: Job, a: Report, b: Report, same_bits: bool) -> float:
    assert (a.task, a.client) == (b.task, b.client), f"{name}: reports must come in the order of the jobs"
    assert a.weight == b.weight, f"{name}: weighs {b.weight}, not {a.weight}"
    assert a.stats.keys() == b.stats.keys(), f"{name}: reports {sorted(b.stats)}, not {sorted(a.stats)}"
    assert set(STATS) <= a.stats.keys(), f"{name}: statistics are missing"
    for stat in STATS:
        close = np.isclose(b.stats[stat], a.stats[stat], rtol=2e-4, atol=1e-5)
        assert close, f"{name}: {stat} is {b.stats[stat]}, not {a.stats[stat]}"
    assert (a.memory is None) == (b.memory is None), f"{name}: remembers {b.memory and list(b.memory)}"
    trees = [(a.update, b.update)]
    if a.memory is not None and b.memory is not None:
        assert a.memory.keys() == b.memory.keys(), f"{name}: remembers {sorted(b.memory)}, not {sorted(a.memory)}"
        trees += [(a.memory[slot], b.memory[slot]) for slot in a.memory]
    worst = 0.0
    for one, other in trees:
        assert one.keys() == other.keys(), f"{name}: sends or keeps {sorted(other)}, not {sorted(one)}"
        assert all(one[n].dtype == other[n].dtype and one[n].shape == other[n].shape for n in one), f"{name}: another type"
        if same_bits:
            assert content_hash(one) == content_hash(other), f"{name}: the bits differ"
        worst = max(worst, _gap(one, other, job.offer.params))
    return worst


def _gap(one: Tree, other: Tree, model: Tree) -> float:
    """The largest difference of two trees, per tensor in units of its largest value (at least the model's own)."""
    worst = 0.0
    for name, leaf in one.items():
        if leaf.size and np.issubdtype(leaf.dtype, np.floating):
            size = max(float(np.abs(leaf).max()), float(np.abs(model[name]).max()) if name in model else 0.0, 1e-6)
            worst = max(worst, float(np.abs(leaf - other[name]).max()) / size)
        elif leaf.size:
            assert np.array_equal(leaf, other[name]), f"leaf {name!r} is an integer and differs"
    return worst


def _check_folding(execute: Executor, task: Task, case: Case, reports: Sequence[Report]) -> None:
    """Adding up in place gives the bits of folding the same reports one by one, by every rule that a fold can have."""
    assert execute.fold is not None
    server = ServerState(task.init(0))
    names = list(reports[0].update)
    if any(list(r.update) != names for r in reports):
        return  # what goes up differs by client, which no one fold takes
    contexts = [Context(job.client % 3, 10.0, job.client, job.settings, job.task) for job in case.jobs]
    for rule, fold in folds(names).items():
        acc = aggregation.zero(fold, server)
        for report, context in zip(reports, contexts, strict=True):
            aggregation.add(fold, acc, report, context)
        folded = execute.fold(case.jobs, contexts, fold, server)
        expected, actual = aggregation.finish(fold, acc), aggregation.finish(fold, folded.accumulator)
        assert expected is not None and actual is not None
        assert _bits(actual) == _bits(expected), f"{execute.name}, {case.name}: {rule} in place differs from folding the reports"
        assert folded.tasks.tolist() == [r.task for r in reports], f"{execute.name}, {case.name}: other tasks were folded"
        memories = {r.client: r.memory for r in reports if r.memory is not None}
        assert folded.memory.keys() == memories.keys(), f"{execute.name}, {case.name}: memory of other clients came back"
        for client, slots in memories.items():
            memory = {slot: {n: np.asarray(v) for n, v in tree.items()} for slot, tree in folded.memory[client].items()}
            assert all(content_hash(memory[s]) == content_hash(t) for s, t in slots.items()), f"{case.name}: other memory"


def folds(names: Sequence[str]) -> dict[str, Fold]:
    """One fold for every field that a feature can change."""
    inside = set(names)
    plain = mean(travels=inside.__contains__)
    first = names[0] if names else ""

    def enter_by_stats(weight: float, stats: Mapping[str, float], context: Context) -> Entry:
        return Entry(weight * (1 + context.staleness) / stats["steps"])

    def enter_partial(weight: float, stats: object, context: Context) -> Entry:
        del stats
        return Entry(weight, parts={first: 0.0 if context.client % 2 else 1.0} if first else None)

    return {
        "the mean": plain,
        "a factor": replace(plain, enter=lambda weight, stats, context: Entry(weight, factor=1.0 / (1 + context.staleness))),
        "another weight": replace(plain, enter=enter_by_stats),
        "sums by name": replace(plain, enter=lambda weight, stats, context: Entry(weight, sum=str(context.staleness))),
        "a part per leaf": replace(plain, enter=enter_partial),
        "a fixed denominator": replace(plain, denominator=7.0),
        "two limbs": replace(plain, fine=lambda name: name == first),
    }


def _bits(aggregate: Aggregate) -> list[str]:
    return [f"{n} {m.weight} {m.count} {content_hash(m.tree)}" for n, m in sorted(aggregate.sums.items())]


def _check_evaluation(execute: Executor, literal: Executor, task: Task, same_bits: bool) -> None:
    trials = [Trial(task.init(seed), np.arange(n)) for seed, n in ((0, 7), (0, 1), (1, 5), (2, 9))]
    for a, b in zip(literal.evaluate(trials), execute.evaluate(trials), strict=True):
        assert (a.correct, a.total) == (b.correct, b.total), f"{execute.name}: evaluates differently"
        assert a.loss == b.loss if same_bits else np.isclose(a.loss, b.loss, rtol=1e-4), f"{execute.name}: another loss"


def _double_tree(tree: Tree) -> Tree:
    return {n: v.astype(np.float64) if np.issubdtype(v.dtype, np.floating) else v for n, v in tree.items()}
