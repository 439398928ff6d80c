"""The exact mean as a fold: what it takes in, what it averages, what it refuses."""

import math

import numpy as np
import pytest

from fedfleet.core import aggregation
from fedfleet.core.errors import Refused
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.learn.folds import mean

NOW = Context(0, 1.0, 0)


def report(value, weight=1.0, **leaves):
    return Report(0, 0, {"w": np.full(2, value, np.float32), **leaves}, weight, {})


def refused(fold, server, report):
    return aggregation.refusal(fold, aggregation.zero(fold, server), report, NOW)


def test_the_mean_weighs_reports():
    fold, server = mean(), ServerState({"w": np.zeros(2, np.float32)})
    acc = aggregation.zero(fold, server)
    for one in (report(1.0, 3.0), report(5.0, 1.0)):
        assert aggregation.refusal(fold, acc, one, NOW) is None
        acc = aggregation.add(fold, acc, one, NOW)
    assert aggregation.finish(fold, acc).mean["w"].tolist() == [2.0, 2.0]
    assert aggregation.finish(fold, aggregation.load(fold, server, aggregation.save(acc))).mean["w"].tolist() == [
        2.0,
        2.0,
    ]


def test_integer_leaves_are_checked_but_not_averaged():
    fold = mean()
    server = ServerState({"w": np.zeros(2, np.float32), "n": np.array([3])})
    acc = aggregation.add(fold, aggregation.zero(fold, server), report(1.0, n=np.array([9])), NOW)
    assert set(aggregation.finish(fold, acc).mean) == {"w"}
    assert refused(fold, server, report(1.0)) == "leaf 'n' is missing"


def test_only_what_travels_is_averaged():
    fold = mean(travels=lambda name: name == "w")
    server = ServerState({"w": np.zeros(2, np.float32), "head": np.zeros(3, np.float32)})
    assert refused(fold, server, report(1.0)) is None
    assert refused(fold, server, report(1.0, head=np.zeros(3, np.float32))) == "leaf 'head' is unknown"
    assert aggregation.finish(fold, aggregation.add(fold, aggregation.zero(fold, server), report(1.0), NOW)).mean[
        "w"
    ].tolist() == [
        1.0,
        1.0,
    ]


def test_more_weight_than_was_declared_is_a_refusal_and_leaves_the_sums_alone():
    fold, server = mean(total_weight=4.0), ServerState({"w": np.zeros(2, np.float32)})

    def one():
        return aggregation.add(fold, aggregation.zero(fold, server), report(1.0, 3.0), NOW)

    full = one()
    with pytest.raises(Refused, match="total_weight"):
        aggregation.add(fold, full, report(5.0, 3.0), NOW)
    assert aggregation.finish(fold, full).mean["w"].tolist() == [1.0, 1.0]
    with pytest.raises(Refused, match="total_weight"):
        aggregation.merge(fold, full, one())
    assert (full.count, aggregation.finish(fold, full).weight) == (1, 3.0)


def test_bound_and_total_weight_fix_the_resolution():
    server = ServerState({"w": np.zeros(2, np.float32)})
    assert aggregation.zero(mean(), server).scales["w"].power == 28
    fine = mean(bound=2.0**-4, total_weight=2.0**6)
    assert aggregation.zero(fine, server).scales["w"].power == 60
    tiny = math.ldexp(1.0, -60)
    done = aggregation.finish(fine, aggregation.add(fine, aggregation.zero(fine, server), report(tiny), NOW))
    assert done.mean["w"].tolist() == [tiny, tiny]


def test_nothing_travels_and_still_the_report_counts():
    fold, server = mean(travels=lambda name: False), ServerState({"w": np.zeros(2, np.float32)})
    empty = Report(0, 0, {}, 3.0, {})
    assert fold.like(server) == {}
    done = aggregation.finish(fold, aggregation.add(fold, aggregation.zero(fold, server), empty, NOW))
    assert (done.mean, done.weight, done.count) == ({}, 3.0, 1)
    assert refused(fold, server, report(1.0)) == "leaf 'w' is unknown"


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf, 2.0**25])
def test_an_impossible_weight_is_refused(weight):
    assert "its weight" in refused(mean(), ServerState({"w": np.zeros(2, np.float32)}), report(1.0, weight))
