"""The methods by name: every name of the zoo is registered, builds with nothing said, and says what it is."""

import inspect

import numpy as np
import pytest

from fedfleet.core.parts import Algorithm, Job
from fedfleet.core.registry import builder, names
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.learn import zoo
from tests.testing.registered import assembled, facts_for

pytestmark = pytest.mark.slow

# Those that are put together there, and the one that all of them begin with.
METHODS = sorted({"fedavg"} | {name for name, build in vars(zoo).items() if hasattr(build, "__signature__")})
_SLICES = "slices of different widths have no common statistics of batches, and say so"
NO_STATISTICS = {"heterofl": _SLICES, "fjord": _SLICES}


def made(name, **options):
    """The method of this name, told about a small run."""
    build = getattr(zoo, name)
    return build(**options, **facts_for(build))


def test_the_zoo_and_the_registry_name_the_same_methods():
    assert sorted(names("algorithms")) == METHODS
    assert all(builder("algorithms", name) is getattr(zoo, name) for name in METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_builds_with_its_defaults_and_carries_its_name(name):
    built = made(name)
    assert isinstance(built, Algorithm)
    assert built.name == name
    assert inspect.getdoc(getattr(zoo, name))


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_learning_rate_and_batches_reach_its_pass(name):
    local = made(name, lr=0.25, batch=3, steps=4, weigh="one").local(0, {})
    *before, last = local.stages()  # what comes before the method's own steps has epochs of its own
    assert (last.rate, last.batches.size, last.batches.steps, local.weigh) == (0.25, 3, 4, "one")
    assert all((stage.rate, stage.batches.size) == (0.25, 3) for stage in before)


def test_what_tells_the_methods_apart():
    result = {name: made(name) for name in METHODS}
    assert {n for n, a in result.items() if a.pooled} == {"centralized"}
    at_home = {"local_only", "fedper", "fedrep", "fedbn"}
    assert {n for n, a in result.items() if a.personal is not None} == {*at_home, "ditto"}
    assert {n for n, a in result.items() if a.local(0, {}).keep is not None} == {*at_home, "fedbabu"}
    assert {n for n, a in result.items() if a.tune is not None} == {"ft", "fedbabu"}
    assert {n for n, a in result.items() if a.local(0, {}).terms} == {"fedprox", "fednova", "scaffold", "feddyn"}
    remembering = {*at_home, "ditto", "scaffold", "feddyn", "fedkd"}
    assert {n for n, a in result.items() if a.local(0, {}).remembers()} >= remembering
    assert {n for n, a in result.items() if a.priced_by_value} == {"fedkd"}


def jobs_of(setup, memory=None):
    """A ragged cohort's work from the first model, or from what each client remembers."""
    algorithm = setup.plan.algorithm
    server = algorithm.init(setup.plan.params)
    rows = np.split(np.arange(48), [11, 16, 34])
    remembered = memory or [{}] * 4
    return [
        Job(i, i, 70 + i, 7, algorithm.offer(server, i, {}), algorithm.local(i, {}), own, memory=remembered[i])
        for i, own in enumerate(rows)
    ]


@pytest.mark.parametrize("form", ["merged", "loop"])
@pytest.mark.parametrize("task", [None, {"use": "digits_cnn", "channels": 4, "norm": "batch"}])
@pytest.mark.parametrize("name", METHODS)
def test_stacked_and_inline_report_the_same_within_the_promise(name, task, form):
    """Twice, the second time from what clients remember; updates, memory and bytes."""
    if task is not None and name in NO_STATISTICS:
        pytest.skip(NO_STATISTICS[name])
    setup, memory = assembled(name, task=task, batch=8, lr=0.05), None
    for _ in range(2):
        jobs = jobs_of(setup, memory)
        literal = list(inline(setup.task).train(jobs))
        together = list(stacked_executor(setup.task, form=form).train(jobs))
        for a, b in zip(literal, together, strict=True):
            assert (a.task, a.weight, a.bytes_up) == (b.task, b.weight, b.bytes_up)
            trees = [(a.update, b.update), *((t, (b.memory or {})[slot]) for slot, t in (a.memory or {}).items())]
            for mine, other in trees:
                assert mine.keys() == other.keys()
                for n, v in mine.items():
                    # A gradient that is zero but for rounding, over few and small steps, is rounding made larger.
                    assert np.abs(v - other[n]).max() <= 1e-4 * max(np.abs(v).max(), 5e-3), n
        memory = [r.memory or {} for r in literal]
