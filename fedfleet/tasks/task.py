"""Putting a task together: a dataset, a central holdout, and a torch model with addressed first parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.rng import address, stream
from fedfleet.core.trees import Tree

TaskRecipe = Callable[[int], Task]
HOLDOUT_SHARE = 0.2


def make_task(name: str, load: Callable[[], Dataset], build: Callable[[], Any]) -> TaskRecipe:
    """A recipe that, given the seed, loads the data and holds a seeded fifth of it out for the central test."""

    def recipe(seed: int) -> Task:
        require_torch()
        dataset = load()
        order = stream(seed, "holdout").permutation(len(dataset.y))
        holdout = np.sort(order[: round(HOLDOUT_SHARE * len(dataset.y))])
        return Task(name, dataset, holdout, build, lambda s: first_parameters(build, s))

    return recipe


def first_parameters(build: Callable[[], Any], seed: int) -> Tree:
    """The parameters and buffers of a fresh module, drawn from the seed alone."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(address(seed, "init")[:7], "little"))
        module = build()
    return {name: value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}


def require_torch() -> None:
    """Say which extra brings torch when it is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise BadInput("this task needs PyTorch, which is not installed; install fedfleet[train]") from None
