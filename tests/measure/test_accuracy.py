"""Accuracy over time and over clients, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import Evaluated
from fedfleet.core.records import ClientScores, Tally
from fedfleet.measure.accuracy import (
    AccuracyByParticipation,
    accuracy_by_participation,
    client_accuracy,
    convergence_time,
    final_accuracy,
    learning_curve,
    time_to_accuracy,
    unseen_accuracy,
)
from tests.measure.journals import LOG


def test_learning():
    curve = learning_curve(LOG)
    assert curve.accuracy.tolist() == [0.1, 0.5, 0.9, 0.8]
    assert curve.seconds.tolist() == [0.0, 50.0, 120.0, 150.0]
    assert final_accuracy(LOG) == 0.8
    assert time_to_accuracy(LOG, 0.5) == 50.0
    assert time_to_accuracy(LOG, 0.95) is None
    assert convergence_time(LOG) == 120.0


def test_clients():
    own = client_accuracy(LOG)
    shares = np.array([0.5, 0.0, 0.75])
    assert own.mean == pytest.approx(8 / 16)
    assert own.bottom10 == pytest.approx(np.percentile(shares, 10))
    assert own.std == pytest.approx(shares.std())
    assert own.worst10_mean == 0.0, "a tenth of three clients, rounded up, is one"
    assert client_accuracy(LOG[:5]) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(9, 12)), min_size=1, max_size=60))
def test_the_worst_tenth_lies_below_its_edge(scores):
    correct, total = np.array(scores).T
    own = client_accuracy([Evaluated(0.0, 1, 0, 1, 0.0, ClientScores(np.arange(len(total)), correct, total))])
    worst = sorted(correct / total)[: math.ceil(len(total) / 10)]
    assert own.worst10_mean == pytest.approx(sum(worst) / len(worst))
    assert min(worst) <= own.worst10_mean + 1e-12 and own.worst10_mean <= max(worst) + 1e-12
    if len(total) % 10 == 0:
        assert own.worst10_mean <= own.bottom10 + 1e-12


def test_those_who_never_took_part_are_told_apart():
    scores = ClientScores(np.array([0, 2, 3]), np.array([3, 1, 0]), np.array([4, 2, 2]))
    log = [Evaluated(0.0, 1, 0, 1, 0.0, scores)]
    assert accuracy_by_participation(log, np.array([5, 0, 0, 1])) == AccuracyByParticipation(
        took_part=3 / 6, never=1 / 2
    )
    assert accuracy_by_participation(log, np.array([1, 0, 1, 1])) == AccuracyByParticipation(
        took_part=4 / 8, never=None
    ), "client 1 has no test samples"
    assert accuracy_by_participation(log, np.zeros(4, np.int64)).took_part is None
    assert accuracy_by_participation(log[:0], np.ones(4, np.int64)) == AccuracyByParticipation(None, None)
    assert accuracy_by_participation(log, np.ones(1, np.int64)) == AccuracyByParticipation(None, None), (
        "all samples in one place: there are no clients"
    )


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(9, 12), st.integers(0, 2)), min_size=1, max_size=30))
def test_both_parts_together_are_all_clients(scores):
    correct, total, times = np.array(scores).T
    log = [Evaluated(0.0, 1, 0, 1, 0.0, ClientScores(np.arange(len(total)), correct, total))]
    result, took = accuracy_by_participation(log, times), times > 0
    weights = [(result.took_part, total[took].sum()), (result.never, total[~took].sum())]
    mean = sum(value * weight for value, weight in weights if value is not None) / total.sum()
    assert mean == pytest.approx(client_accuracy(log).mean)


def test_unseen_people_are_judged_by_the_last_model():
    log = [Evaluated(0.0, 0, 1, 9, 0.0, None, Tally(1, 4)), Evaluated(1.0, 1, 2, 9, 0.0, None, Tally(3, 4))]
    assert unseen_accuracy(log) == 0.75 and unseen_accuracy(LOG) is None
