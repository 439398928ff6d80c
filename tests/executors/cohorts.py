"""Small tasks and cohorts of clients for tests of executors, and what two executors' reports are compared by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.parts import Dataset, Job, Offer, Task
from fedfleet.core.records import Context, ServerState
from fedfleet.executors.inline import inline
from fedfleet.executors.stacked.device_fold import fold_jobs
from fedfleet.executors.stacked.executor import stacked_executor
from fedfleet.executors.stacked.placement import open_place
from fedfleet.tasks.task import first_parameters

# Rounding differs with the order of sums; a unit that sits within it of a kink of relu may take the other side.
TOLERANCE = 1e-4
NOW = Context(0, 1.0, 0)
SMALL = {"lr": 0.01, "batch": 4}


# ---- tasks --------------------------------------------------------------------------------------------------------


def images(n=160, side=12):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 1, side, side)).astype(np.float32), rng.integers(0, 5, n)


def small_task(build, x=None, y=None):
    """A task of made-up images of 12 x 12 pixels and five classes."""
    x, y = images() if x is None else (x, y)
    return Task("small", Dataset(x, y, 5), np.arange(2), build, lambda s: first_parameters(build, s))


def convolutions(norm=None):
    def build():
        layers = [nn.Conv2d(1, 6, 3, padding=1, bias=norm is None)]
        layers += [norm()] if norm else []
        layers += [nn.ReLU(), nn.Conv2d(6, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 5)]
        return nn.Sequential(*layers)

    return build


def dense(width=200):
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, width), nn.ReLU(), nn.Linear(width, 5))


def smooth(width=9):
    """A model without kinks: rounding stays rounding."""
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, width), nn.Tanh(), nn.Linear(width, 5))


class Twice(nn.Module):
    """A model that uses one layer twice."""

    def __init__(self):
        super().__init__()
        self.into, self.again, self.head = nn.Linear(144, 20), nn.Linear(20, 20), nn.Linear(20, 5)

    def forward(self, x):
        h = torch.relu(self.into(x.flatten(1)))
        return self.head(torch.relu(self.again(torch.relu(self.again(h)))))


class Odd(nn.Module):
    """A model with a parameter of its own in a composite module, which has no stacked form."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.head = nn.Linear(144, 5)

    def forward(self, x):
        return self.head(x.flatten(1)) * self.scale[0]


# ---- cohorts ------------------------------------------------------------------------------------------------------


def jobs_of(task, algorithm, sizes, *, steps=None, seed=7):
    """Jobs with shards of these sizes, one after the other in the dataset."""
    offer, first, result = Offer(task.init(0)), 0, []
    for i, n in enumerate(sizes):
        rows = (np.arange(n) + first) % len(task.dataset.y)
        result.append(Job(i, i, 1000 + i, seed, offer, algorithm.local(i, {}), rows, (steps or [0] * len(sizes))[i]))
        first += n
    return result


def jobs_with(task, local, sizes, **parts):
    """The same with one pass for all."""
    offer, first, result = Offer(task.init(0)), 0, []
    for i, n in enumerate(sizes):
        rows = (np.arange(n) + first) % len(task.dataset.y)
        result.append(Job(i, i, 1000 + i, 7, offer, local, rows, **parts))
        first += n
    return result


def folded(task, jobs, fold, *, threads=1):
    """Trained and added up where the updates are, as an accelerator does it."""
    where = open_place(task, device="cpu", threads=threads, form="merged", tf32=False, graphs=False)
    return fold_jobs(where, jobs, [NOW] * len(jobs), fold, ServerState(task.init(0)))


# ---- comparing ----------------------------------------------------------------------------------------------------


def apart(a, b, offered):
    """The largest difference of two reports' models, per tensor in units of its largest value."""
    worst = 0.0
    for name, change in a.update.items():
        if np.issubdtype(change.dtype, np.floating) and change.size:
            model = offered[name] + change
            worst = max(worst, float(np.abs(change - b.update[name]).max() / max(np.abs(model).max(), 1e-12)))
    return worst


def compare(task, algorithm, sizes, form="merged", *, threads=1, steps=None):
    """Stacked trains this cohort as inline does."""
    compare_jobs(task, jobs_of(task, algorithm, sizes, steps=steps), form, threads=threads)


def compare_jobs(task, jobs, form="merged", *, threads=1):
    expected = list(inline(task).train(jobs))
    got = list(stacked_executor(task, form=form, threads=threads).train(jobs))
    assert [r.task for r in got] == [j.task for j in jobs]
    for a, b, job in zip(expected, got, jobs, strict=True):
        assert apart(a, b, job.offer.params) <= TOLERANCE
        assert b.stats["loss"] == pytest.approx(a.stats["loss"], rel=1e-3, abs=1e-4)
        assert (b.weight, b.stats["steps"]) == (a.weight, a.stats["steps"])
