"""The methods by name: every name of the zoo is registered, builds with nothing said, and says what it is."""

import inspect

import pytest

from fedfleet.core.parts import Algorithm
from fedfleet.core.registry import builder, names
from fedfleet.learn import zoo


def test_the_zoo_and_the_registry_name_the_same_methods():
    assert sorted(zoo.__all__) == sorted(names("algorithms"))
    assert all(builder("algorithms", name) is getattr(zoo, name) for name in zoo.__all__)


@pytest.mark.parametrize("name", zoo.__all__)
def test_a_method_builds_with_its_defaults_and_carries_its_name(name):
    built = getattr(zoo, name)()
    assert isinstance(built, Algorithm)
    assert built.name == name
    assert inspect.getdoc(getattr(zoo, name))


@pytest.mark.parametrize("name", zoo.__all__)
def test_a_methods_learning_rate_and_batches_reach_its_pass(name):
    local = getattr(zoo, name)(lr=0.25, batch=3, steps=4, weigh="one").local(0, {})
    *before, last = local.stages()  # what comes before the method's own steps has epochs of its own
    assert (last.rate, last.batches.size, last.batches.steps, local.weigh) == (0.25, 3, 4, "one")
    assert all((stage.rate, stage.batches.size) == (0.25, 3) for stage in before)


def test_what_tells_the_methods_apart():
    found = {name: getattr(zoo, name)() for name in zoo.__all__}
    assert {n for n, a in found.items() if a.pooled} == {"centralized"}
    at_home = {"local_only", "fedper", "fedrep", "fedbn"}
    assert {n for n, a in found.items() if a.personal is not None} == {*at_home, "ditto"}
    assert {n for n, a in found.items() if a.local(0, {}).keep is not None} == {*at_home, "fedbabu"}
    assert {n for n, a in found.items() if a.tune is not None} == {"ft", "fedbabu"}
    assert {n for n, a in found.items() if a.local(0, {}).terms} == {"fedprox"}
