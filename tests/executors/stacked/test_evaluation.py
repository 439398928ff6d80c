"""Evaluation in large batches and stacks gives the counts of the literal one."""

import numpy as np
import pytest
from torch import nn

from fedfleet.core.parts import Trial
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked import evaluation
from fedfleet.executors.stacked.executor import stacked_executor
from tests.executors.cohorts import Odd, convolutions, small_task, smooth

SIZES = (7, 1, 0, 30, 12)


def agree(task, trials):
    expected, got = list(inline(task).evaluate(trials)), list(stacked_executor(task).evaluate(trials))
    for a, b in zip(expected, got, strict=True):
        assert (a.correct, a.total) == (b.correct, b.total)
        assert b.loss == pytest.approx(a.loss, rel=1e-5)


@pytest.mark.parametrize("norm", [None, lambda: nn.BatchNorm2d(6)], ids=["plain", "batch norm"])
def test_models_of_their_own_are_evaluated_in_stacks(norm):
    task = small_task(convolutions(norm))
    agree(task, [Trial(task.init(seed), np.arange(n) + seed) for seed, n in enumerate(SIZES)])


def test_one_model_on_many_shards_is_one_pass():
    task = small_task(smooth())
    params = task.init(1)
    agree(task, [Trial(params, np.arange(n) + 3 * n) for n in SIZES])


def test_neighbours_that_share_a_model_and_others_that_do_not():
    task = small_task(smooth())
    a, b = task.init(1), task.init(2)
    agree(task, [Trial(p, np.arange(n)) for p, n in ((a, 5), (a, 9), (b, 7), (a, 3), (b, 0))])


@pytest.mark.parametrize("shared", [True, False], ids=["one model", "models of their own"])
def test_batches_of_any_size_give_the_same_counts(shared, monkeypatch):
    task = small_task(smooth())
    models = [task.init(0 if shared else seed) for seed in range(len(SIZES))]
    models = [models[0]] * len(SIZES) if shared else models
    monkeypatch.setattr(evaluation, "BATCH", 8)  # smaller than a shard
    agree(task, [Trial(m, np.arange(n)) for m, n in zip(models, SIZES, strict=True)])


def test_a_model_without_a_twin_is_judged_by_itself():
    task = small_task(Odd)
    agree(task, [Trial(task.init(seed), np.arange(n)) for seed, n in enumerate(SIZES)])


def test_nothing_to_judge_gives_nothing():
    assert list(stacked_executor(small_task(smooth())).evaluate([])) == []
