"""Batches of one sample are foreseen where the model needs two."""

import numpy as np
import pytest
from torch import nn

import fedfleet
from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.plan_checks import leaves_batch_of_one
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.passes import BatchPlan

DATA = (np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 3)
SPEC = {"world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 2}}


def normalised():
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def test_a_last_batch_of_one_is_refused_with_a_batch_that_works():
    with pytest.raises(BadInput, match="client 1 has 17 training samples in batches of 16") as told:
        fedfleet.run(SPEC, "algorithm.batch=16", model=normalised(), data=DATA)
    size = int(str(told.value).split("set algorithm.batch to ")[1].split(",")[0])
    assert fedfleet.run(SPEC, f"algorithm.batch={size}", model=normalised(), data=DATA).metrics["commits"] == 2


def test_batches_of_one_are_always_refused_and_other_models_never():
    with pytest.raises(BadInput, match="batches of 1,"):
        fedfleet.run(SPEC, "algorithm.batch=1", model=normalised(), data=DATA)
    assert fedfleet.run(SPEC, "algorithm.batch=1", model=nn.Linear(5, 3), data=DATA).metrics["commits"] == 2


def test_steps_that_end_before_the_last_batch_are_fine():
    assert leaves_batch_of_one(BatchPlan(16, epochs=2), 17) and leaves_batch_of_one(BatchPlan(16, steps=2), 17)
    assert not leaves_batch_of_one(BatchPlan(16, steps=1), 17) and not leaves_batch_of_one(BatchPlan(16), 0)


FJORD = {"task": "digits_mlp", "world": {"clients": 20}, "pace": {"cohort": 4}}


@pytest.mark.parametrize("around", [{"feedback": True, "up": ["int4"]}, {"keep": "3.*"}])
def test_slices_of_changing_width_cannot_be_remembered(around):
    with pytest.raises(BadInput, match="clients with slices of the model cannot keep leaves or models of their own"):
        assemble(resolve({**FJORD, "algorithm": {"use": "fjord", **around}}))


def test_slices_that_stay_as_they_are_can():
    assert assemble(resolve({**FJORD, "algorithm": {"use": "heterofl", "feedback": True, "up": ["int4"]}})).plan.clients == 20
