"""Federated averaging: how much work is asked for, what it weighs, what it does to the model."""

import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core import folding
from fedfleet.core.charging import cost_of, work_of
from fedfleet.core.errors import Refused
from fedfleet.core.folding import Aggregate
from fedfleet.core.parts import Job, Offer
from fedfleet.core.passes import BatchPlan
from fedfleet.core.records import Assignments, Context, Report, ServerState, whole_work
from fedfleet.learn.averaging import add_to_model, fedavg
from fedfleet.learn.folds import mean
from fedfleet.runtime.executors.inline import batches

NOW = Context(0, 1.0, 0)


def job(rows, steps=0, task=0, key=1):
    return Job(task, 0, key, 7, Offer({}), lambda job, dataset: None, np.arange(100, 100 + rows), steps)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    samples=st.integers(1, 70),
    size=st.integers(1, 20),
    epochs=st.integers(1, 4),
    plan_steps=st.one_of(st.none(), st.integers(1, 12)),
    asked_steps=st.integers(0, 12),
    share=st.sampled_from([0.01, 0.3, 0.5, 1.0]),
)
def test_the_price_is_what_the_batches_really_hold(samples, size, epochs, plan_steps, asked_steps, share):
    plan = BatchPlan(size, epochs, plan_steps)
    asked = Assignments(np.array([0]), np.array([asked_steps]), np.array([share]))
    real = [len(rows) for rows in batches(plan, job(math.ceil(share * samples), asked_steps))]
    assert [v.tolist() for v in work_of(plan, asked.steps, asked.share, np.array([samples]))] == [
        [float(sum(real))],
        [float(len(real))],
    ]


def test_every_epoch_sees_every_row_once_in_a_fresh_order():
    found = [rows.tolist() for rows in batches(BatchPlan(4, 2), job(10))]
    assert [len(rows) for rows in found] == [4, 4, 2, 4, 4, 2]
    first, second = list(chain(*found[:3])), list(chain(*found[3:]))
    assert sorted(first) == sorted(second) == list(range(100, 110))
    assert first != second


@pytest.mark.parametrize(("plan_steps", "asked", "expected"), [(None, 0, 6), (5, 0, 5), (5, 2, 2), (None, 9, 9)])
def test_steps_replace_epochs_and_the_selector_has_the_last_word(plan_steps, asked, expected):
    assert len(list(batches(BatchPlan(4, 2, plan_steps), job(10, asked)))) == expected


def test_batches_are_addressed_by_client_and_task():
    def order(**where):
        return np.concatenate(list(batches(BatchPlan(4, 1), job(30, **where)))).tolist()

    assert order() == order()
    assert order() != order(task=1)
    assert order() != order(key=2)


def test_the_whole_model_goes_down_and_up():
    server = ServerState({"w": np.zeros(10, np.float32)})
    cost = cost_of(fedavg(epochs=3), server, whole_work(np.array([4, 9])), np.array([7, 20]))
    assert cost.samples.tolist() == [21, 60]
    assert cost.bytes_down.tolist() == cost.bytes_up.tolist() == [40, 40]


def test_leaves_that_do_not_travel_stay():
    server = ServerState({"w": np.ones(2, np.float32), "n": np.array([3])}, {"m": np.ones(1)})
    after = add_to_model(server, Aggregate({"w": np.full(2, 0.5, np.float32)}, 1.0, 1))
    assert after.params["w"].tolist() == [1.5, 1.5]
    assert after.params["n"] is server.params["n"]
    assert after.extra is server.extra


def report(value, weight=1.0, **leaves):
    return Report(0, 0, {"w": np.full(2, value, np.float32), **leaves}, weight, {})


def test_the_mean_weighs_reports():
    fold, server = mean(), ServerState({"w": np.zeros(2, np.float32)})
    acc = folding.zero(fold, server)
    for one in (report(1.0, 3.0), report(5.0, 1.0)):
        assert folding.refusal(fold, acc, one, NOW) is None
        acc = folding.add(fold, acc, one, NOW)
    assert folding.finish(fold, acc).mean["w"].tolist() == [2.0, 2.0]
    assert folding.finish(fold, folding.load(fold, server, folding.save(acc))).mean["w"].tolist() == [2.0, 2.0]


def test_integer_leaves_are_checked_but_not_averaged():
    fold = mean()
    server = ServerState({"w": np.zeros(2, np.float32), "n": np.array([3])})
    acc = folding.add(fold, folding.zero(fold, server), report(1.0, n=np.array([9])), NOW)
    assert set(folding.finish(fold, acc).mean) == {"w"}
    assert refused(fold, server, report(1.0)) == "leaf 'n' is missing"


def refused(fold, server, report):
    return folding.refusal(fold, folding.zero(fold, server), report, NOW)


def test_only_what_travels_is_averaged():
    fold = mean(travels=lambda name: name == "w")
    server = ServerState({"w": np.zeros(2, np.float32), "head": np.zeros(3, np.float32)})
    assert refused(fold, server, report(1.0)) is None
    assert refused(fold, server, report(1.0, head=np.zeros(3, np.float32))) == "leaf 'head' is unknown"
    assert folding.finish(fold, folding.add(fold, folding.zero(fold, server), report(1.0), NOW)).mean["w"].tolist() == [
        1.0,
        1.0,
    ]


def test_bound_is_the_callers():
    server = ServerState({"w": np.zeros(2, np.float32)})
    assert refused(fedavg(bound=0.5).fold, server, report(0.6)) == "leaf 'w' reaches 0.6, beyond its bound 0.5"
    assert refused(fedavg(bound=0.7).fold, server, report(0.6)) is None


def test_more_weight_than_was_declared_is_a_refusal_and_leaves_the_sums_alone():
    fold, server = mean(total_weight=4.0), ServerState({"w": np.zeros(2, np.float32)})

    def one():
        return folding.add(fold, folding.zero(fold, server), report(1.0, 3.0), NOW)

    full = one()
    with pytest.raises(Refused, match="total_weight"):
        folding.add(fold, full, report(5.0, 3.0), NOW)
    assert folding.finish(fold, full).mean["w"].tolist() == [1.0, 1.0]
    with pytest.raises(Refused, match="total_weight"):
        folding.merge(fold, full, one())
    assert (full.count, folding.finish(fold, full).weight) == (1, 3.0)
