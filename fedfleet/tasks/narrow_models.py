"""Narrower versions of a task's model: how many units they have, where those lie in the whole model, what training them takes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import ModelShape
from fedfleet.core.parts import Task
from fedfleet.core.records import Ints

_STATISTICS = ("running_mean", "running_var")
_ACTIVATION_COPIES = 2.0  # what a layer puts out, and what the function behind it makes of that


def units(n: int, scale: float, multiple: int = 1) -> int:
    """The first ceil(scale n) of n units, as whole multiples of so many.

    >>> units(64, 0.5), units(10, 0.25), units(64, 0.3, 2), units(7, 1.0)
    (32, 3, 20, 7)
    """
    return min(n, multiple * max(1, math.ceil(scale * n / multiple - 1e-9)))


def at_width(task: Task, width: float) -> Task:
    """The task whose model has this share of its width."""
    if task.narrow is not None:
        return replace(task, build=partial(task.narrow, width))
    if width < 1.0:
        raise BadInput(
            f"task {task.name!r} does not say how its model becomes narrower, so no client can train a slice of it; use a "
            "named task (fedfleet list tasks), or widths = [1.0]"
        )
    return task


def shape_at(task: Task, width: float) -> ModelShape:
    """What the model at this share of its width holds of the whole one, and what it takes: from one sample's forward pass."""
    whole, module = task.build(), at_width(task, width).build()
    full = {n: tuple(v.shape) for n, v in whole.state_dict().items()}
    blocks = _blocks(whole)
    places: dict[str, tuple[Ints, ...]] = {}
    for name, value in module.state_dict().items():
        if name.rpartition(".")[2] in _STATISTICS and tuple(value.shape) != full[name]:
            raise BadInput(
                f"task {task.name!r}: {name!r} is a running statistic of batches, which slices of different widths cannot "
                "average; use GroupNorm or LayerNorm instead of BatchNorm"
            )
        sizes = zip(full[name], value.shape, blocks.get(name) or (1,) * value.ndim, strict=True)
        # The first places of each of the equal blocks of an axis.
        places[name] = tuple(np.arange(n).reshape(cut, -1)[:, : part // cut].reshape(-1) for n, part, cut in sizes)
    work, activations = _trace_work(module, task.dataset.x[:1])
    return ModelShape(places, {n: work.get(n, 0.0) for n in full}, activations)


def _blocks(module: Any) -> dict[str, tuple[int, ...]]:
    """The leaves whose axes are made of blocks that are each cut alike: the gates of an LSTM, the heads of attention."""
    from torch import nn

    from fedfleet.tasks.nets.attention import Attention

    result: dict[str, tuple[int, ...]] = {}
    for path, leaf in module.named_modules():
        if isinstance(leaf, nn.LSTM):
            result |= {f"{path}.{n}".lstrip("."): (4,) + (1,) * (p.dim() - 1) for n, p in leaf.named_parameters()}
        elif isinstance(leaf, Attention):
            result |= {f"{path}.qkv.weight": (3 * leaf.heads, 1), f"{path}.qkv.bias": (3 * leaf.heads,)}
            result[f"{path}.out.weight"] = (1, leaf.heads)
    return result


def _trace_work(module: Any, x: Any) -> tuple[Mapping[str, float], float]:
    """Multiply-adds by leaf, and numbers kept, of one sample's pass. Products of activations with each other are not counted."""
    import torch

    work: defaultdict[str, float] = defaultdict(float)
    sizes: list[int] = []

    def record_leaf(leaf: Any, inputs: Any, out: Any, path: str) -> None:
        del inputs
        out = out[0] if isinstance(out, tuple) else out
        if isinstance(out, torch.Tensor):
            sizes.append(out.numel())
            for name, count in _multiply_adds(leaf, out).items():
                work[f"{path}.{name}".lstrip(".")] += count

    hooks = [
        leaf.register_forward_hook(partial(record_leaf, path=path))
        for path, leaf in module.named_modules()
        if next(leaf.parameters(recurse=False), None) is not None
    ]
    with torch.no_grad():
        module.eval()(torch.from_numpy(np.array(x)))
    for hook in hooks:
        hook.remove()
    return work, _ACTIVATION_COPIES * sum(sizes)


def _multiply_adds(leaf: Any, out: Any) -> dict[str, float]:
    """Of one sample, by parameter: its weights at each place of a layer's output; one for each number of anything else's."""
    from torch import nn

    match leaf:
        case nn.LSTM():
            places = out.numel() / out.shape[-1]
        case nn.Linear() | nn.Conv1d() | nn.Conv2d():
            places = out.numel() / len(leaf.weight)
        case _:
            return dict.fromkeys((n for n, _ in leaf.named_parameters(recurse=False)), float(out.numel()))
    return {n: places * p.numel() if p.dim() > 1 else 0.0 for n, p in leaf.named_parameters(recurse=False)}
