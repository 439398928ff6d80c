"""A model in an ONNX file as the model of a task: `net.onnx`, trained from the weights in it. It is data: nothing of it is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.trees import Tree
from fedfleet.tasks.description.format import ModelDescription
from fedfleet.tasks.file_hash import path_hash
from fedfleet.tasks.task import Recipe, require_torch


def is_onnx(model: str) -> bool:
    """Does this name of a model mean an ONNX file?"""
    return model.lower().endswith(".onnx")


def onnx_place(model: str) -> Path:
    """Where the file is; `BadInput` if it is not there."""
    path = Path(model).expanduser().absolute()
    if not path.is_file():
        raise BadInput(f"task.model: there is no file {model}{nearest_file(Path(model))}")
    return path


def onnx_net(model: str, digest: str | None) -> Callable[[tuple[int, ...], int], Any]:
    """What makes the model of this file, which must have this hash, for samples of a shape."""

    def net(shape: tuple[int, ...], outputs: int) -> Any:
        del outputs  # a check of every own model says if its outputs do not fit the data
        require_torch()
        path = onnx_place(model)
        found = path_hash(path)
        if digest is not None and found != digest:
            raise BadInput(
                f"task.model: {path} has changed since this run was described; restore it, or begin a new run with the new model "
                "(without task.code)"
            )
        return described_net(*_read(str(path), found), model)(shape)

    return net


def described_net(description: ModelDescription, weights: Tree, name: str) -> Callable[[tuple[int, ...]], Any]:
    """What makes a described model with these weights for samples of a shape."""

    def net(shape: tuple[int, ...], outputs: int = 0) -> Any:
        del outputs
        if tuple(shape) != description.sample_shape:
            raise BadInput(
                f"task.model: {name} takes samples of shape {description.sample_shape}, and those here have {tuple(shape)}"
            )
        from fedfleet.tasks.description.module import DescribedModule

        return DescribedModule(description, weights)

    return net


def with_file_weights(recipe: Recipe) -> Recipe:
    """The recipe, whose tasks say that their first weights came from a file."""
    assert recipe.fit is not None
    fit = recipe.fit

    def refuse_changed(seed: int) -> Task:
        return replace(recipe(seed), first_weights="file")

    def changed_fit(seed: int, data: Dataset) -> Task:
        return replace(fit(seed, data), first_weights="file")

    return Recipe(refuse_changed, recipe.here, changed_fit)


@lru_cache(maxsize=2)
def _read(path: str, digest: str) -> tuple[ModelDescription, Tree]:
    del digest  # another content is another entry
    from fedfleet.tasks.description.onnx_import import read_onnx

    return read_onnx(path)
