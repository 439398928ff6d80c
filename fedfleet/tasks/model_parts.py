"""Which layers of a model do what: its head, and the layers that normalise."""

from __future__ import annotations

from glob import escape
from typing import Any

import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import ModelFacts
from fedfleet.core.parts import Task

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
