"""Frozen weights: a task whose model holds most of its weights inside, once, and gives only the rest to be trained and sent.

A module that was made so has the same forward(). What is frozen is there as buffers that its state does not list, all of them views
of the same arrays: however many modules are built, stacked or not, there is one copy in a process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.parts import Task
from fedfleet.core.passes import Names
from fedfleet.core.trees import Tree, mismatch

_STATISTICS = ("running_mean", "running_var")


class FixedNorm(nn.Module):
    """Batch normalisation whose statistics stay as they are, so that a sample's neighbours do not matter."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        self.eps = like.eps
        for name, value in [*like._parameters.items(), *like._buffers.items()]:
            if isinstance(value, nn.Parameter) or value is None:
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (1, -1, *(1,) * (x.dim() - 2))
        own: Any = self
        scale = torch.rsqrt(own.running_var + self.eps)
        if own.weight is None:
            return (x - own.running_mean.reshape(shape)) * scale.reshape(shape)
        scale = scale * own.weight
        return x * scale.reshape(shape) + (own.bias - own.running_mean * scale).reshape(shape)


def freeze(task: Task, travels: Names, seed: int) -> Task:
    """The task of which only these names are trained and sent; the rest stays as `task.init(seed)` has it.

    >>> from fedfleet.tasks.digits import digits_mlp
    >>> task = freeze(digits_mlp()(0), lambda name: name.startswith("3."), seed=0)
    >>> sorted(task.init(0)), sorted(task.frozen), [n for n, _ in task.build().named_parameters()]
    (['3.bias', '3.weight'], ['1.bias', '1.weight'], ['3.weight', '3.bias'])
    """
    inner, whole = task, task.init(seed)
    fixed = {n: v for n, v in whole.items() if not travels(n)}
    if len(fixed) == len(whole):
        raise BadInput(f"{task.name}: all of its weights would be frozen, so there is nothing to train")

    def build() -> Any:
        return freeze_module(inner.build(), fixed)

    def init(seed: int) -> Tree:
        return {n: v for n, v in inner.init(seed).items() if travels(n)}

    return replace(task, build=build, init=init, frozen={**task.frozen, **fixed}, narrow=None)


def freeze_module(module: nn.Module, fixed: Tree) -> nn.Module:
    """The module with these weights inside, shared and no longer part of its state."""
    for path, leaf in list(module.named_modules()):
        if isinstance(leaf, nn.modules.batchnorm._BatchNorm) and all(f"{path}.{n}" in fixed for n in _STATISTICS):
            parent, _, last = path.rpartition(".")
            setattr(module.get_submodule(parent), last, FixedNorm(leaf))
    for path, leaf in list(module.named_modules()):
        for name in [*leaf._parameters, *leaf._buffers]:
            full = f"{path}.{name}".lstrip(".")
            if full in fixed:
                (leaf._parameters if name in leaf._parameters else leaf._buffers).pop(name)
                leaf._non_persistent_buffers_set.discard(name)
                leaf.register_buffer(name, torch.from_numpy(fixed[full]), persistent=False)
        if isinstance(leaf, nn.RNNBase):  # it keeps a list of its weights beside them
            leaf._flat_weights = [getattr(leaf, n) for n in leaf._flat_weights_names]
    return module


def frozen_names(leaf: nn.Module) -> list[str]:
    """The attributes of one layer that are frozen inside it."""
    return [n for n, v in leaf._buffers.items() if v is not None and n in leaf._non_persistent_buffers_set]


def replace_frozen(task: Task, fixed: Tree) -> Task:
    """The task with other frozen weights of the same names, shapes and types, such as those that came from elsewhere."""
    problem = mismatch(fixed, task.frozen) if fixed or task.frozen else None
    if problem is not None:
        raise Refused(f"these are not the frozen weights of {task.name!r}: {problem}")
    inner = task.build

    def build() -> Any:
        module = inner()
        for path, leaf in module.named_modules():
            for name in frozen_names(leaf):
                full = f"{path}.{name}".lstrip(".")
                if full in fixed:
                    leaf._buffers[name] = torch.from_numpy(fixed[full])
            if isinstance(leaf, nn.RNNBase):
                leaf._flat_weights = [getattr(leaf, n) for n in leaf._flat_weights_names]
        return module

    return replace(task, build=build, frozen=fixed)
