"""Accuracy over time and over clients, by hand."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import Evaluated, ModelCommitted, RoundFailed, TasksSpent
from fedfleet.core.records import ClientScores, Tally
from fedfleet.measure.accuracy import (
    TARGETS,
    AccuracyByParticipation,
    accuracy_by_participation,
    class_results,
    client_accuracy,
    confusion_matrix,
    convergence_time,
    curve_table,
    final_accuracy,
    learning_curve,
    thin_points,
    time_to_accuracy,
    times_to,
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
    assert accuracy_by_participation(log, np.array([5, 0, 0, 1])) == AccuracyByParticipation(took_part=3 / 6, never=1 / 2)
    assert accuracy_by_participation(log, np.array([1, 0, 1, 1])) == AccuracyByParticipation(took_part=4 / 8, never=None), (
        "client 1 has no test samples"
    )
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


def test_by_hand():
    table = curve_table(LOG)
    assert table["seconds"] == [0.0, 50.0, 120.0, 150.0] and table["accuracy"] == [0.1, 0.5, 0.9, 0.8]
    assert table["commits"] == [0, 1, 2, 3] and table["rounds"] == [0, 1, 3, 4], "the second of four rounds failed"
    assert table["bytes"] is None and "unseen" not in table, "this journal counts no bytes and holds nobody out"


def test_bytes_are_those_of_rounds_that_closed():
    spent = TasksSpent(5.0, np.array([0]), np.array([0]), {"bytes_down": np.array([70.0]), "bytes_up": np.array([30.0])})
    log = [Evaluated(0.0, 0, 1, 10, 1.0), spent, Evaluated(6.0, 1, 2, 10, 1.0)]
    assert curve_table(log)["bytes"] == [0.0, 100.0]


def test_unseen_people_have_a_column_of_their_own():
    log = [Evaluated(0.0, 0, 1, 10, 1.0, None, Tally(1, 4)), Evaluated(6.0, 1, 2, 10, math.nan, None, Tally(3, 4))]
    table = curve_table(log)
    assert table["unseen"] == [0.25, 0.75] and table["loss"] == [1.0, None]
    assert json.loads(json.dumps(table, allow_nan=False)) == table


points = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.booleans()), max_size=60)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(points, st.integers(2, 9))
def test_the_table_tells_what_the_journal_does(made, most):
    log, time, version = [], 0.0, 0
    for i, (wait, correct, committed) in enumerate(made):
        time, version = time + wait, version + committed
        log.append(ModelCommitted(time, i, version, "", 1) if committed else RoundFailed(time, i, "no"))
        log.append(Evaluated(time, version, correct, 20, 0.5))
    whole, part = curve_table(log), curve_table(log, most)
    assert whole["rounds"] == list(range(1, len(made) + 1))
    assert len(part["seconds"]) == min(most, len(made))
    if made:
        assert part["accuracy"][0] == whole["accuracy"][0] and part["accuracy"][-1] == whole["accuracy"][-1]
    result = times_to(learning_curve(log))
    assert list(result.values()) == [time_to_accuracy(log, target) for target in TARGETS]
    reached = [math.inf if t is None else t for t in result.values()]
    assert reached == sorted(reached), "a higher target is never reached earlier"


@pytest.mark.parametrize(("n", "most"), [(0, 5), (5, 5), (6, 5), (5000, 2000)])
def test_points_are_left_out_evenly(n, most):
    kept = thin_points(n, most)
    assert len(kept) == min(n, most) == len(set(kept.tolist()))
    assert n <= most or (kept[0] == 0 and kept[-1] == n - 1 and np.ptp(np.diff(kept)) <= 1)


def test_targets_are_named_as_people_write_them():
    assert list(times_to(learning_curve([])))[::6] == ["0.05", "0.35", "0.65", "0.95"]
    assert set(times_to(learning_curve([])).values()) == {None}


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_every_sample_is_counted_once(classes, pairs):
    labels, answers = (np.array([p[i] % classes for p in pairs], np.int64) for i in (0, 1))
    matrix = confusion_matrix(labels, answers, classes)
    assert matrix.sum() == len(pairs) and np.trace(matrix) == (labels == answers).sum()
    for one in class_results(matrix):
        mine, named = labels == one["label"], answers == one["label"]
        assert one["n"] == mine.sum()
        assert one["recall"] == ((mine & named).sum() / mine.sum() if mine.any() else None)
        assert one["precision"] == ((mine & named).sum() / named.sum() if named.any() else None)


def test_a_class_that_nobody_names_has_no_precision():
    assert class_results(np.array([[2, 0], [1, 0]]))[1] == {"label": 1, "n": 1, "recall": 0.0, "precision": None}
