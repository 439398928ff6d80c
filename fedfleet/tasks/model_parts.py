"""What is known of a model: which layers are its head and norms, and the mean of its last hidden layer by class."""

from __future__ import annotations

from glob import escape
from typing import Any

import numpy as np
import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import ModelFacts
from fedfleet.core.parts import Task
from fedfleet.core.records import Floats, Ints
from fedfleet.core.strata import strata
from fedfleet.core.trees import Tree

_PER_CLASS = 40  # samples that a class is evaluated by


def class_features(task: Task, params: Tree, rows: Ints) -> Floats:
    """[classes, features]: means of what enters the last linear layer; zeros for a class without samples."""
    module: Any = task.build()
    module.load_state_dict({n: torch.from_numpy(np.array(v)) for n, v in params.items()})
    module.eval()
    last = [leaf for leaf in module.modules() if isinstance(leaf, nn.Linear)]
    if not last:
        raise BadInput(f"{task.name}: classes are merged by what enters the last linear layer, and this model has no linear layer")
    captured: list[torch.Tensor] = []
    hook = last[-1].register_forward_hook(lambda leaf, inputs, out: captured.append(inputs[0]))
    means: list[Floats] = []
    groups = strata(task.dataset, "edge")
    for label in range(groups.count):
        class_rows = rows[groups.of[rows] == label][:_PER_CLASS]
        if not len(class_rows):
            means.append(np.zeros(last[-1].in_features))
            continue
        captured.clear()
        with torch.no_grad():
            module(torch.from_numpy(task.dataset.x[class_rows]))
        means.append(captured[-1].reshape(-1, last[-1].in_features).double().mean(0).numpy())
    hook.remove()
    return np.stack(means)


# Layers of one class each, whatever their number of dimensions; the first holds batch and instance normalisation.
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)


def model_facts(task: Task) -> ModelFacts:
    """The facts of a task's model: the head is the last layer with parameters that its forward() calls."""
    module = task.build()
    norms = tuple(_leaf_pattern(path) for path, layer in module.named_modules() if isinstance(layer, _NORMS))
    return ModelFacts(_leaf_pattern(last_layer(module, torch.from_numpy(task.dataset.x[:2]))), norms)


def last_layer(module: nn.Module, sample: Any) -> str:
    """The path of the layer with parameters that a forward pass calls last; the last one defined if none can be made."""
    layers = {path: layer for path, layer in module.named_modules() if list(layer.parameters(recurse=False))}
    if not layers:
        raise BadInput("the model has no layer with parameters, and so no head")
    inside = [path for path in layers if path] or list(layers)  # parameters of the whole model are no layer of it
    called: list[str] = []
    hooks = [layers[p].register_forward_pre_hook(lambda *_, path=p: called.append(path)) for p in inside]
    was_training = module.training
    try:
        with torch.no_grad():
            module.eval()(sample)
    except Exception:  # what the model cannot do is said where it is checked
        called.clear()
    finally:
        module.train(was_training)
        for hook in hooks:
            hook.remove()
    return called[-1] if called else inside[-1]


def _leaf_pattern(path: str) -> str:
    """The pattern of a layer's leaves."""
    return f"{escape(path)}.*" if path else "*"
