"""Small tasks for conformance: smooth ones, and one with kinks."""

import numpy as np
from torch import nn

from fedfleet.core.parts import Dataset, Task
from fedfleet.tasks.task import first_parameters


def small_task(build, x=None, y=None, name="small"):
    """A task of 64 made-up samples of 5 classes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 1, 6, 6)).astype(np.float32) if x is None else x
    y = rng.integers(0, 5, 64) if y is None else y
    return Task(name, Dataset(x, y, 5), np.arange(2), build, lambda seed: first_parameters(build, seed))


def dense(width=9, act=nn.Tanh):
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, width), act(), nn.Linear(width, 5))


def convolutional(norm=None, act=nn.Tanh):
    def build():
        layers = [nn.Conv2d(1, 4, 3, padding=1, bias=norm is None), *([norm()] if norm else []), act(), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(144, 5))

    return build


TASKS = {
    "dense": lambda: small_task(dense()),
    "wide": lambda: small_task(dense(120)),
    "convolutions": lambda: small_task(convolutional()),
    "batch norm": lambda: small_task(convolutional(lambda: nn.BatchNorm2d(4))),
}
