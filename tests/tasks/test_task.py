"""Putting tasks together: training repeats to the bit; building a recipe loads nothing heavy."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Job, Offer, Trial
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.registry import builder, names, parameters
from fedfleet.executors.inline import inline
from fedfleet.learn.optimisers import sgd
from fedfleet.tasks.task import first_parameters, hold_out

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["femnist_cnn", "cifar_cnn", "har_cnn", "kws_cnn", "vit_tiny", "char_lstm", "mlp"])
def test_local_training_repeats_to_the_bit_and_learns(name):
    task = builder("tasks", name)(synthetic=True, samples=80)(0)
    executor = inline(task)
    local = LocalPass(sgd(), BatchPlan(size=8, steps=2), rate=0.05)
    job = Job(1, 0, 7, 3, Offer(task.init(0)), local, np.arange(16))
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


def test_a_fifth_or_whole_users_are_held_out():
    x, owner = np.zeros((20, 1), np.float32), np.repeat(np.arange(5), 4)
    data = Dataset(x, np.zeros(20, np.int64), 2, owner)
    fifth = hold_out(data, 3, 0)
    assert len(np.unique(fifth)) == 4 and np.array_equal(fifth, np.sort(fifth))
    two = hold_out(data, 3, 2)
    assert len(two) == 8 and len(np.unique(owner[two])) == 2
    assert not np.array_equal(hold_out(data, 4, 0), fifth)
    with pytest.raises(BadInput, match=r"task\.test_users = 5: the data has 5 users"):
        hold_out(data, 3, 5)
    with pytest.raises(BadInput, match="has 0 users"):
        hold_out(replace(data, owner=None), 3, 1)


def test_first_parameters_depend_on_the_seed_alone():
    def build():
        return torch.nn.Linear(3, 2)

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    a, b, c = first_parameters(build, 1), first_parameters(build, 1), first_parameters(build, 2)
    assert np.array_equal(a["weight"], b["weight"]) and not np.array_equal(a["weight"], c["weight"])
    assert torch.equal(torch.random.get_rng_state(), before), "nobody else's draws are disturbed"


@pytest.mark.parametrize("name", names("tasks"))
def test_tasks_start_the_same_from_the_same_seed(name):
    try:
        task = builder("tasks", name)()(3)
    except BadInput:  # its data is not on this machine
        task = builder("tasks", name)(synthetic=True)(3)
    a, b, c = task.init(3), task.init(3), task.init(4)
    assert all(np.array_equal(a[n], b[n]) for n in a)
    assert any(not np.array_equal(a[n], c[n]) for n in a)
    if "test_users" in parameters(builder("tasks", name)):  # whole users are held out
        left = np.setdiff1d(np.arange(len(task.dataset.y)), task.holdout)
        assert not np.intersect1d(task.dataset.owner[task.holdout], task.dataset.owner[left]).size
    else:
        assert len(task.holdout) == round(0.2 * len(task.dataset.y))


def test_a_recipe_fits_its_model_to_other_data():
    from fedfleet.tasks.small_images import mlp

    own = Dataset(np.zeros((7, 1, 28, 28), np.float32), np.arange(7), 10)
    task = mlp(synthetic=False).fit(5, own)  # the public set need not be here
    assert task.dataset is own and not len(task.holdout)
    whole = mlp(synthetic=True, samples=50)(5)
    assert all(np.array_equal(v, whole.init(5)[n]) for n, v in task.init(5).items())


def test_first_weights_are_the_seeds_own_while_others_build_models_in_threads():
    from concurrent.futures import ThreadPoolExecutor

    from fedfleet.tasks.digits import digits_mlp

    task = digits_mlp()(0)
    alone = [task.init(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            busy = [pool.submit(task.build) for _ in range(8)]
            result = list(pool.map(task.init, range(8)))
            assert all(future.result() is not None for future in busy)
            for mine, theirs in zip(result, alone, strict=True):
                assert all(np.array_equal(mine[n], theirs[n]) for n in theirs)
