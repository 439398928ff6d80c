"""The stacked twin of a model: the same forward(), with every leaf that has parameters replaced by a stacked one."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import nn

from fedfleet.executors.stacked import layers
from fedfleet.executors.stacked.linear_layers import Linear, Stack
from fedfleet.executors.stacked.lstm import Lstm
from fedfleet.executors.stacked.max_pool import WindowPooling
from fedfleet.executors.stacked.short_attention import AttentionWatch, ShortAttention
from fedfleet.tasks.dropout import AddressedDropout
from fedfleet.tasks.frozen_weights import frozen_names
from fedfleet.tasks.seeded_draws import SeededDraws

Tensors = dict[str, torch.Tensor]
_OTHER = 1.125  # times the weights of one client are those of the other, where a twin is tried
_SLACK = 1e-2  # of the largest output: what another order of sums may change, and another model hardly stays within


class CannotStack(TypeError):
    """This model has a part that no stacked leaf is known for."""


@dataclass(slots=True)
class Twin:
    """A stacked model: load a stack of parameters, run it on merged batches, read the parameters back."""

    module: nn.Module
    stack: Stack
    places: dict[str, tuple[nn.Module, str]]  # name in the tree -> leaf and attribute
    flat: frozenset[str]  # convolution weights, which are kept with their kernel flattened
    dropouts: list[AddressedDropout]
    fusable: frozenset[str]  # names that a fused step can train
    shareable: frozenset[str]  # of these, the weights that clients can share until the end of a pass
    shapes: dict[str, torch.Size]
    held_weights: list[
        tuple[nn.Module, str, torch.Tensor]
    ]  # frozen inside the model: leaf, attribute, the one tensor of all clients
    attends: bool = False  # does it call PyTorch's attention?

    def run(self, x: torch.Tensor) -> torch.Tensor:
        """The model's outputs for a merged batch, in training."""
        with ShortAttention() if self.attends else WindowPooling() if x.is_cuda else nullcontext():
            return self.module(x)

    def load(self, tensors: Mapping[str, torch.Tensor], clients: int) -> None:
        """Point the leaves at these stacks; nothing is copied but what must change its shape."""
        self.stack.clients = clients
        for name, value in tensors.items():
            leaf, attribute = self.places[name]
            setattr(leaf, attribute, self.to_leaf_shape(name, value))
            if isinstance(leaf, Linear):
                leaf.past = None
        for leaf, attribute, value in self.held_weights:
            setattr(leaf, attribute, value.expand(clients, *value.shape[1:]))  # seen by each, copied for none

    def to_leaf_shape(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """A leaf's stack in the shape in which its leaf keeps it."""
        return value.reshape(len(value), value.shape[1], -1) if name in self.flat else value

    def settle(self) -> None:
        """Let every leaf make its clients' weights."""
        for leaf in {id(leaf): leaf for leaf, _ in self.places.values()}.values():
            if isinstance(leaf, Linear):
                leaf.settle()

    def freeze(self, trained: Collection[str] | None) -> bool:
        """Tell the leaves that update themselves which of them stay as they are; False if one would be both."""
        for leaf in {id(leaf): leaf for leaf, _ in self.places.values()}.values():
            if isinstance(leaf, Linear | layers.Conv):
                moving = {trained is None or name in trained for name in leaf.names.values()}
                if len(moving) > 1:
                    return False
                leaf.frozen = moving == {False}
        return True

    def read(self, names: list[str]) -> Tensors:
        """The leaves' present tensors by name, in the shapes of the model."""
        result: Tensors = {}
        for name in names:
            leaf, attribute = self.places[name]
            if isinstance(leaf, Linear):
                leaf.settle()
            value = getattr(leaf, attribute)
            result[name] = value.reshape(value.shape[0], *self.shapes[name])
        return result


def make_twin(module: nn.Module, sample: torch.Tensor | None = None) -> Twin:
    """The stacked twin of a model, or CannotStack with the leaf that stands in the way.

    A forward pass on the sample shows which leaves are used more than once; these cannot update themselves on the way.
    """
    if any(isinstance(leaf, SeededDraws) for leaf in module.modules()):
        raise CannotStack("its forward() draws random numbers itself, for one client at a time")
    stack = Stack()
    reused = reused_leaves(module, sample) if sample is not None else frozenset()
    attends = sample is not None and sample.device.type == "cpu" and _calls_attention(module, sample)
    shapes = {n: v.shape for n, v in module.state_dict().items()}
    frozen = [v for leaf in module.modules() for n in frozen_names(leaf) if (v := leaf._buffers[n]) is not None]
    twin = copy.deepcopy(module, {id(v): v for v in frozen})
    places: dict[str, tuple[nn.Module, str]] = {}
    flat: set[str] = set()
    fusable: set[str] = set()
    shareable: set[str] = set()
    held_weights: list[tuple[nn.Module, str, torch.Tensor]] = []
    for path, leaf in list(twin.named_modules()):
        names = [n for n, _ in leaf.named_parameters(recurse=False)] + [
            n for n, _ in leaf.named_buffers(recurse=False) if f"{path}.{n}".lstrip(".") in shapes
        ]
        if not names:
            continue
        tied = next((n for n in names if f"{path}.{n}".lstrip(".") not in shapes), None)
        if tied is not None:
            raise CannotStack(f"{path or 'the model'} shares its {tied} with another layer")
        new_leaf = _stacked_leaf(stack, leaf, path)
        inside = frozen_names(leaf) if not isinstance(new_leaf, layers.Table) else []  # a table's leaf has them itself
        held_weights += [(new_leaf, n, _one_row(new_leaf, n, leaf._buffers[n])) for n in inside]
        if path == "":
            twin = new_leaf
        else:
            parent, _, last = path.rpartition(".")
            setattr(twin.get_submodule(parent), last, new_leaf)
        for attribute in names:
            name = f"{path}.{attribute}".lstrip(".")
            places[name] = (new_leaf, attribute)
            if isinstance(new_leaf, layers.Conv) and attribute == "weight":
                flat.add(name)
            if isinstance(new_leaf, Linear | layers.Conv):
                new_leaf.alone = path not in reused and not inside
                new_leaf.names[attribute] = name
                if new_leaf.alone:
                    fusable.add(name)
            if isinstance(new_leaf, Linear) and attribute == "weight" and new_leaf.alone:
                shareable.add(name)
    dropouts = [m for m in twin.modules() if isinstance(m, AddressedDropout)]
    return Twin(
        twin, stack, places, frozenset(flat), dropouts, frozenset(fusable), frozenset(shareable), shapes, held_weights, attends
    )


def check_twin(twin: Twin, module: nn.Module, sample: torch.Tensor) -> None:
    """Try a twin with two clients whose weights differ: it must answer as the model does with the weights of each.

    A forward() that looks up what does not depend on the batch, or mixes its samples, is found so; CannotStack says it.
    """
    state = {n: v.detach() for n, v in module.state_dict().items()}
    sample = sample.to(next(module.parameters()).dtype) if sample.is_floating_point() else sample
    other = {n: v * _OTHER if v.is_floating_point() else v for n, v in state.items()}
    modes = [(part, part.training) for part in (module, twin.module)]
    try:
        with torch.no_grad():
            module.eval()
            twin.module.eval()
            wanted = torch.cat([torch.func.functional_call(module, tree, (sample,)) for tree in (state, other)])
            twin.load({n: torch.stack([state[n], other[n]]) for n in state}, 2)
            found = twin.module(torch.cat([sample, sample]))
    except Exception as error:
        raise CannotStack(f"its forward() fails when batches of clients are joined: {type(error).__name__}: {error}") from None
    finally:
        for part, mode in modes:
            part.train(mode)
    slack = _SLACK * float(wanted.abs().nan_to_num(posinf=0.0).max()) if wanted.numel() else 0.0
    if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=_SLACK, atol=slack, equal_nan=True):
        raise CannotStack("its forward() gives other outputs when batches of clients are joined")


def _one_row(leaf: nn.Module, name: str, value: torch.Tensor | None) -> torch.Tensor:
    """A frozen tensor as a stack of one, in the shape in which its leaf keeps it."""
    assert value is not None
    return value.reshape(1, len(value), -1) if isinstance(leaf, layers.Conv) and name == "weight" else value.unsqueeze(0)


def reused_leaves(module: nn.Module, sample: torch.Tensor) -> frozenset[str]:
    """The paths of the leaves that one forward pass uses more than once."""
    calls: Counter[str] = Counter()
    hooks = [leaf.register_forward_hook(lambda *_, path=path: calls.update([path])) for path, leaf in module.named_modules()]
    _forward_once(module, sample)
    for hook in hooks:
        hook.remove()
    return frozenset(path for path, n in calls.items() if n > 1)


def _calls_attention(module: nn.Module, sample: torch.Tensor) -> bool:
    """Does one forward pass call PyTorch's attention?"""
    with AttentionWatch() as watch:
        _forward_once(module, sample)
    return watch.called


def _forward_once(module: nn.Module, sample: torch.Tensor) -> None:
    """A forward pass that leaves nothing behind."""
    was_training, dtype = module.training, next(module.parameters()).dtype
    with torch.no_grad():
        module.eval()(sample.to(dtype) if sample.is_floating_point() else sample)
    module.train(was_training)


def _stacked_leaf(stack: Stack, leaf: nn.Module, path: str) -> nn.Module:
    try:
        match leaf:
            case nn.Linear():
                return Linear(stack)
            case nn.Conv1d() | nn.Conv2d():
                return layers.Conv(stack, leaf)
            case nn.BatchNorm1d() | nn.BatchNorm2d():
                return layers.BatchNorm(stack, leaf)
            case nn.LayerNorm() | nn.GroupNorm():
                return layers.Norm(stack, leaf)
            case nn.Embedding():
                return layers.Embedding(stack)
            case nn.LSTM():
                return Lstm(stack, leaf)
            case _:
                pass
    except TypeError as error:
        raise CannotStack(f"{path or 'the model'}: {error}") from None
    names = [n for n, _ in leaf.named_parameters(recurse=False)]
    if not list(leaf.children()) and len(names) == 1:
        return layers.Table(stack, leaf, names[0])
    raise CannotStack(f"{path or 'the model'} is a {type(leaf).__name__}, which has parameters and no stacked form")
