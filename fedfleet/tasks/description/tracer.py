"""A PyTorch module as a description: its forward pass runs on two batches of unlike size, and what it calls is written down.

Whatever Python does in `forward` is followed, as long as it does not depend on the numbers in the batch. A function that no
description has is refused by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Task
from fedfleet.core.trees import Array
from fedfleet.tasks.description.calls import IGNORED, TRANSLATIONS
from fedfleet.tasks.description.format import ModelDescription, Operation, check_description
from fedfleet.tasks.description.layer_calls import Untranslatable
from fedfleet.tasks.dropout import AddressedDropout
from fedfleet.tasks.narrow_models import at_width

_MOST_CONSTANT = 1 << 20  # numbers of a tensor that is written into the description
_BATCHES = (2, 3)  # unlike sizes tell a dimension of the batch from one of the model


def describe_task(task: Task, width: float = 1.0) -> ModelDescription:
    """The description of a task's model, or of its slice at a share of its width."""
    module = task.build() if width == 1.0 else at_width(task, width).build()
    return describe_module(module, task.dataset.x, task.frozen)


def describe_module(module: nn.Module, samples: Array, frozen: Collection[str] = ()) -> ModelDescription:
    """The description of a module that takes such samples; `BadInput` names what cannot be described.

    `frozen` are the weights that the module holds inside, beside its state.
    """
    if not len(samples):
        raise BadInput("a model is described from a sample, and there is none")
    inside = {n: v for n, v in module.named_buffers() if n in frozen}
    small, large = (_record(module, inside, np.repeat(samples[:1], batch, axis=0)) for batch in _BATCHES)
    if [o.name for o in small.operations] != [o.name for o in large.operations] or small.output != large.output:
        raise BadInput("model: it computes other things for a batch of another size, so that only PyTorch can train it")
    merged = tuple(
        Operation(a.name, a.inputs, {key: _merge(value, b.settings[key]) for key, value in a.settings.items()})
        for a, b in zip(small.operations, large.operations, strict=True)
    )
    state = {**inside, **module.state_dict()}
    result = ModelDescription(
        tuple(samples.shape[1:]),
        samples.dtype.str,
        {n: (tuple(v.shape), v.cpu().numpy().dtype.str) for n, v in state.items()},
        frozenset(n for n, p in module.named_parameters() if p.requires_grad),
        merged,
        small.output,
        small.constants,
    )
    if any(not np.array_equal(value, large.constants[name]) for name, value in small.constants.items()):
        raise BadInput("model: it computes other things for a batch of another size, so that only PyTorch can train it")
    check_description(result)
    return result


class _Recorder(TorchFunctionMode):
    """Writes down every function of PyTorch that is called with a value that depends on the batch."""

    def __init__(self, leaves: Mapping[str, torch.Tensor], x: torch.Tensor) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.leaves = {id(v): n for n, v in leaves.items()}
        # By identity: what has been computed, kept alive so that no other tensor takes its place.
        self.values: dict[int, int] = {id(x): 0}
        self.alive: list[Any] = [x]
        self.constants: dict[str, Array] = {}
        self.of_batch = {0}  # the values that depend on the batch
        self.output = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if any(id(value) in self.values or id(value) in self.leaves for value in _tensors([args, kwargs])):
            self._write(func, args, kwargs, result)
        return result

    def _write(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Write one call down, unless it gives no numbers."""
        name = str(getattr(func, "__name__", func))
        if not any(True for _ in _tensors([result])) or name in IGNORED:
            return
        translate = TRANSLATIONS.get(name)
        if translate is None:
            raise BadInput(f"model: its forward() calls {name}(), which only PyTorch can train")
        try:
            translate(self, result, *args, **kwargs)
        except Untranslatable as reason:
            raise BadInput(f"model: its forward() calls {name}() {reason}, which only PyTorch can train") from None
        except TypeError as error:
            raise BadInput(f"model: its forward() calls {name}() in a way that only PyTorch can train ({error})") from None

    def number(self, value: Any) -> int | str:
        """The number or the name of a tensor that an operation reads."""
        if id(value) in self.values:
            return self.values[id(value)]
        if id(value) in self.leaves:
            return self.leaves[id(value)]
        if not isinstance(value, torch.Tensor) or value.numel() > _MOST_CONSTANT:
            raise Untranslatable("with a large tensor that is neither a weight nor computed from the batch")
        name = f"constant {len(self.constants)}"
        self.constants[name] = value.detach().cpu().numpy().copy()
        self.leaves[id(value)] = name
        self.alive.append(value)
        return name

    def add(self, result: Any, name: str, inputs: list[Any], **settings: Any) -> int:
        """Write one operation down; its result may be read from now on."""
        numbers = tuple(v if isinstance(v, int) else self.number(v) for v in inputs)
        self.operations.append(Operation(name, numbers, settings))
        if self.of_batch.intersection(numbers):
            self.of_batch.add(len(self.operations))
        if result is not None:
            self.keep(result, len(self.operations))
        return len(self.operations)

    def keep(self, result: torch.Tensor, number: int) -> None:
        """This tensor is that value."""
        self.values[id(result)] = number
        self.alive.append(result)


def _record(module: nn.Module, inside: Mapping[str, torch.Tensor], batch: Array) -> _Recorder:
    """One forward pass on a batch, in evaluation mode, with dropout written down where it would be."""
    x = torch.from_numpy(np.ascontiguousarray(batch))
    recorder, patched = _Recorder({**inside, **module.state_dict(keep_vars=True)}, x), []
    training = module.training
    for layer, leaf in enumerate(m for m in module.modules() if isinstance(m, AddressedDropout | nn.modules.dropout._DropoutNd)):
        patched.append(leaf)
        number = leaf.layer if isinstance(leaf, AddressedDropout) else layer
        leaf.forward = partial(_dropout, recorder, leaf.p, number)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with torch.no_grad(), recorder:
            output = module.eval()(x)
    finally:
        module.train(training)
        for leaf in patched:
            del leaf.forward
    if recorder.values.get(id(output)) not in recorder.of_batch:
        raise BadInput("model: its output does not depend on the batch")
    recorder.output = recorder.values[id(output)]
    return recorder


def _dropout(recorder: _Recorder, rate: float, layer: int, x: torch.Tensor) -> torch.Tensor:
    if rate == 0.0:
        return x
    with torch._C.DisableTorchFunction():
        result = x.clone()
    recorder.add(result, "dropout", [x], rate=rate, layer=layer)
    return result


def _tensors(values: Any) -> Any:
    """All tensors in nested arguments."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))


def _merge(small: Any, large: Any) -> Any:
    """One setting from those of the two batches: an integer that grows with the batch is a negative multiple of it."""
    if isinstance(small, list):
        return [_merge(a, b) for a, b in zip(small, large, strict=True)]
    if small == large:
        return small
    if isinstance(small, int) and small % _BATCHES[0] == 0 and small // _BATCHES[0] * _BATCHES[1] == large:
        return -(small // _BATCHES[0])
    raise BadInput("model: it computes other things for a batch of another size, so that only PyTorch can train it")
