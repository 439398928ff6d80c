"""A client must not be able to decide the model by what it declares: no honest report is refused, and no order changes a bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from fedfleet.core import aggregation, registry
from fedfleet.core.aggregation import Fold, Folding
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import ModelCommitted, ReportRejected, ReportsGathered
from fedfleet.core.parts import Algorithm, Dataset, Job, Policy
from fedfleet.core.records import Context, Report, ServerState, Stop
from fedfleet.core.room import most_reports, with_room
from fedfleet.core.trees import content_hash
from fedfleet.executors.gather import fold_in_order
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.folds import with_fold
from fedfleet.learn.staleness import with_damping
from fedfleet.learn.zoo import fedbuff
from fedfleet.pace.asynchronous import buffered, semi_async
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.testing.toys import consensus
from tests.portions import examples
from tests.worlds import Fleet, even_fleet, events_of, fleets, paces, toy_plan, world_of

DECLARED = (0.0, 1.0, 1e3, 2.0**24 - 1, 2.0**24, 2.0**63)
HONEST = 6
SERVER = ServerState({"w": np.zeros(4, np.float32)})


def built_folds() -> dict[str, Fold]:
    """Every fold of the registry, as an algorithm has it, and folds that other features make."""
    result = {f"fold {name}": with_fold(fedavg(), registry.builder("folds", name)()).fold for name in registry.names("folds")}
    return {**result, "staleness": with_damping(fedavg()).fold, "fedbuff": fedbuff().fold}


FOLDS = built_folds()


def report_of(task: int, weight: float, pull: float) -> tuple[Report, Context]:
    update = {"w": np.array([pull, -pull, task / 7.0, 0.125], np.float32)}
    return Report(task, task, update, weight, {"loss": 1.0, "samples": weight}), Context(task % 3, 1.0, task, task=task)


def placed(declared: float, liars: int, place: str) -> list[tuple[Report, Context]]:
    """Honest reports in the order of their arrival, and those of liars first, in the middle or last."""
    honest = [report_of(task, 5.0 + 3 * task, 0.25) for task in range(HONEST)]
    lying = [report_of(HONEST + i, declared, 9.0) for i in range(liars)]
    at = {"first": 0, "middle": HONEST // 2, "last": HONEST}[place]
    return [*honest[:at], *lying, *honest[at:]]


def folded(fold: Fold, pairs: list[tuple[Report, Context]], chunks: int = 1) -> tuple[set[int], Any]:
    """Which tasks were refused, and the bits of the mean, from reports in this order and in so many partial sums."""
    whole: Folding | None = None
    refused: set[int] = set()
    for part in range(chunks):
        some = pairs[part::chunks]
        result = fold_in_order(fold, SERVER, [r for r, _ in some], [c for _, c in some])
        refused |= {r.task for r in result.rejected}
        whole = result.accumulator if whole is None else aggregation.merge(fold, whole, result.accumulator)
    assert whole is not None
    aggregate = aggregation.finish(fold, whole)
    return refused, None if aggregate is None else content_hash(aggregate.mean)


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("name", FOLDS)
def test_no_declaration_evicts_an_honest_report_in_any_fold(name: str, declared: float) -> None:
    algorithm = with_room(replace(fedavg(), fold=FOLDS[name]), readiness(HONEST + 3), 20, np.array([20, 4]))
    for liars in (1, 2, 3):
        results = {
            (frozenset(refused), bits)
            for place in ("first", "middle", "last")
            for chunks in (1, 3)
            for refused, bits in [folded(algorithm.fold, placed(declared, liars, place), chunks)]
        }
        assert len(results) == 1, "the order of arrival changed who is in the model, or its bits"
        ((refused, bits),) = results
        assert bits is not None and all(task >= HONEST for task in refused)


def test_without_a_division_of_the_room_one_report_evicts_the_others() -> None:
    """What the law is for: the same reports where one of them may claim the whole sum."""
    refused, _ = folded(fedavg().fold, placed(2.0**24, 1, "first"))
    assert refused == set(range(HONEST))


def test_every_order_of_three_gives_the_same_bits() -> None:
    fold = with_room(fedavg(), readiness(3), 3, np.array([20])).fold
    pairs = [report_of(0, 8.0, 0.25), report_of(1, fold.heaviest, 9.0), report_of(2, fold.heaviest, -9.0)]
    assert len({folded(fold, list(order))[1] for order in permutations(pairs)}) == 1


# ---- edges --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", DECLARED)
def test_an_edge_that_forwards_a_claim_evicts_nobody(declared: float) -> None:
    fold = with_room(fedavg(), readiness(4), 4, np.array([40]), forwarded=True).fold

    def forwarded(task: int, weight: float) -> tuple[Report, Context]:
        inside = aggregation.zero(fold, SERVER)
        report, context = report_of(task, 5.0, 0.25)
        aggregation.add(fold, inside, report, context)
        inside.sums[""].weight = int(weight * 2.0**60)  # what the edge says that its devices weigh
        return replace(report, forwarded=inside, weight=weight), context

    results: set[Any] = set()
    for place in (0, 1, 2, 3):
        edges = [forwarded(task, 5.0) for task in range(3)]
        refused, bits = folded(fold, [*edges[:place], forwarded(3, declared), *edges[place:]])
        assert refused <= {3}
        results.add((frozenset(refused), bits))
    assert len(results) == 1


# ---- whole runs ---------------------------------------------------------------------------------------------------


def lying(declared: float, liars: int) -> Algorithm:
    """The consensus toy, in which the first clients claim a weight of their own choice."""
    algorithm = consensus()
    half = algorithm.local(0, {})

    def local(job: Job, dataset: Dataset) -> Report:
        report: Report = half(job, dataset)  # type: ignore[operator]
        return replace(report, weight=declared) if job.client < liars else report

    return replace(algorithm, local=lambda client, settings: local)


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize(
    "pace",
    [readiness(6), deadline(6, seconds=40.0), buffered(k=3, concurrency=6), semi_async(15.0, concurrency=6)],
    ids=lambda pace: pace.name,
)
def test_whole_runs_refuse_nobody_but_liars(declared: float, pace: Policy) -> None:
    for liars in (1, 3):
        models = set[str]()
        for liar_seconds in (1.0, 8.0, 30.0):
            world = world_of(even_fleet(8, [liar_seconds] * liars + [8.0] * (8 - liars)))
            algorithm = with_room(lying(declared, liars), pace, 8, world.data.sizes(0))
            events, _ = events_of(toy_plan(pace, 8, algorithm=algorithm, stop=Stop(rounds=3)), world)
            assert all(e.client < liars for e in events if isinstance(e, ReportRejected))
            assert any(isinstance(e, ModelCommitted) for e in events)
            models.update(str(e.model_hash) for e in events if isinstance(e, ModelCommitted))
        # With rounds in which everybody reports, speed decides about nothing.
        assert pace.name != "readiness" or len(models) == 3


@examples(40, soak=200)
@given(fleets(), paces())
def test_no_commit_has_more_reports_than_its_policy_says(fleet: Fleet, pace: Any) -> None:
    clients = len(fleet)
    pace = replace(pace, cohort=min(pace.cohort, clients))
    try:
        plan = toy_plan(pace.policy(), clients, stop=Stop(rounds=12, virtual_seconds=3000.0))
        events, _ = events_of(plan, world_of(fleet))
    except FedFleetError:
        return
    most = most_reports(plan.pace, clients)
    assert all(len(e.tasks) + len(e.rejected) <= most for e in events if isinstance(e, ReportsGathered))
