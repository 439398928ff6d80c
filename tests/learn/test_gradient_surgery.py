"""Gradient surgery: what is cut off never conflicts, the forms by hand, and where it is FedAvg."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Mean
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.gradient_surgery import dot, next_velocity, stale_part, surgery, without_conflict
from fedfleet.learn.staleness import staleness_weight
from fedfleet.learn.zoo import fedavg_plus
from tests.learn.digits import models, trained

pytestmark = pytest.mark.slow

law = settings(deadline=None, derandomize=True, max_examples=150)
ROOT = staleness_weight("polynomial", 0.5, 4)
numbers = st.floats(-8, 8, width=32)
trees = st.tuples(st.lists(numbers, min_size=3, max_size=3), numbers).map(
    lambda v: {"a": np.array(v[0], np.float32), "b": np.array([[v[1]]], np.float32)}
)
lates = st.dictionaries(st.integers(1, 6), st.tuples(trees, st.integers(1, 50)), min_size=1, max_size=4).map(
    lambda found: {tau: Mean(tree, float(weight), 1) for tau, (tree, weight) in found.items()}
)


def cosine(a, b):
    size = math.sqrt(dot(a, a) * dot(b, b))
    return dot(a, b) / size if size else 0.0


@law
@given(trees, trees)
def test_what_is_left_never_conflicts_and_nothing_else_is_touched(change, way):
    left = without_conflict(change, way)
    assert cosine(left, way) >= -1e-6
    assert dot(left, left) <= dot(change, change) * (1 + 1e-9)
    if dot(change, way) >= 0:
        assert left is change


@law
@given(trees, st.floats(-50, -0.02))
def test_a_change_straight_back_is_cut_off_whole(way, by):
    left = without_conflict({n: by * v.astype(np.float64) for n, v in way.items()}, way)
    assert dot(left, left) == 0.0 or dot(way, way) == 0.0


@law
@given(lates, trees, st.sampled_from(["sum", "seq"]))
def test_the_late_part_never_conflicts_with_the_velocity(sums, velocity, form):
    assert cosine(stale_part(sums, velocity, form, ROOT), velocity) >= -1e-6


@law
@given(lates)
def test_seq_never_lets_the_older_conflict_with_the_next_younger(sums):
    # Without a velocity, what the two youngest leave of the older ones is to be seen: all of it agrees with the youngest.
    assume(len(sums) > 1)
    youngest = min(sums)
    older = {tau: m for tau, m in sums.items() if tau != youngest}
    still = {n: np.zeros_like(v) for n, v in sums[youngest].tree.items()}
    whole, share = stale_part(sums, still, "seq", ROOT), sums[youngest].weight / sum(m.weight for m in sums.values())
    left = {n: whole[n] - share * v.astype(np.float64) for n, v in sums[youngest].tree.items()}
    assert dot(left, sums[youngest].tree) >= -1e-6 * (
        1 + math.sqrt(dot(left, left) * dot(sums[youngest].tree, sums[youngest].tree))
    )
    assert len(older) == len(sums) - 1


def flat(*values):
    return {"w": np.array(values, np.float32)}


LATE = {1: Mean(flat(0.0, 4.0), 1.0, 1), 3: Mean(flat(-4.0, -4.0), 1.0, 1)}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        # The damped mean is (4 (0, 1) / sqrt 2 + (-4, -4) / 2) / 2.
        ("naive", (-1.0, math.sqrt(2.0) - 1.0)),
        ("sum", (0.0, math.sqrt(2.0) - 1.0)),
        # The older (-4, -4) loses its part against the younger (0, 4): (-4, 0) is left; the mean of both is (-2, 2).
        ("seq", (0.0, 2.0)),
    ],
)
def test_the_forms_by_hand(form, expected):
    result = stale_part(LATE, flat(1.0, 0.0), form, ROOT)["w"]
    assert result.tolist() == pytest.approx(expected, abs=1e-12)


def test_nothing_late_adds_nothing():
    assert stale_part({}, flat(1.0, 0.0), "seq", ROOT) == {}


def test_the_velocity_goes_on_without_fresh_reports():
    assert next_velocity(flat(2.0, 4.0), None, 0.5)["w"].tolist() == [1.0, 2.0]
    assert next_velocity(flat(2.0, 4.0), Mean(flat(1.0, 1.0), 3.0, 2), 0.5)["w"].tolist() == [2.0, 3.0]


def test_a_commit_adds_velocity_and_late_part_and_remembers_the_velocity():
    algorithm = surgery(fedavg(), form="sum", server_momentum=0.5, server_lr=1.0)
    server = algorithm.init(flat(0.0, 0.0))
    for value in (1.0, 3.0):
        acc = aggregation.zero(algorithm.fold, server)
        reports = [(flat(value, 0.0), 0, 1.0), (flat(-4.0, 2.0), 3, 2.0)]
        for i, (update, tau, weight) in enumerate(reports):
            assert aggregation.check_and_add(algorithm.fold, acc, Report(i, i, update, weight, {}), Context(tau, 1.0, i)) is None
        aggregate = aggregation.finish(algorithm.fold, acc)
        assert sorted(aggregate.sums) == ["0", "3"]
        server = algorithm.apply(server, aggregate)
    # v = 1, then 0.5 + 3; late (-2, 1) each time, of which (0, 1) is left.
    assert server.params["w"].tolist() == [1.0 + 3.5, 2.0]
    assert server.extra["surgery/w"].tolist() == [3.5, 0.0]


def test_an_update_that_was_sorted_before_is_refused():
    twice = surgery(surgery(fedavg()))
    acc = aggregation.zero(twice.fold, ServerState(flat(0.0)))
    why = aggregation.check_and_add(twice.fold, acc, Report(0, 0, flat(1.0), 1.0, {}), Context(2, 1.0, 0))
    assert why == "it belongs to the sum '2' already, and surgery needs one sum for each staleness"


def test_without_momentum_and_late_reports_it_is_fedavg_to_the_last_bit():
    plus = trained(fedavg_plus(server_momentum=0.0, server_lr=1.0), rounds=3)[0]
    assert models(plus) == models(trained(fedavg(), rounds=3)[0])
