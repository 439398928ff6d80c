"""Stacks of several runs on top of each other: to the last bit as alone, in the forms that say so."""

import numpy as np
import pytest
import torch

from fedfleet.app.spec.table_checks import build_part
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Job
from fedfleet.executors.client_half import reports
from fedfleet.executors.stacked import joint_stack
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.joint_stack import parts_of, train_parts
from fedfleet.executors.stacked.placement import open_place
from fedfleet.executors.stacked.schedule import plan_stage, sample_counts
from fedfleet.tasks.digits import digits_logreg, digits_mlp

pytestmark = pytest.mark.slow

METHODS = {
    "fedavg": {"use": "fedavg"},
    "fedprox": {"use": "fedprox", "mu": 0.1},
    "momentum": {"use": "fedavg", "momentum": 0.9},
    "adam": {"use": "fedavg", "optimiser": "adam"},
}
TASKS = {"mlp": digits_mlp()(0), "logreg": digits_logreg()(0)}


def cohorts(task, algorithm, runs, seed=0):
    """Cohorts of one to twenty clients, each with its own run's seed and model."""
    rng, result = np.random.default_rng(seed), []
    for run in range(runs):
        server = algorithm.init(task.init(run))
        most, clients = int(rng.integers(4, 60)), int(rng.integers(1, 21))
        shards = [rng.choice(len(task.dataset.y), int(rng.integers(2, most)), replace=False) for _ in range(clients)]
        result.append(
            [
                Job(i, i, 1000 + i, 100 + run, algorithm.offer(server, i, {}), algorithm.local(i, {}), rows)
                for i, rows in enumerate(shards)
            ]
        )
    return result


def place(task, threads=1):
    return open_place(task, device="cpu", threads=threads, form="merged", tf32=False, graphs=False)


def joint_reports(where, jobs):
    parts = [parts_of(where, one) for one in jobs]
    ended = iter(train_parts(where, [part for own in parts for part in own], {}))
    result = []
    for own in parts:
        ready = {}
        for part in own:
            ready |= zip(part.places, reports(part.group, next(ended)), strict=True)
        result.append([ready[i] for i in range(len(ready))])
    return result


def same(a, b):
    trees = [(a.update, b.update), *((a.memory[s], b.memory[s]) for s in a.memory or ())]
    equal = all(np.array_equal(x[n], y[n]) for x, y in trees for n in x)
    return equal and (a.task, a.client, a.weight, a.stats) == (b.task, b.client, b.weight, b.stats)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_clients_of_twelve_runs_in_one_stack_end_as_alone(method, task, threads, monkeypatch):
    task = TASKS[task]
    given = build_part("algorithms", {**METHODS[method], "lr": 0.05, "batch": 10})
    torch.set_num_threads(1)
    where, jobs, heights = place(task, threads), cohorts(task, given, 12), []
    train = joint_stack.train_stack
    monkeypatch.setattr(joint_stack, "train_stack", lambda w, t, g: (heights.append(len(g)), train(w, t, g))[1])
    together = joint_reports(where, jobs)
    assert max(heights) > 40, "runs do stand on top of each other"
    for mine, own in zip(together, jobs, strict=True):
        alone = stacked_executor(task, form="merged", threads=threads).train(own)
        assert all(same(a, b) for a, b in zip(mine, alone, strict=True))


def test_a_stack_that_fails_fails_alone(monkeypatch):
    task = TASKS["logreg"]
    given = build_part("algorithms", {"use": "fedavg", "batch": 10})
    where, jobs = place(task), cohorts(task, given, 4)
    train = joint_stack.train_stack

    def picky(where, twin, clients):
        if any(begun.job.seed == 102 for begun in clients):
            raise RunFailed("client 3 cannot")
        return train(where, twin, clients)

    monkeypatch.setattr(joint_stack, "train_stack", picky)
    parts = [part for own in jobs for part in parts_of(where, own)]
    ended = train_parts(where, parts, {})
    assert [isinstance(one, RunFailed) for one in ended] == [part.group[0].job.seed == 102 for part in parts]
    assert where.twins, "its twin is free again"


def test_a_layout_whose_trial_fails_is_never_joined(monkeypatch):
    task = TASKS["logreg"]
    given = build_part("algorithms", {"use": "fedavg", "batch": 10})
    where, heights = place(task), []
    train = joint_stack.train_stack
    monkeypatch.setattr(joint_stack, "train_stack", lambda w, t, g: (heights.append(len(g)), train(w, t, g))[1])
    monkeypatch.setattr(joint_stack, "trial_passes", lambda where, group, most: False)
    parts = [part for own in cohorts(task, given, 4) for part in parts_of(where, own)]
    train_parts(where, parts, {})
    assert sorted(heights) == sorted(len(part.group) for part in parts)


def test_what_a_stack_computes_is_what_its_plan_says():
    given = build_part("algorithms", {"use": "fedavg", "batch": 10, "epochs": 2})
    for jobs in cohorts(TASKS["logreg"], given, 6):
        plan = plan_stage(jobs, jobs[0].local.batches)
        assert sample_counts(jobs, jobs[0].local) == (plan.sample_slots, int(plan.sizes.sum()))
