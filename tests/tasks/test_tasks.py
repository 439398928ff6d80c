"""Tasks: made-up data only when asked for, the same every time; training works; listing loads nothing heavy."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Job, Offer, Trial
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.registry import builder
from fedfleet.learn.optimisers import sgd
from fedfleet.runtime.executors.inline import inline
from fedfleet.tasks import small_images
from fedfleet.tasks.small_images import CHARS74K, chars74k_cnn
from fedfleet.tasks.sources import data_from, kept, locate, numbered, thinned
from fedfleet.tasks.synthetic import SAMPLES, made_up, made_up_text
from tests.tasks.files import written
from tests.tasks.test_nets import MADE_UP


@pytest.mark.parametrize("name", MADE_UP)
def test_missing_data_is_named_with_its_cure(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    for source in ("MNIST", "FASHION"):  # packages of this machine do not count here
        monkeypatch.setattr(small_images, source, replace(getattr(small_images, source), elsewhere=("no/where",)))
    with pytest.raises(BadInput) as told:
        builder("tasks", name)()(0)
    assert str(tmp_path) in str(told.value) and "synthetic = true" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", MADE_UP)
def test_made_up_data(name, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    a, b = (builder("tasks", name)(synthetic=True, samples=250)(seed).dataset for seed in (0, 1))
    assert np.array_equal(a.x, b.x) and np.array_equal(a.y, b.y) and np.array_equal(a.owner, b.owner)
    assert len(a.x) == len(a.y) == len(a.owner) == 250
    assert a.x.dtype == (np.int64 if name.endswith("lstm") else np.float32)
    assert a.y.dtype == a.owner.dtype == np.int64
    assert a.y.min() >= 0 and a.y.max() < a.classes


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 200), (50,)])
def test_made_up_data_can_be_learnt(shape):
    data = made_up("any", shape, 5, owners=10)(1000)
    flat = data.x.reshape(1000, -1)
    means = np.stack([flat[:500][data.y[:500] == c].mean(0) for c in range(5)])
    guess = ((flat[500:, None] - means) ** 2).sum(2).argmin(1)
    assert (guess == data.y[500:]).mean() > 0.9
    styles = np.stack([(flat - means[data.y])[data.owner == o].mean(0) for o in range(10)])
    assert styles.std(0).mean() > 0.2  # owners differ
    assert np.bincount(data.y).tolist() == [200] * 5


def test_made_up_text_can_be_learnt():
    data = made_up_text("any", 20, 30)(2000)
    assert data.x.shape == (2000, 20) and data.x.dtype == np.int64
    follows = np.zeros((30, 30), int)
    np.add.at(follows, (data.x[:, :-1].ravel(), data.x[:, 1:].ravel()), 1)
    assert (follows.argmax(1)[data.x[:, -1]] == data.y).mean() > 0.5


def test_made_up_data_is_kept_within_memory():
    assert len(made_up("a", (3, 84, 84), 2)(None).y) == 2**24 // (3 * 84 * 84)
    assert len(made_up("a", (4,), 2)(None).y) == SAMPLES


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


def test_limits_take_the_same_rows_every_time():
    assert kept(10, None).tolist() == list(range(10)) == kept(10, 10).tolist()
    rows = kept(1000, 50)
    assert len(np.unique(rows)) == 50 and np.array_equal(rows, kept(1000, 50)) and (np.diff(rows) > 0).all()
    data = made_up("any", (3,), 4)(100)
    few = thinned(data, 9)
    assert len(few.y) == len(few.x) == len(few.owner) == 9 and thinned(data, 500) is data
    assert numbered(["b", "a", "b"]).tolist() == [1, 0, 1]


def test_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    assert locate(("a/*.txt", "b.txt")) is None
    second = written(tmp_path / "b.txt", "")
    assert locate(("a/*.txt", "b.txt")) == second
    first = written(tmp_path / "a" / "1.txt", "")
    assert locate(("a/*.txt", "b.txt")) == first
    monkeypatch.delenv("FEDFLEET_DATA")
    monkeypatch.chdir(tmp_path)
    mine = written(tmp_path / "data" / "c.txt", "")
    assert locate(("c.txt",)) is not None and locate(("c.txt",)).resolve() == mine
    assert locate((), ("b.txt", str(first))) is not None


def test_damaged_sets_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path))
    path = written(tmp_path / "chars74k" / "chars74k_28.npz", b"no zip")
    with pytest.raises(BadInput, match=f"Chars74K cannot be read from {path}"):
        chars74k_cnn()(0)
    with path.open("wb") as file:
        np.savez(file, x=np.zeros((1, 28, 28), np.uint8), y=np.zeros(1, np.uint8))
    with pytest.raises(BadInput, match="user"):
        data_from((CHARS74K,), made_up("a", (1,), 2), samples=None, synthetic=False)()


def test_building_a_recipe_loads_nothing_heavy():
    code = (
        "import sys\nfrom fedfleet.core.registry import builder, names\n"
        "for n in names('tasks'): builder('tasks', n)()\n"
        "print([m for m in ('torch', 'scipy', 'sklearn', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
