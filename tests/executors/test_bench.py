"""Timing a cohort both ways: the two sides do the same work and come to the same models."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.trees import content_hash
from fedfleet.executors import bench as benches
from fedfleet.executors.bench import Bench, algorithm_jobs, compare, compare_algorithm, fold_work, naive_loop, time_work
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.device_fold import fold_jobs
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.placement import open_place
from fedfleet.learn.optimisers import sgd
from fedfleet.learn.zoo import fedavg, fedprox, local_only
from fedfleet.tasks.dropout import AddressedDropout
from tests.executors.cohorts import convolutions, dense, jobs_with, small_task, smooth


def bench(build=None, **options):
    return Bench(small_task(build or smooth()), **{"cohort": 4, "steps": 3, "batch": 5, "repeats": 1, **options})


@pytest.mark.parametrize("form", ["merged", "loop"])
@pytest.mark.parametrize("build", [smooth(), dense(400)], ids=["smooth", "wide"])
def test_both_ways_of_plain_sgd_agree(build, form):
    result = compare(bench(build, form=form))
    assert result.max_rel_difference <= 1e-4
    assert result.max_abs_difference <= 1e-4
    assert (result.clients_apart, result.form, result.peak_gpu_mb) == (0, form, 0.0)
    assert result.naive_seconds > 0
    assert result.stacked_seconds > 0


@pytest.mark.parametrize(
    "algorithm",
    [fedprox(lr=0.05, mu=0.5), fedavg(lr=0.02, momentum=0.9), fedavg(lr=0.01, optimiser="adam")],
    ids=["fedprox", "momentum", "adam"],
)
def test_any_algorithm_agrees_with_inline(algorithm):
    result = compare_algorithm(bench(), algorithm)
    assert result.max_rel_difference <= 1e-4
    assert (result.clients_apart, result.form) == (0, "stacked-merged")


def test_the_work_is_what_the_bench_says():
    given = bench(cohort=7, steps=6, batch=5)
    jobs = algorithm_jobs(given, fedprox(batch=5))
    assert [len(job.rows) for job in jobs] == [30] * 7
    assert {job.steps for job in jobs} == {6}
    assert all(isinstance(job.local, LocalPass) and job.local.terms for job in jobs)
    rows = np.concatenate([job.rows for job in jobs[:5]])
    assert len(np.unique(rows)) == len(rows)  # rows of their own as far as the data goes
    assert max(int(job.rows.max()) for job in jobs) < len(given.task.dataset.y)


def test_a_difference_is_found_and_counted():
    one = [{"w": torch.ones(3), "n": torch.tensor(1)} for _ in range(3)]
    other = [dict(tree) for tree in one]
    other[1] = {"w": torch.tensor([1.0, 1.0, 1.5]), "n": torch.tensor(9)}
    assert benches._differences(one, other) == (0.5, 0.5, 1)
    assert benches._differences(one, one) == (0.0, 0.0, 0)
    assert benches._differences([{"w": torch.full((2,), 4.0)}], [{"w": torch.full((2,), 3.0)}]) == (1.0, 0.25, 1)


def test_the_median_of_the_repetitions_and_the_last_answer(monkeypatch):
    ticks = iter([0.0, 1.0, 10.0, 15.0, 20.0, 23.0])
    monkeypatch.setattr(benches.time, "perf_counter", lambda: next(ticks))
    answers = iter("abc")
    assert time_work(lambda: next(answers), "cpu", 3) == (3.0, "c")


def in_place(task):
    where = open_place(task, device="cpu", threads=1, form="merged", tf32=False, graphs=False)
    return replace(stacked_executor(task), fold=lambda *given: fold_jobs(where, *given))


def test_a_round_in_place_goes_on_from_what_clients_remember():
    given, algorithm = bench(), local_only(lr=0.1, batch=5)
    jobs = algorithm_jobs(given, algorithm)
    one_round = fold_work(in_place(given.task), algorithm, given.task, jobs)
    first, second = (np.asarray(one_round().memory[0]["kept"]["3.weight"]) for _ in range(2))
    assert not np.array_equal(first, second)


def test_where_nothing_is_added_up_in_place_there_is_no_such_round():
    given = bench()
    execute, jobs = in_place(given.task), algorithm_jobs(given, fedavg())
    assert fold_work(execute, fedavg(), given.task, jobs) is not None
    assert fold_work(stacked_executor(given.task), fedavg(), given.task, jobs) is None
    decoding = replace(fedavg(), accept=lambda server, report: report)
    assert fold_work(execute, decoding, given.task, jobs) is None
    collecting = replace(fedavg(), fold=replace(fedavg().fold, combine=lambda reports: None))
    assert fold_work(execute, collecting, given.task, jobs) is None


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
    agrees(lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 20), nn.Tanh(), AddressedDropout(0.5, 0), nn.Linear(20, 5)))
