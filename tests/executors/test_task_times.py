"""Seconds of whole tasks, split by task, batch and sample."""

import numpy as np
import pytest

from fedfleet.core.engines import ENGINES
from fedfleet.executors import task_times
from fedfleet.executors.engines import open_engine
from fedfleet.executors.task_times import fit_times, time_inference, time_tasks
from fedfleet.tasks.digits import digits_logreg

BATCHES, SAMPLES = np.array([1, 1, 2, 2, 8, 8]), np.array([4, 16, 8, 32, 32, 128])


@pytest.mark.parametrize("parts", [(0.1, 0.02, 0.003), (0.0, 0.02, 0.003), (0.1, 0.0, 0.003), (0.1, 0.02, 0.0), (0.0, 0.0, 0.003)])
def test_the_parts_are_found_again(parts):
    seconds = parts[0] + parts[1] * BATCHES + parts[2] * SAMPLES
    result = fit_times(BATCHES, SAMPLES, seconds)
    assert (result.per_task, result.per_batch, result.per_sample) == pytest.approx(parts, abs=1e-9)
    assert result.error == pytest.approx(0, abs=1e-9)


def test_no_part_is_negative_whatever_was_measured():
    seconds = np.array([0.2, 0.1, 0.2, 0.1, 0.2, 0.1])  # more samples take less
    result = fit_times(BATCHES, SAMPLES, seconds)
    assert min(result.per_task, result.per_batch, result.per_sample) >= 0 and 0.1 < result.error < 1


def test_errors_count_by_their_share():
    seconds = 0.1 + 0.02 * BATCHES + 0.003 * SAMPLES
    result = fit_times(BATCHES, SAMPLES, seconds * np.array([1.1, 0.9, 1.1, 0.9, 1.1, 0.9]))
    assert 0.02 < result.error < 0.11


@pytest.mark.parametrize("engine", ENGINES)
def test_tasks_of_each_size_are_timed_and_the_fewest_seconds_count(engine, monkeypatch):
    task = digits_logreg()(0)
    batches, samples, seconds = time_tasks(open_engine(engine, task), task, batch=8, rounds=2)
    assert batches.tolist() == [1, 1, 2, 2, 8, 8] and samples.tolist() == [2, 8, 4, 16, 16, 64]
    assert (seconds >= 0).all() and np.isfinite(seconds).all()
    ticks = iter(np.cumsum([0, 5] * 6 + [0, 3] * 3 + [0, 9] * 3).tolist())
    monkeypatch.setattr(task_times.time, "process_time", lambda: next(ticks))
    _, _, seconds = time_tasks(open_engine(engine, task), task, batch=8, rounds=2)
    assert seconds.tolist() == [3, 3, 3, 5, 5, 5]


def test_every_inference_is_timed():
    task = digits_logreg()(0)
    assert len(time_inference(open_engine("numpy", task), task, iterations=3)) == 3
