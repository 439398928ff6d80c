"""A person's own model as the model of a task: what it needs to be trained here, what is checked before, and its first weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fedfleet.core.parts import Dataset, Task
from fedfleet.core.trees import Array, Tree
from fedfleet.tasks.model_weights import FittedWeights, WeightsFile, fitted_weights
from fedfleet.tasks.task import Recipe, TaskRecipe, first_parameters, make_task, require_torch
from fedfleet.tasks.task_checks import check_fit, checked_build

Build = Callable[[], Any]


def is_module(model: Any) -> bool:
    """Is this a module itself, and no class or function that makes one?"""
    return hasattr(model, "state_dict") and not isinstance(model, type)


def model_factory(model: Any) -> Build:
    """A function that makes this model; a given module itself is never changed."""
    return partial(copy.deepcopy, model) if is_module(model) else model


@dataclass(frozen=True, slots=True)
class TrainableBuild:
    """A function that makes a model in the form that is trained; whether it must be wrapped, and whether it draws
    random numbers itself, is tried once, with a few inputs."""

    build: Build
    x: Array
    wraps: list[bool] = field(default_factory=list[bool])
    draws: list[bool] = field(default_factory=list[bool])

    def __call__(self) -> Any:
        """The model anew; what is no module is left to the checks."""
        from fedfleet.tasks.dropout import address_dropout
        from fedfleet.tasks.logits_model import LogitsModel, needs_wrapping
        from fedfleet.tasks.seeded_draws import draws_in_training, seed_draws
        from fedfleet.tasks.tied_weights import hide_ties

        module = self.build()
        if not is_module(module):
            return module
        wraps = self.wraps[0] if self.wraps else _note(self.wraps, needs_wrapping(module, self.x))
        module = address_dropout(LogitsModel(module) if wraps else module)
        draws = self.draws[0] if self.draws else _note(self.draws, draws_in_training(module, self.x))
        return hide_ties(seed_draws(module) if draws else module)


def _note(notes: list[bool], answer: bool | None) -> bool:
    """The answer, noted if it is one."""
    notes.extend([] if answer is None else [answer])
    return bool(answer)


def trainable_build(model: Any, x: Array) -> Build:
    """A function that makes the model in the form that is trained: its outputs are logits, its draws are seeded, and weights that
    it holds twice are listed once. A given module itself is never changed; `x` are inputs to try it with."""
    return TrainableBuild(model_factory(model), x[:2])


def model_recipe(
    model: Any, dataset: Dataset, *, loss: Any = None, scores: bool = True, weights: WeightsFile | None = None, name: str = "own"
) -> Recipe:
    """The task of an own model on these data, after every check: for a seed, with its first weights and the warnings about it.

    `model` is a module, or a class or function that makes one; without `scores` its outputs are for an own `loss` to understand.
    """
    require_torch()
    build = trainable_build(checked_build(model), dataset.x)
    warnings = tuple(check_fit(build, dataset, scores=scores, loss=loss))
    inner, first = make_task(name, lambda: dataset, build), "module" if is_module(model) else "seed"

    def recipe(seed: int) -> Task:
        return with_first_weights(replace(inner(seed), warnings=warnings, first_weights=first), seed, weights)

    return Recipe(recipe, lambda: True)


def own_recipe(inner: TaskRecipe, weights: WeightsFile | None = None) -> Recipe:
    """A recipe whose model is a person's own: it is brought into the form that is trained, and checked with its data."""

    def finished(task: Task, seed: int) -> Task:
        build = trainable_build(task.build, task.dataset.x)
        warnings = tuple(check_fit(build, task.dataset))
        task = replace(task, build=build, init=partial(first_parameters, build), warnings=(*task.warnings, *warnings))
        return with_first_weights(task, seed, weights)

    def recipe(seed: int) -> Task:
        return finished(inner(seed), seed)

    def fit(seed: int, data: Dataset) -> Task:
        assert isinstance(inner, Recipe)
        assert inner.fit is not None
        return finished(inner.fit(seed, data), seed)

    return Recipe(recipe, getattr(inner, "here", lambda: True), fit)


def with_first_weights(task: Task, seed: int, weights: WeightsFile | None) -> Task:
    """The task whose first weights are those of a file, with a word about what was done to make them fit; the same without one."""
    if weights is None:
        return task
    fitted: dict[int, FittedWeights] = {}

    def weights_for(seed: int) -> FittedWeights:
        if seed not in fitted:
            fitted[seed] = fitted_weights(weights.source, task.init(seed), partial=weights.partial)
        return fitted[seed]

    def init(seed: int) -> Tree:
        return {n: v.copy() for n, v in weights_for(seed).tree.items()}

    return replace(task, init=init, first_weights="file", warnings=(*task.warnings, *weights_for(seed).notes))
