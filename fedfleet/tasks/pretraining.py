"""Pretraining: a task's model trained in one place, on other data than the task's, before any fleet sees it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream
from fedfleet.core.trees import Tree
from fedfleet.tasks.prompts import head_path
from fedfleet.tasks.task import first_parameters, hold_out

_BATCH, _RATE, _DECAY = 128, 2e-3, 0.05
_EVAL_BATCH = 1024


def pretrain(
    task: Task, data: Dataset, *, epochs: int, seed: int, device: str, on_epoch: Callable[[int, float], None] | None = None
) -> tuple[Tree, float]:
    """The weights of the task's model after these epochs on these data, and how many of a held-out fifth it gets right.

    AdamW with a rate that rises over the first tenth and falls as a cosine. The head is made for the classes of these data, so
    that a task with others begins with a fresh one.
    """
    task_shape, data_shape = task.dataset.x.shape[1:], data.x.shape[1:]
    if task_shape != data_shape:
        raise BadInput(
            f"--on: its samples have shape {data_shape}, and {task.name} takes {task_shape}; choose data of "
            f"that shape, or leave --on out"
        )
    head = head_path(task)
    build = lambda: _with_head(task.build(), head, data.classes)  # noqa: E731
    module = build()
    first = first_parameters(build, seed)
    module.load_state_dict({n: torch.from_numpy(v) for n, v in first.items()})
    module.to(device).train()
    test_rows = hold_out(data, seed, 0)
    rows = np.setdiff1d(np.arange(len(data.y)), test_rows)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    optimiser = torch.optim.AdamW(module.parameters(), lr=_RATE, weight_decay=_DECAY)
    steps = epochs * -(-len(rows) // _BATCH)
    done = 0
    for epoch in range(epochs):
        for batch in np.array_split(stream(seed, "pretrain", epoch).permutation(rows), -(-len(rows) // _BATCH)):
            for group in optimiser.param_groups:
                group["lr"] = _RATE * _rate_factor(done, steps)
            indices = torch.from_numpy(batch)
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(x[indices].to(device)), y[indices].to(device)).backward()
            optimiser.step()
            done += 1
        if on_epoch is not None:
            on_epoch(epoch + 1, _accuracy(module, x, y, test_rows, device))
    tree = {n: v.detach().cpu().numpy().copy() for n, v in module.state_dict().items()}
    return tree, _accuracy(module, x, y, test_rows, device)


def common_rows(a: Dataset, b: Dataset) -> int:
    """How many samples of `b` are samples of `a` too, bit for bit."""
    if a.x.shape[1:] != b.x.shape[1:] or a.x.dtype != b.x.dtype:
        return 0
    known = {row.tobytes() for row in a.x}
    return sum(row.tobytes() in known for row in b.x)


def _rate_factor(done: int, steps: int) -> float:
    warmup = max(1, steps // 10)
    if done < warmup:
        return (done + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (done - warmup) / max(1, steps - warmup)))


def _with_head(module: Any, path: str, classes: int) -> Any:
    changed = copy.deepcopy(module)
    old: Any = changed.get_submodule(path)
    parent, _, last = path.rpartition(".")
    setattr(changed.get_submodule(parent), last, nn.Linear(old.in_features, classes))
    return changed


def _accuracy(module: Any, x: torch.Tensor, y: torch.Tensor, rows: Ints, device: str) -> float:
    module.eval()
    right = 0
    with torch.no_grad():
        for part in torch.from_numpy(rows).split(_EVAL_BATCH):
            right += int((module(x[part].to(device)).argmax(1).cpu() == y[part]).sum())
    module.train()
    return right / max(len(rows), 1)
