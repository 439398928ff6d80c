"""Putting a task together: a dataset, a central holdout, and a torch model with addressed first parameters."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Ints
from fedfleet.core.rng import address, stream
from fedfleet.core.trees import Tree


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a task is made from a seed, and whether its data are here; `fit(seed, dataset)` is the same model on other data."""

    make: Callable[[int], Task]
    here: Callable[[], bool]
    fit: Callable[[int, Dataset], Task] | None = None

    def __call__(self, seed: int) -> Task:
        return self.make(seed)


TaskRecipe = Callable[[int], Task]
# A model for samples of this shape and that many classes; if it takes a `scale` too, with that share of its hidden units.
Net = Callable[..., Any]
Hold = Callable[[Dataset, int], Ints]  # the rows of the central test set, for a seed
Prepare = Callable[[Dataset, Ints], Dataset]  # the data, scaled without those rows
HOLDOUT_SHARE = 0.2
# PyTorch draws fresh weights from one generator of the process: runs side by side in threads must not draw from each other's.
INIT_LOCK = threading.RLock()
MODEL_COPIES = 10  # at the server, on its way, in training, and as exact sums


def make_task(name: str, load: Callable[[], Dataset], build: Callable[[], Any]) -> TaskRecipe:
    """A recipe that, given the seed, loads the data and holds a seeded fifth of it out for the central test."""
    return fit_task(name, load, lambda shape, classes: build())


def fit_task(
    name: str, load: Callable[[], Dataset], net: Net, *, test_users: int = 0, backbone: str = "", hold: Hold | None = None,
    prepare: Prepare | None = None,
) -> TaskRecipe:  # fmt: skip
    """The same for a model that takes its input shape and number of classes from the data, and their kind if it asks for `kind`.

    With `test_users` everything of that many seeded owners is held out instead of a fifth of all samples, or whatever `hold` says;
    `prepare` is what then becomes of the data. `backbone` names pretrained weights to begin with, as `backbones` knows them; "":
    the model begins from the seed alone.
    """
    asks = inspect.signature(net).parameters

    def recipe(seed: int) -> Task:
        require_torch()
        dataset = load()
        test_rows = hold_out(dataset, seed, test_users) if hold is None else hold(dataset, seed)
        return build_task(seed, dataset if prepare is None else prepare(dataset, test_rows), test_rows)

    def task_on_data(seed: int, dataset: Dataset) -> Task:
        require_torch()
        return build_task(seed, dataset, np.zeros(0, np.int64))  # the caller that brings data says what it is evaluated on

    def build_task(seed: int, dataset: Dataset, test_rows: Ints) -> Task:
        shape, classes = dataset.x.shape[1:], dataset.classes
        kind = {"kind": dataset.kind} if "kind" in asks else {}

        def build() -> Any:
            with INIT_LOCK:
                return net(shape, classes, **kind)

        def narrow(scale: float) -> Any:
            with INIT_LOCK:
                return net(shape, classes, scale=scale, **kind)

        check_model(name, build)
        pretrained: Tree = {}
        if backbone:
            from fedfleet.tasks import backbones

            pretrained = backbones.backbone(backbone, name, first_parameters(build, seed))

        def init(seed: int) -> Tree:
            return {**first_parameters(build, seed), **{n: v.copy() for n, v in pretrained.items()}}

        narrows, first = narrow if "scale" in asks else None, "file" if backbone else "seed"
        return Task(name, dataset, test_rows, build, init, narrow=narrows, first_weights=first)

    return Recipe(recipe, getattr(load, "here", lambda: True), task_on_data)


def check_model(name: str, build: Callable[[], Any]) -> None:
    """Refuse a model that this machine cannot train, before memory is taken: it is first built without any numbers."""
    try:
        nbytes = float(sum(v.numel() * v.element_size() for v in build_cheaply(build).state_dict().values()))
    except RuntimeError as error:  # PyTorch's word for sizes that no 64-bit number can hold
        if "overflow" not in str(error):
            raise
        nbytes = math.inf
    check_memory(MODEL_COPIES * nbytes, f"task: training {name}", "make the model smaller")


def build_cheaply(build: Callable[[], Any]) -> Any:
    """The module without numbers in it, which takes no memory; with them if it cannot be made so."""
    import torch

    try:
        with torch.device("meta"):
            return build()
    except BadInput:
        raise
    except Exception as error:
        if "overflow" in str(error):
            raise
        return build()


def hold_out(dataset: Dataset, seed: int, users: int) -> Ints:
    """The rows of the central test set: all rows of `users` owners, or a fifth of all rows when that is 0."""
    rng = stream(seed, "holdout")
    if not users:
        order = rng.permutation(len(dataset.y))
        return np.sort(order[: round(HOLDOUT_SHARE * len(dataset.y))])
    owner = dataset.owner if dataset.owner is not None else np.empty(0, np.int64)
    people = np.unique(owner)
    if users >= len(people):
        raise BadInput(
            f"task.test_users = {users}: the data has {len(people)} users, and at least one must be left to train; use fewer, "
            "or 0 to hold out a fifth of all samples"
        )
    return np.flatnonzero(np.isin(owner, rng.permutation(people)[:users]))


def first_parameters(build: Callable[[], Any], seed: int) -> Tree:
    """The parameters and buffers of a fresh module, drawn from the seed alone."""
    import torch

    with INIT_LOCK, torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(address(seed, "init")[:7], "little"))
        module = build()
    return {name: value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}


def require_torch() -> None:
    """Say which extra brings torch when it is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise BadInput("this task needs PyTorch, which is not installed; install fedfleet[train]") from None
