"""Losses, scores and measures of every kind of task, against scikit-learn and against themselves."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from fedfleet.core.kinds import IGNORED, MULTILABEL, NEXT_TOKEN, REGRESSION, SEQUENCE_LABELS, UNIT
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Score
from fedfleet.measure.score_info import chance_level
from fedfleet.tasks.measures import Measuring, mean_auroc, rounded
from fedfleet.tasks.scores import measure_batch, sample_counts, sample_losses, spread_tensor


def task_of(dataset, holdout=None):
    rows = np.arange(len(dataset.y)) if holdout is None else holdout
    return Task("kind", dataset, rows, torch.nn.Identity, lambda seed: {})


def measures(dataset, outputs):
    measuring = Measuring(task_of(dataset))
    measure_batch(measuring, torch.from_numpy(outputs), torch.from_numpy(dataset.y))
    return measuring.finish(Score(0, 1, 0.0)).measures


def score(dataset, outputs, holdout=None):
    spread = spread_tensor(task_of(dataset, holdout))
    right, possible = sample_counts(torch.from_numpy(outputs), torch.from_numpy(dataset.y), spread)
    return int(right.sum()), int(possible.sum())


def numbers(seed, n, outputs):
    rng = np.random.default_rng(seed)
    y = (rng.normal(size=(n, outputs)) * rng.uniform(0.5, 3.0, outputs) + rng.normal(size=outputs)).astype(np.float32)
    return Dataset(np.zeros((n, 1), np.float32), y, outputs, kind=REGRESSION), (y + rng.normal(size=y.shape)).astype(np.float32)


@given(st.integers(0, 2**32), st.integers(3, 40), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_r2_mae_and_rmse_are_those_of_scikit_learn(seed, n, outputs):
    dataset, answers = numbers(seed, n, outputs)
    right, possible = score(dataset, answers)
    assert right / possible == pytest.approx(sk.r2_score(dataset.y, answers, multioutput="variance_weighted"), abs=2e-5)
    found = measures(dataset, answers)
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(dataset.y, answers), rel=1e-6)
    assert found["rmse"] == pytest.approx(math.sqrt(sk.mean_squared_error(dataset.y, answers)), rel=1e-6)


def test_measures_of_a_regression_are_in_the_units_of_its_labels():
    dataset, answers = numbers(1, 30, 2)
    plain, scaled = measures(dataset, answers), measures(replace(dataset, target_scale=((5.0, 10.0), (1.0, 10.0))), answers)
    assert scaled["mae"] == pytest.approx(10 * plain["mae"])
    assert score(dataset, answers) == score(replace(dataset, target_scale=((5.0, 10.0), (1.0, 10.0))), answers)


def test_predicting_the_mean_scores_nothing_and_a_diverged_model_is_bounded():
    dataset, _ = numbers(2, 20, 2)
    mean = np.broadcast_to(dataset.y.mean(0), dataset.y.shape).astype(np.float32)
    right, possible = score(dataset, mean)
    assert right / possible == pytest.approx(0.0, abs=1e-5) and chance_level(dataset.y) == 0.0
    for wild in (np.nan, np.inf, 1e30):
        right, possible = score(dataset, np.full(dataset.y.shape, wild, np.float32))
        assert right == -1000 * possible == -1000 * UNIT * dataset.y.size


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_measures_of_several_labels_are_those_of_scikit_learn(seed, n, labels):
    rng = np.random.default_rng(seed)
    y, answers = rng.random((n, labels)) < 0.4, rng.normal(size=(n, labels)).astype(np.float32).round(1)
    dataset = Dataset(np.zeros((n, 1), np.float32), y, labels, kind=MULTILABEL)
    right, possible = score(dataset, answers)
    guess = answers > 0
    if possible:
        assert right / possible == pytest.approx(sk.f1_score(y.ravel(), guess.ravel(), zero_division=0))
    found, known = measures(dataset, answers), (y.sum(0) + guess.sum(0)) > 0
    if known.any():
        assert found["f1_macro"] == pytest.approx(
            np.mean([sk.f1_score(y[:, i], guess[:, i], zero_division=0) for i in np.flatnonzero(known)])
        )
    assert found["exact_match"] == pytest.approx(sk.accuracy_score(y, guess))
    mixed = [i for i in range(labels) if 0 < y[:, i].sum() < n]
    expected = np.mean([sk.roc_auc_score(y[:, i], answers[:, i]) for i in mixed]) if mixed else math.nan
    assert mean_auroc(answers, y) == pytest.approx(expected, nan_ok=True)
    assert ("auroc" in found) == bool(mixed)


@given(st.integers(0, 2**32), st.integers(2, 10), st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_sequences_count_places_and_leave_padding_out(seed, n, places):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, (n, places))
    y[rng.random(y.shape) < 0.3] = IGNORED
    y[0, 0] = 1
    answers = rng.normal(size=(n, places, 3)).astype(np.float32)
    dataset = Dataset(np.zeros((n, places), np.int64), y, 3, kind=NEXT_TOKEN)
    counted = y != IGNORED
    right, possible = score(dataset, answers)
    assert (right, possible) == (int((answers.argmax(2) == y)[counted].sum()), int(counted.sum()))
    logits, truth = torch.from_numpy(answers[counted]), torch.from_numpy(y[counted])
    expected = float(torch.nn.functional.cross_entropy(logits, truth).exp())
    assert measures(dataset, answers)["perplexity"] == pytest.approx(expected, rel=1e-5)
    tagged = replace(dataset, kind=SEQUENCE_LABELS)
    seen = sorted({*y[counted].tolist(), *answers.argmax(2)[counted].tolist()})
    f1 = sk.f1_score(y[counted], answers.argmax(2)[counted], average="macro", labels=seen, zero_division=0)
    assert measures(tagged, answers)["f1_macro"] == pytest.approx(f1)


def test_what_is_padded_has_no_gradient():
    answers = torch.randn(2, 3, 4, requires_grad=True)
    labels = torch.tensor([[1, IGNORED, 2], [IGNORED, IGNORED, IGNORED]])
    each = sample_losses(answers, labels)
    each.sum().backward()
    assert float(each[1].detach()) == 0.0
    assert not answers.grad[0, 1].any() and not answers.grad[1].any() and answers.grad[0, 0].any()


@given(st.integers(0, 2**32), st.sampled_from(["regression", "multilabel", "next_token"]), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_scores_of_parts_add_up_to_the_score_of_all(seed, kind, cut):
    rng = np.random.default_rng(seed)
    y = {"regression": rng.normal(size=(7, 2)).astype(np.float32), "multilabel": rng.random((7, 3)) < 0.5}
    labels = y.get(kind, rng.integers(0, 3, (7, 4)))
    shape = (7, 4, 3) if kind == "next_token" else labels.shape
    outputs, truth = torch.from_numpy(rng.normal(size=shape).astype(np.float32)), torch.from_numpy(labels)
    spread = torch.tensor([0.7, 0.7], dtype=torch.float64) if kind == "regression" else None
    whole = [int(v.sum()) for v in sample_counts(outputs, truth, spread)]
    parts = [sample_counts(outputs[a], truth[a], spread) for a in (slice(None, cut), slice(cut, None))]
    assert whole == [sum(int(part[i].sum()) for part in parts) for i in (0, 1)]


def test_a_metric_of_ones_own_is_a_measure_and_one_that_fails_is_left_out():
    dataset, answers = numbers(3, 10, 1)

    def fails(outputs, labels):
        raise RuntimeError("no")

    own = {"largest": lambda outputs, labels: np.abs(outputs - labels).max(), "fails": fails, "nan": lambda a, b: math.nan}
    measuring = Measuring(replace(task_of(dataset), metrics=own))
    measure_batch(measuring, torch.from_numpy(answers[:4]), torch.from_numpy(dataset.y[:4]))
    measure_batch(measuring, torch.from_numpy(answers[4:]), torch.from_numpy(dataset.y[4:]))
    found = measuring.finish(Score(1, 2, 0.5))
    assert found.measures["largest"] == rounded(float(np.abs(answers - dataset.y).max()))
    assert set(found.measures) == {"mae", "rmse", "largest"}


def test_a_measure_reads_back_as_the_same_number():
    for value in np.random.default_rng(0).lognormal(0, 20, 200).tolist():
        assert rounded(rounded(value)) == rounded(value) == float(repr(rounded(value)))
