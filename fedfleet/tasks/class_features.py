"""What a model makes of each class: the mean of its last hidden layer over some samples of the class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task
from fedfleet.core.records import Floats, Ints
from fedfleet.core.trees import Tree

_PER_CLASS = 40  # samples that a class is judged by


def class_features(task: Task, params: Tree, rows: Ints) -> Floats:
    """[classes, features]: means of what enters the last linear layer; zeros for a class without samples."""
    module: Any = task.build()
    module.load_state_dict({n: torch.from_numpy(np.array(v)) for n, v in params.items()})
    module.eval()
    last = [leaf for leaf in module.modules() if isinstance(leaf, nn.Linear)]
    if not last:
        raise BadInput(
            f"{task.name}: classes are merged by what enters the last linear layer, and this model has no linear layer"
        )
    captured: list[torch.Tensor] = []
    hook = last[-1].register_forward_hook(lambda leaf, inputs, out: captured.append(inputs[0]))
    means: list[Floats] = []
    for label in range(task.dataset.classes):
        class_rows = rows[task.dataset.y[rows] == label][:_PER_CLASS]
        if not len(class_rows):
            means.append(np.zeros(last[-1].in_features))
            continue
        captured.clear()
        with torch.no_grad():
            module(torch.from_numpy(task.dataset.x[class_rows]))
        means.append(captured[-1].reshape(-1, last[-1].in_features).double().mean(0).numpy())
    hook.remove()
    return np.stack(means)
