"""Putting tasks together: training repeats to the bit; building a recipe loads nothing heavy."""

import subprocess
import sys

import numpy as np
import pytest

from fedfleet.core.parts import BatchPlan, Job, LocalPass, Trial
from fedfleet.core.registry import builder
from fedfleet.learn.optimisers import sgd
from fedfleet.runtime.executors.inline import inline


@pytest.mark.parametrize("name", ["femnist_cnn", "cifar_cnn", "har_cnn", "kws_cnn", "vit_tiny", "char_lstm", "mlp"])
def test_local_training_repeats_to_the_bit_and_learns(name):
    task = builder("tasks", name)(synthetic=True, samples=80)(0)
    executor = inline(task)
    local = LocalPass(sgd(0.05), BatchPlan(size=8, steps=2))
    job = Job(1, 0, 7, 3, task.init(0), local, np.arange(16))
    a, b = (next(iter(executor.train([job]))) for _ in range(2))
    assert all(np.array_equal(a.update[n], b.update[n]) for n in a.update)
    assert all(np.abs(a.update[n]).max() > 0 for n in a.update)
    assert np.isfinite(next(iter(executor.evaluate([Trial(task.init(0), task.holdout)]))).loss)


def test_building_a_recipe_loads_nothing_heavy():
    code = (
        "import sys\nfrom fedfleet.core.registry import builder, names\n"
        "for n in names('tasks'): builder('tasks', n)()\n"
        "print([m for m in ('torch', 'scipy', 'sklearn', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
