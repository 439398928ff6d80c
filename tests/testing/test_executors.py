"""Every executor over the whole matrix of passes; and the check catches executors that cheat."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.registry import builder
from fedfleet.executors import tensor_stacks
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked import cohort, linear_layers, stage
from fedfleet.executors.stacked.device_fold import fold_jobs
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.placement import open_place
from fedfleet.testing import check_executor, check_kinks
from fedfleet.testing.passes import AXES, SINGLES, cases
from tests.testing.models import TASKS, convolutional, dense, small_task

pytestmark = pytest.mark.slow

CELLS = int(np.prod([len(v) for v in AXES.values()])) + len(SINGLES)


ALL = [pytest.param(name, form, 1, marks=pytest.mark.soak) for name in ("dense", "wide") for form in ("merged", "loop")]


@pytest.mark.parametrize(("name", "form", "every"), [("dense", "merged", 5), *ALL])
def test_stacked_does_what_inline_does_in_every_cell(name, form, every):
    """In every run a fifth of the cells, among which each value of each axis is; in the soak all."""
    task = TASKS[name]()
    cells = list(cases(task))
    assert len(cells) == CELLS
    some = [case for i, case in enumerate(cells) if i % every == 0 or case.name in SINGLES]
    result = check_executor(stacked_executor(task, form=form, threads=2), task, only=some)
    assert result.cells == len(some)


@pytest.mark.parametrize("name", ["convolutions", "batch norm"])
def test_other_layers_too(name):
    task = TASKS[name]()
    some = [case for i, case in enumerate(cases(task)) if i % 7 == 0 or case.name in SINGLES]
    check_executor(stacked_executor(task), task, only=some)


def folding_in_place(task):
    """Stacked as an accelerator does it, with sums where the updates are, on this processor."""
    where = open_place(task, device="cpu", threads=1, form="merged", tf32=False, graphs=False)
    return replace(stacked_executor(task), fold=lambda *given: fold_jobs(where, *given))


@pytest.mark.parametrize("every", [9, pytest.param(3, marks=pytest.mark.soak)])
def test_sums_in_place_have_the_bits_of_folding_reports(every):
    task = TASKS["dense"]()
    check_executor(folding_in_place(task), task, only=list(cases(task))[::every])


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.soak)])
def test_the_ways_of_an_accelerator_give_what_inline_gives(every, monkeypatch):
    """What clients share stays one row, and layers add constant terms and keep the steps of weights of their own: here on a CPU."""
    for module in (tensor_stacks, cohort, stage):
        monkeypatch.setattr(module, "is_accelerator", lambda device: True)
    monkeypatch.setattr(linear_layers, "IN_CACHE", 0)
    task = TASKS["dense"]()
    check_executor(folding_in_place(task), task, only=list(cases(task))[::every])


def test_inline_agrees_with_itself_to_the_bit():
    task = TASKS["dense"]()
    check_executor(inline(task), task, same_bits=True, only=list(cases(task))[::9])


@pytest.mark.parametrize("build", [dense(40, nn.ReLU), convolutional(act=nn.ReLU)], ids=["dense", "convolutions"])
def test_on_models_with_kinks_stacked_is_as_near_to_the_truth_as_inline(build):
    task = small_task(build)
    jobs = [job for case in list(cases(task))[:1] for job in case.jobs]
    check_kinks(stacked_executor(task), task, jobs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("graphs", [True, False], ids=["recorded", "step by step"])
@pytest.mark.parametrize("name", TASKS)
def test_a_gpu_does_what_inline_does_in_every_cell(name, graphs):
    task = TASKS[name]()
    some = list(cases(task)) if name in ("dense", "wide") else [c for i, c in enumerate(cases(task)) if i % 5 == 0]
    result = check_executor(stacked_executor(task, device="cuda", graphs=graphs), task, only=some)
    assert result.cells == len(some)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_as_near_to_the_truth_as_inline_on_models_with_kinks():
    task = builder("tasks", "femnist_cnn")(synthetic=True, samples=60)(0)
    jobs = [job for case in list(cases(task))[:1] for job in case.jobs]
    check_kinks(stacked_executor(task, device="cuda"), task, jobs)


CHEATS = {
    "forgets": lambda r: replace(r, memory=None),
    "weighs": lambda r: replace(r, weight=r.weight + 1),
    "halves": lambda r: replace(r, update={n: v * 0.5 for n, v in r.update.items()}),
    "drops a leaf": lambda r: replace(r, update=dict(list(r.update.items())[1:])),
    "makes up statistics": lambda r: replace(r, stats={**r.stats, "squared_loss": 0.0}),
    "says less": lambda r: replace(r, stats={"loss": 1.0}),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_an_executor_that_cheats_is_caught(cheat):
    task = TASKS["dense"]()
    honest = inline(task)
    bad = replace(honest, train=lambda jobs: [CHEATS[cheat](r) for r in honest.train(jobs)])
    with pytest.raises(AssertionError):
        check_executor(bad, task, only=[c for c in cases(task) if "memory" in c.name][:1])


def test_an_executor_that_ignores_the_context_is_caught():
    task = TASKS["dense"]()
    real = folding_in_place(task)

    def deaf(jobs, contexts, fold, server):
        return real.fold(jobs, [c._replace(staleness=0) for c in contexts], fold, server)

    with pytest.raises(AssertionError, match="in place differs"):
        check_executor(replace(real, fold=deaf), task, only=list(cases(task))[:1])
