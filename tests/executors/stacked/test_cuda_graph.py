"""CUDA graphs: which stages can be recorded, in laps of how many steps; and on a GPU, that replaying is training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedfleet.core.passes import BatchPlan, Carry, LocalPass, ProximalTerm, SecondModel
from fedfleet.executors.client_half import prepare_job
from fedfleet.executors.stacked.cuda_graph import (
    MAX_LAP_STEPS,
    MAX_WHOLE_STEPS,
    CudaGraphs,
    _clone_tree,
    _copy_tree,
    _lap_steps,
    _shared_leaves,
)
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.schedule import plan_stage
from fedfleet.executors.stacked.stacked_model import make_twin
from fedfleet.executors.stacked.stage import Work
from fedfleet.executors.tensor_stacks import stack_carry, stack_trees
from fedfleet.learn.optimisers import adam, sgd
from fedfleet.learn.zoo import fedavg
from tests.executors.cohorts import TOLERANCE, apart, dense, jobs_of, jobs_with, small_task, smooth

PLAIN = LocalPass(sgd(), BatchPlan(4), rate=0.05)
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def stage(local, steps, *, sizes=(8, 8), rates=None):
    """A twin and a stage of so many steps."""
    task = small_task(smooth())
    local = replace(local, batches=BatchPlan(4, steps=steps))
    group = [prepare_job(job) for job in jobs_with(task, local, sizes)]
    plan = plan_stage([b.job for b in group], local.batches)
    start = stack_trees([b.start for b in group], torch.device("cpu"))
    carried = stack_carry(group, torch.device("cpu"))
    given = np.array(rates or [local.rate] * len(sizes))
    twin = make_twin(task.build(), torch.from_numpy(task.dataset.x[:2]))
    return twin, Work(local, plan, start, start, carried, dict(carried.memory.get("second", {})), given), task


@pytest.mark.parametrize(("steps", "lap"), [(1, 1), (12, 12), (16, 16), (32, 16), (36, 12), (34, 2), (17, 1), (50, 10)])
def test_where_only_weights_last_a_lap_is_the_largest_divisor_that_is_short_enough(steps, lap):
    twin, work, _ = stage(PLAIN, steps)
    assert _lap_steps(twin, work) == lap <= MAX_LAP_STEPS
    assert _lap_steps(twin, replace_stage(work, terms=(ProximalTerm(0.5),))) == lap


def replace_stage(work, **changes):
    return replace(work, stage=replace(work.stage, **changes))


@pytest.mark.parametrize(
    "changes",
    [{"optimiser": sgd(momentum=0.9)}, {"optimiser": adam()}, {"objective": lambda *given: None}],
    ids=["momentum", "adam", "an objective"],
)
def test_where_more_lasts_from_step_to_step_a_pass_is_recorded_whole_or_not_at_all(changes):
    for steps, lap in ((1, 1), (MAX_WHOLE_STEPS, MAX_WHOLE_STEPS), (MAX_WHOLE_STEPS + 1, 0)):
        twin, work, _ = stage(PLAIN, steps)
        assert _lap_steps(twin, replace_stage(work, **changes)) == lap


def test_a_second_model_is_recorded_whole():
    twin, work, _ = stage(replace(PLAIN, second=SecondModel(dict)), 20)
    assert _lap_steps(twin, work) == 20


@pytest.mark.parametrize(("sizes", "rates"), [((8, 6), None), ((8, 8), [0.1, 0.2])], ids=["padded batches", "rates of their own"])
def test_what_differs_from_call_to_call_in_more_than_values_is_not_recorded(sizes, rates):
    twin, work, task = stage(PLAIN, 4, sizes=sizes, rates=rates)
    x, y = torch.from_numpy(task.dataset.x), torch.from_numpy(task.dataset.y)
    assert CudaGraphs().train(twin, work, x, y) is None


def test_what_clients_share_stays_one_row_in_the_recordings_own_memory():
    row = torch.arange(4.0)
    tree = {"shared": row.expand(3, 4), "own": torch.zeros(3, 4), "one": torch.zeros(1, 4)}
    mine = _clone_tree(tree, frozenset({"shared"}))
    assert [mine[n].stride(0) == 0 for n in tree] == [True, False, False]
    assert not any(mine[n].data_ptr() == tree[n].data_ptr() for n in tree)
    assert _clone_tree(tree, frozenset())["shared"].stride(0) != 0
    _copy_tree(mine, {"shared": (row + 1).expand(3, 4), "own": torch.ones(3, 4), "one": torch.ones(1, 4)})
    assert torch.equal(mine["shared"], (row + 1).expand(3, 4))
    assert mine["own"].eq(1).all()
    assert mine["one"].eq(1).all()


def test_a_recording_is_for_what_clients_share_of_all_that_they_carry():
    _, work, _ = stage(PLAIN, 3)
    shared, own = torch.zeros(1, 4).expand(2, 4), torch.zeros(2, 4)
    both = replace(work, second={"w": shared, "v": own}, carried=Carry({"control": {"w": own}}, {"c": shared}))
    assert {("second", "w"), ("given", "c")} <= _shared_leaves(both)
    assert not {("second", "v"), ("control", "w")} & _shared_leaves(both)
    assert _shared_leaves(both) != _shared_leaves(replace(both, second={"w": own, "v": own}))


@NEEDS_CUDA
@pytest.mark.parametrize("build", [smooth(), dense(400)], ids=["small", "low rank"])
@pytest.mark.parametrize("steps", [3, 32])
def test_replaying_trains_as_stepping_does_again_and_again(build, steps):
    task = small_task(build)
    jobs = jobs_of(task, fedavg(lr=0.02, batch=4, steps=steps), (16, 16, 16))
    recorded, stepped = stacked_executor(task, device="cuda"), stacked_executor(task, device="cuda", graphs=False)
    for _ in range(2):
        for a, b, job in zip(stepped.train(jobs), recorded.train(jobs), jobs, strict=True):
            assert apart(a, b, job.offer.params) <= TOLERANCE
        jobs = [replace(job, task=job.task + 10) for job in jobs]  # other batches through the same recording
