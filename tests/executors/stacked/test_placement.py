"""Where stacks train: data that stay on the device or come along, models that must go to the CPU, how many fit."""

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Trial
from fedfleet.core.trees import content_hash
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.placement import _max_clients, open_place, stage_data
from fedfleet.executors.stacked.schedule import plan_stage
from fedfleet.learn.zoo import fedavg
from tests.executors.cohorts import Odd, convolutions, dense, jobs_of, small_task, smooth

CPU = torch.device("cpu")


def opened(task, **options):
    return open_place(task, **{"device": "cpu", "threads": 1, "form": "merged", "tf32": False, "graphs": True, **options})


def test_data_that_do_not_fit_are_brought_along_and_change_nothing():
    task, algorithm = small_task(convolutions()), fedavg(lr=0.05)
    jobs = jobs_of(task, algorithm, (9, 20, 3))
    kept, brought = stacked_executor(task), stacked_executor(task, room=0)
    assert "stack by stack" in brought.notes[0]
    for a, b in zip(kept.train(jobs), brought.train(jobs), strict=True):
        assert content_hash(a.update) == content_hash(b.update)
    trials = [Trial(task.init(0), job.rows) for job in jobs]
    assert list(kept.evaluate(trials)) == list(brought.evaluate(trials))


@pytest.mark.parametrize("spare", [0, -1])
def test_data_stay_as_long_as_they_fit_to_the_byte(spare):
    task = small_task(smooth())
    size = task.dataset.x.nbytes + task.dataset.y.nbytes
    assert opened(task, room=size + spare).streamed == (spare < 0)


def test_a_stage_brings_just_its_own_rows_and_finds_the_same_samples():
    task = small_task(smooth())
    jobs = jobs_of(task, fedavg(batch=4, epochs=1), (9, 20, 3))
    plan, where = plan_stage(jobs, jobs[0].local.batches), opened(task, room=0)
    laid, x, y = stage_data(where, plan)
    assert len(x) == len(y) == len(np.unique(plan.rows)) < len(task.dataset.y)
    assert torch.equal(x[torch.from_numpy(laid.rows)], where.x[torch.from_numpy(plan.rows)])
    assert torch.equal(y[torch.from_numpy(laid.rows)], where.y[torch.from_numpy(plan.rows)])
    assert laid.sizes is plan.sizes
    here = opened(task)
    assert stage_data(here, plan) == (plan, here.x, here.y)


def test_a_model_that_cannot_be_stacked_goes_to_the_cpu_and_says_so():
    where = opened(small_task(Odd))
    assert (where.form, where.device, where.twins) == ("loop", CPU, [])
    assert "is a Odd, which has parameters and no stacked form" in where.notes[0]
    assert where.notes[0].endswith("on the CPU")


def test_every_thread_has_a_twin_and_the_loop_needs_none():
    twins = opened(small_task(smooth()), threads=3).twins
    assert len({id(twin.module) for twin in twins}) == 3
    assert opened(small_task(smooth()), threads=3, form="loop").twins == []


def test_graphs_are_for_accelerators_and_the_judge_judges():
    where = opened(small_task(smooth()))
    assert where.graphs is None
    assert not where.eval_model.training


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_here_is_bad_input():
    with pytest.raises(BadInput, match="there is no CUDA device here; use cpu"):
        opened(small_task(smooth()), device="cuda:0")


def test_on_a_cpu_large_models_make_smaller_stacks_within_limits():
    small, middle, large = (_max_clients(small_task(dense(width)), CPU) for width in (5, 400, 4000))
    assert (small, large) == (50, 25)
    assert 25 < middle < 50
