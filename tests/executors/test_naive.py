"""The loop that everybody writes trains what the literal executor trains."""

import numpy as np
import torch
from torch import nn

from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.trees import content_hash
from fedfleet.executors.inline import inline
from fedfleet.executors.naive import naive_loop
from fedfleet.learn.optimisers import sgd
from fedfleet.tasks.dropout import AddressedDropout
from tests.executors.cohorts import convolutions, jobs_with, small_task, smooth


def agrees(build):
    task = small_task(build)
    jobs = jobs_with(task, LocalPass(sgd(), BatchPlan(4, 2), rate=0.05), (9, 20, 6))
    before = content_hash(jobs[0].offer.params)
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    for result, report, job in zip(naive_loop(task, jobs, x, y, lr=0.05), inline(task).train(jobs), jobs, strict=True):
        for name, value in result.items():
            start = job.offer.params[name] if value.is_floating_point() else 0
            assert np.allclose(value.numpy(), start + report.update[name], atol=1e-5), name
    assert content_hash(jobs[0].offer.params) == before


def test_plain_sgd_is_the_literal_pass():
    agrees(smooth())


def test_running_statistics_begin_anew_for_each_client():
    agrees(convolutions(lambda: nn.BatchNorm2d(6)))


def test_dropout_drops_the_same_units():
    agrees(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 20), nn.Tanh(), AddressedDropout(0.5, 0), nn.Linear(20, 5))
    )
