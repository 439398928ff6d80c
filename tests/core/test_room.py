"""Room in a sum: as many reports as a commit can have fit, each as heavy as may be, whoever comes first."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core import aggregation, exact
from fedfleet.core.aggregation import scales_of
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.room import most_reports, with_room
from fedfleet.learn.fedavg import fedavg
from fedfleet.pace.asynchronous import buffered, semi_async
from fedfleet.pace.combinators import first_of, overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.pace.timeout import timeout
from tests.worlds import commits_at

SERVER = ServerState({"w": np.zeros(3, np.float32)})


@pytest.mark.parametrize(
    ("pace", "most"),
    [
        (readiness(20), 20),
        (deadline(20, max_staleness=2), 120),
        (timeout(30, most=3), 120),
        (buffered(k=10, concurrency=20), 29),
        (semi_async(60.0, concurrency=20, refill=1.0), 20 * 62),
        (overcommit(readiness(20), factor=1.3), 40),
        (first_of(readiness(20), deadline(10, max_staleness=1)), 130),
        (first_of(readiness(20), commits_at(5, 3)), 120),
        (commits_at(5, 3), 105),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_how_many_reports_a_commit_can_have_follows_from_the_policy(pace, most):
    assert most_reports(pace, 100) == most


@given(st.floats(2.0**-20, 2.0**40), st.integers(1, 1 << 20))
def test_every_share_fits_and_none_is_smaller_than_need_be(total_weight, reports):
    share = exact.share_of_room(total_weight, reports)
    room = exact.weight_units(total_weight)
    assert reports * exact.weight_units(share) <= room
    assert share == pytest.approx(total_weight / reports, rel=1e-12)


@given(st.integers(1, 3000), st.integers(1, 1 << 20))
def test_the_largest_client_fits_as_often_as_a_commit_can_have_reports(cohort, largest):
    fold = with_room(fedavg(), readiness(cohort, min_clients=1), cohort, np.array([1, largest])).fold
    assert fold.most_reports == cohort and fold.heaviest >= largest
    assert fold.total_weight == 2.0**24 or fold.total_weight < 2 * cohort * largest


def test_where_there_is_room_no_bit_of_a_sum_changes():
    before = fedavg()
    after = with_room(before, readiness(100), 100, np.full(100, 5000))
    assert scales_of(after.fold, SERVER.params) == scales_of(before.fold, SERVER.params)
    assert with_room(fedavg(weigh="one"), readiness(3000), 3000, np.full(9, 1 << 20)).fold.total_weight == 2.0**24


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_full_commit_of_the_heaviest_reports_at_their_bound_does_not_overflow(sign):
    for cohort, largest in ((3, 1), (7, 1 << 22), (1000, 1 << 20)):
        fold = with_room(fedavg(), readiness(cohort), cohort, np.array([largest])).fold
        acc = aggregation.zero(fold, SERVER)
        update = {"w": np.full(3, sign * 2.0**10, np.float32)}
        for task in range(cohort):
            report = Report(task, task, update, fold.heaviest, {})
            assert aggregation.check_and_add(fold, acc, report, Context(0, 1.0, task, task=task)) is None
        assert aggregation.finish(fold, acc).mean["w"].tolist() == [sign * 2.0**10] * 3


def test_a_report_that_claims_more_than_its_share_is_refused_whoever_came_before():
    fold = with_room(fedavg(), readiness(4), 4, np.array([10])).fold
    for before in range(4):
        acc = aggregation.zero(fold, SERVER)
        for task in range(before):
            report = Report(task, task, dict(SERVER.params), 1.0, {})
            assert aggregation.check_and_add(fold, acc, report, Context(0, 1.0, task)) is None
        liar = Report(9, 9, dict(SERVER.params), math.nextafter(fold.heaviest, math.inf), {})
        assert "its weight" in str(aggregation.check_and_add(fold, acc, liar, Context(0, 1.0, 9)))


def test_sums_that_an_edge_forwards_take_no_more_than_their_share():
    fold = replace(fedavg().fold, most_reports=4)
    inside = aggregation.zero(fold, SERVER)
    for task in range(2):
        aggregation.add(fold, inside, Report(task, task, dict(SERVER.params), fold.heaviest, {}), Context(0, 1.0, task))
    report = Report(0, 0, dict(SERVER.params), 2 * fold.heaviest, {}, forwarded=inside)
    assert "the weight" in str(aggregation.check_and_add(fold, aggregation.zero(fold, SERVER), report, Context(0, 1.0, 0)))
