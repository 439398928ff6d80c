"""Prompts: what is learnt beside a backbone that stays as it is; and which weights of a prompted model are fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task
from fedfleet.core.passes import Names
from fedfleet.core.trees import Tree
from fedfleet.tasks.nets.attention import Vit
from fedfleet.tasks.task import INIT_LOCK, build_cheaply, first_parameters

_WRAPPED = "net."  # what a bordered model calls the model inside


class Border(nn.Module):
    """Adds a learnt border to every picture [channels, height, width], or learnt ends to every window [channels, time].

    The table holds the border alone, [channels, cells]: rows above, rows below, columns left, columns right.
    """

    def __init__(self, shape: tuple[int, ...], share: float) -> None:
        super().__init__()
        self.inner = tuple(n - 2 * self._edge(n, share) for n in shape[1:])
        self.edges = tuple(self._edge(n, share) for n in shape[1:])
        whole, inner_size = 1, 1
        for n, left in zip(shape[1:], self.inner, strict=True):
            whole, inner_size = whole * n, inner_size * left
        self.table = nn.Parameter(torch.zeros(shape[0], whole - inner_size))  # a backbone begins as it is

    @staticmethod
    def _edge(n: int, share: float) -> int:
        return min(max(1, round(share * n)), (n - 1) // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        channels, size = x.shape[1], x.shape[2:]
        if len(size) == 1:
            ends = self.table.split(self.edges[0], 1)
            return x + torch.cat([ends[0], x.new_zeros(channels, *self.inner), ends[1]], 1)
        (top, side), (high, wide) = self.edges, self.inner
        parts = self.table.split([top * size[1]] * 2 + [side * high] * 2, 1)
        above, below = (p.reshape(channels, top, size[1]) for p in parts[:2])
        left, right = (p.reshape(channels, high, side) for p in parts[2:])
        middle = torch.cat([left, x.new_zeros(channels, high, wide), right], 2)
        return x + torch.cat([above, middle, below], 1)


class BorderedModel(nn.Module):
    """A model behind a border."""

    def __init__(self, border: Border, net: nn.Module) -> None:
        super().__init__()
        self.border, self.net = border, net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.border(x))


def add_prompts(task: Task, length: int, share: float) -> Task:
    """The task with prompts: `length` tokens for each layer of a transformer, a border of this share of the side for others."""
    shape, inner = tuple(task.dataset.x.shape[1:]), task
    if isinstance(build_cheaply(task.build), Vit):
        return _change_model(task, lambda module: module.set_prompts(length), lambda tree: tree)
    if task.dataset.x.dtype.kind != "f" or len(shape) not in (2, 3) or min(shape[1:]) < 3:
        raise BadInput(
            f"{inner.name}: prompts go into a vision transformer, or around pictures and windows of 3 or more points, but this "
            f"model takes {task.dataset.x.dtype} of shape {shape}; use a task on pictures, or another algorithm"
        )
    return _change_model(
        task,
        lambda module: BorderedModel(Border(shape, share), module),
        lambda tree: {f"{_WRAPPED}{n}": v for n, v in tree.items()},
    )


def _change_model(task: Task, change: Callable[[Any], Any], rename: Callable[[Tree], Tree]) -> Task:
    """The task whose model is changed so; what it had before begins as before."""
    inner = task

    def build() -> Any:
        with INIT_LOCK:
            return change(inner.build())

    def init(seed: int) -> Tree:
        return {**first_parameters(build, seed), **rename(inner.init(seed))}

    return replace(task, build=build, init=init, frozen=rename(task.frozen), narrow=None)


def fast_weights(task: Task) -> Names:
    """Which names of a prompted model BiasPrompt trains and sends: biases, prompts, and the head."""
    head = head_path(task)

    def is_fast(name: str) -> bool:
        return "bias" in name or name.startswith((f"{head}.", "prompts.", "border."))

    return is_fast


def head_path(task: Task) -> str:
    """Where the head of a task's model is: the layer of that name, else the last linear layer."""
    paths = {path: leaf for path, leaf in build_cheaply(task.build).named_modules() if isinstance(leaf, nn.Linear)}
    heads = [path for path in paths if path.rpartition(".")[2] == "head"]
    if not paths:
        raise BadInput(
            f"{task.name}: its model has no linear layer that could be its head; call its last layer `head`, or use another "
            "algorithm"
        )
    return (heads or list(paths))[-1]
