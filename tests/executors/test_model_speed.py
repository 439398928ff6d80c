"""Timing a model on this machine: as many samples as asked for, and one sentence for what cannot be timed."""

import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.executors import model_speed
from fedfleet.executors.model_speed import time_model
from tests.executors.cohorts import convolutions, dense, images, small_task


def timed(task, **options):
    return time_model(task, **{"batch": 4, "iterations": 3, "warm_up": 1, "side": None, **options})


def test_every_iteration_is_timed_and_the_warm_up_is_not():
    result = timed(small_task(convolutions()))
    assert (len(result.inference), len(result.training)) == (3, 3)
    assert all(seconds > 0 for seconds in result.inference + result.training)
    assert result.threads == torch.get_num_threads()


class Watched(nn.Module):
    """Any images; it notes the shapes that it sees and whether gradients were wanted."""

    seen: list[tuple[tuple[int, ...], bool]]

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(1, 5)

    def forward(self, x):
        Watched.seen.append((tuple(x.shape), torch.is_grad_enabled()))
        return self.head(x.mean((1, 2, 3)).unsqueeze(1))


@pytest.mark.parametrize(("side", "pixels"), [(None, 12), (20, 20)])
def test_inference_sees_one_sample_and_training_a_batch_of_the_size_asked_for(side, pixels):
    Watched.seen = []
    timed(small_task(Watched), side=side, warm_up=0, iterations=2)
    one, many = (1, 1, pixels, pixels), (4, 1, pixels, pixels)
    assert Watched.seen == [(one, True), *[(one, False)] * 2, *[(many, True)] * 2]


def test_the_clock_runs_around_the_work_only(monkeypatch):
    ticks = iter(range(0, 1000, 5))
    monkeypatch.setattr(model_speed.time, "perf_counter", lambda: next(ticks))
    assert model_speed._time_calls(lambda: None, 3, 2) == [5, 5, 5]


def test_samples_that_are_no_images_have_no_side():
    x, y = images()
    task = small_task(dense(), x.reshape(len(x), -1), y)
    with pytest.raises(BadInput, match="--side: the samples of small are not images"):
        timed(task, side=8)


def test_a_side_that_the_model_cannot_take_is_bad_input():
    with pytest.raises(BadInput, match="--side 9: the model of small cannot take such images"):
        timed(small_task(convolutions()), side=9)
