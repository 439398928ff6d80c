"""What a trained model answers, and a loss of the person's own, tried before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from fedfleet.core.errors import BadInput, error_context
from fedfleet.core.parts import Loss, Task
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array, Tree

_BATCH = 2048
_SAMPLES = 3


def outputs_of(task: Task, params: Tree, rows: Ints) -> Array:
    """What the model answers to these rows of the dataset, [rows, outputs]; in one thread, so that it is the same every time."""
    module = task.build().eval()
    tensors = {n: torch.from_numpy(np.array(v)) for n, v in params.items()}
    outputs: list[Array] = []
    with torch.no_grad(), _one_thread():
        for a in range(0, len(rows), _BATCH):
            x = torch.from_numpy(task.dataset.x[rows[a : a + _BATCH]])
            outputs.append(functional_call(module, tensors, (x,)).numpy())
    return np.concatenate(outputs) if outputs else np.zeros((0, task.dataset.classes), np.float32)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def module_of(task: Task, params: Tree) -> torch.nn.Module:
    """The task's model with these parameters, for use; what is frozen is inside already."""
    module = task.build()
    module.load_state_dict({n: torch.from_numpy(np.array(v)) for n, v in params.items() if n not in task.frozen})
    return module.eval()


def check_loss(function: Callable[[Any, Any], Any], task: Task) -> Loss:
    """A loss function of the person's own: whether it gives one value per sample or one for all is seen by trying it."""
    if not callable(function):
        raise BadInput(f"loss: {function!r} is not a function; give one that takes (outputs, labels)")
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        raise BadInput(f"loss is the class {function.__name__}; give an instance, loss={function.__name__}()")
    data, n = task.dataset, min(_SAMPLES, len(task.dataset.y))
    module = task.build().eval()
    with error_context("your loss function, tried on the first samples,"):
        outputs = module(torch.from_numpy(data.x[:n]))
        value = function(outputs, torch.from_numpy(data.y[:n]))
    shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
    if shape not in ((), (n,)):
        shape_text = type(value).__name__ if shape is None else f"a tensor of shape {shape}"
        raise BadInput(
            f"loss: it gave {shape_text} for {n} samples; return a tensor with one value per sample, or their mean"
        )
    if not value.requires_grad:
        raise BadInput("loss: its value does not depend on the outputs, so that nothing can be learnt from it")
    return Loss(function, joint=shape == ())
