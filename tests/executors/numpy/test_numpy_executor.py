"""Numpy trains what PyTorch trains: every cell of the matrix of passes, every kind of task, every registered method."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

import fedfleet
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.registry import names
from fedfleet.executors.described_executor import described_executor
from fedfleet.executors.inline import inline
from fedfleet.testing import check_executor
from fedfleet.testing.passes import SINGLES, cases
from tests.testing.models import TASKS
from tests.testing.registered import fitting_task

pytestmark = pytest.mark.slow

WRITTEN_FOR_TORCH = {"second", "objective"}


@pytest.mark.parametrize(
    ("name", "every"), [("dense", 7), ("convolutions", 7), ("batch norm", 7), pytest.param("dense", 1, marks=pytest.mark.soak)]
)
def test_numpy_does_what_inline_does_in_the_cells_of_the_matrix(name, every):
    task = TASKS[name]()
    some = [c for i, c in enumerate(cases(task)) if (i % every == 0 or c.name in SINGLES) and c.name not in WRITTEN_FOR_TORCH]
    assert len(some) > 10
    check_executor(described_executor("numpy", task), task, only=some)


@pytest.mark.parametrize("kind", sorted(WRITTEN_FOR_TORCH))
def test_an_objective_for_pytorch_is_refused_by_name(kind):
    task = TASKS["dense"]()
    (case,) = [c for c in cases(task) if c.name == kind]
    with pytest.raises(RunFailed, match="objective is written for PyTorch; use run"):
        list(described_executor("numpy", task).train(case.jobs))


def table(algorithm, task, **more):
    pace = {"use": "buffered", "concurrency": 4, "k": 2} if algorithm in ("fedasync", "fedbuff") else {"cohort": 3}
    spec = {"task": task, "algorithm": algorithm, "world": {"clients": 6}, "pace": pace, "stop": {"rounds": 2}}
    return {**spec, **more}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", names("algorithms"))
def test_every_registered_method_trains_as_inline_does_or_is_refused_by_name(algorithm):
    spec = table(algorithm, fitting_task(algorithm))
    literal = fedfleet.run(spec, "run.execute=inline")
    if algorithm == "fedkd":
        with pytest.raises(BadInput, match=r'run\.execute = "numpy": the training objective of fedkd is written for PyTorch; use'):
            fedfleet.run(spec, "run.execute=numpy")
        return
    found = fedfleet.run(spec, "run.execute=numpy")
    for name, value in literal.params.items():
        scale = max(float(np.abs(value).max()), 1e-3)
        assert np.abs(found.params[name].astype(np.float64) - value).max() <= 2e-4 * scale, name


SMALL = {
    "text_gpt": {"width": 8, "depth": 1, "heads": 2, "window": 8},
    "text_lstm": {"hidden": 8, "window": 8},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["diabetes_mlp", "digits_traits", "text_gpt", "text_lstm"])
def test_every_kind_of_task_has_its_losses_scores_and_measures(task):
    spec = table("fedavg", {"use": task, **SMALL.get(task, {})})
    literal, found = (fedfleet.run(spec, f"run.execute={how}").metrics for how in ("inline", "numpy"))
    assert found["accuracy"] == pytest.approx(literal["accuracy"], abs=2e-3)
    assert found["loss"] == pytest.approx(literal["loss"], rel=1e-4)
    assert found["measures"].keys() == literal["measures"].keys()
    for name, value in literal["measures"].items():
        assert found["measures"][name] == pytest.approx(value, rel=1e-2), name


def test_the_same_units_drop():
    task = TASKS["dense"]()

    def build():
        from fedfleet.tasks.dropout import AddressedDropout

        inner = task.build()
        return nn.Sequential(inner, AddressedDropout(0.5, 3))

    init = lambda seed: {f"0.{n}": v for n, v in task.init(seed).items()}  # noqa: E731
    dropping = replace(task, build=build, init=init)
    (case,) = [c for c in cases(dropping) if c.name == "plain"]
    for a, b in zip(inline(dropping).train(case.jobs), described_executor("numpy", dropping).train(case.jobs), strict=True):
        for name, value in a.update.items():
            np.testing.assert_allclose(b.update[name], value, rtol=1e-3, atol=1e-6)


def test_a_loss_of_ones_own_is_refused():
    task = replace(TASKS["dense"](), loss=object())
    with pytest.raises(BadInput, match="this task brings its own"):
        described_executor("numpy", task)


def test_weights_that_do_not_fit_the_model_are_refused_and_not_broadcast():
    task = TASKS["dense"]()
    job = next(c for c in cases(task) if c.name == "plain").jobs[0]
    name = next(n for n, v in job.offer.params.items() if v.ndim == 1)
    narrow = {**job.offer.params, name: job.offer.params[name][:1]}
    with pytest.raises(RunFailed, match=f"the weights '{name}' do not have the shape"):
        list(described_executor("numpy", task).train([replace(job, offer=replace(job.offer, params=narrow))]))
