"""Stacks of clients as torch tensors: memory and offers stacked, memory left on an accelerator, and the functions that the
client's half needs of torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from fedfleet.core.passes import Carry
from fedfleet.core.records import Slots
from fedfleet.core.trees import Tree
from fedfleet.executors.array_library import ArrayLibrary
from fedfleet.executors.client_half import PreparedJob
from fedfleet.learn.codecs.messages import round_trip

Tensors = dict[str, torch.Tensor]
CPU = torch.device("cpu")
_SPAN = 4096  # elements whose squares are summed in single precision before double takes over


def is_accelerator(device: torch.device) -> bool:
    """Does what goes there cross a bus? Then it goes once, and what clients have in common stays one row."""
    return device.type != "cpu"


def stack_trees(trees: Sequence[Tree], device: torch.device) -> Tensors:
    """Clients' trees as one stack; a tree that all share is not copied, but seen by each."""
    first = trees[0]
    if all(tree is first for tree in trees):
        return {n: _to_tensor(v, device).unsqueeze(0).expand(len(trees), *np.shape(v)) for n, v in first.items()}
    return {n: _stack_leaves([tree[n] for tree in trees], device) for n in first}


def stack_of_one(tree: Mapping[str, torch.Tensor]) -> Tensors:
    """One client's tensors as a stack."""
    return {n: v.detach().unsqueeze(0) for n, v in tree.items()}


def stack_carry(group: Sequence[PreparedJob], device: torch.device) -> Carry:
    """Memory and what else was offered, as stacks."""
    slots = group[0].memory
    memory = {slot: stack_trees([prepared.memory[slot] for prepared in group], device) for slot in slots}
    return Carry(memory, stack_trees([begun.extra for begun in group], device))


def _to_tensor(value: Any, device: torch.device) -> torch.Tensor:
    tensor = getattr(value, "tensor", None)
    if tensor is not None and tensor.device == device:
        return tensor
    return torch.from_numpy(np.array(value)).to(device)


def _stack_leaves(values: list[Any], device: torch.device) -> torch.Tensor:
    """One leaf of many clients. On an accelerator what several have in common crosses the bus once; what all have is one row."""
    different = list({id(v): v for v in values}.values()) if is_accelerator(device) else values
    if len(different) == 1 and len(values) > 1:
        return _to_tensor(values[0], device).unsqueeze(0).expand(len(values), *np.shape(values[0]))
    if len(different) < len(values):
        place = {id(v): i for i, v in enumerate(different)}
        return _stack_leaves(different, device)[torch.tensor([place[id(v)] for v in values], device=device)]
    if all(getattr(v, "tensor", None) is not None for v in values):
        return torch.stack([v.tensor.to(device) for v in values])
    return torch.from_numpy(np.stack([np.asarray(v) for v in values])).to(device)


def _numpy_dtype(leaf: torch.Tensor) -> np.dtype[Any]:
    return np.asarray(torch.empty(0, dtype=leaf.dtype)).dtype


class DeviceLeaf:
    """A leaf of a client's memory that is still on an accelerator; converting it to an array copies it to the host."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        array = self.tensor.detach().cpu().numpy()
        return array if dtype is None else array.astype(dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the leaf."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its type, as numpy says it."""
        return _numpy_dtype(self.tensor)


def split_slots(memory: Mapping[str, Mapping[str, torch.Tensor]], clients: int) -> list[Slots]:
    """What each client remembers, as copies: a view would keep the whole stack alive. On an accelerator it stays there."""
    parts: dict[str, dict[str, list[Any]]] = {slot: {n: _split_leaf(v) for n, v in tree.items()} for slot, tree in memory.items()}
    return [{slot: {n: each[c] for n, each in tree.items()} for slot, tree in parts.items()} for c in range(clients)]


def _split_leaf(stack: torch.Tensor) -> list[Any]:
    return [np.array(row) for row in stack.detach().numpy()] if stack.device.type == "cpu" else copy_rows(stack.detach())


def copy_rows(stack: torch.Tensor) -> list[DeviceLeaf]:
    """The rows of a stack, each with memory of its own where the stack is."""
    rows = [torch.empty_like(stack[:1]) for _ in range(len(stack))]
    torch.split_with_sizes_copy(stack, [1] * len(stack), out=rows)  # all of them in one go
    return [DeviceLeaf(row[0]) for row in rows]


def fetch(value: torch.Tensor) -> np.ndarray:
    """A tensor's values here. From a GPU they come through page-locked memory, which the bus reads directly; such memory takes
    milliseconds to get, and torch keeps it for the next time. What would take too much of it comes the slow way.
    """
    value = value.detach()
    if value.device.type != "cuda" or value.nbytes > page_locked_limit():
        return value.cpu().numpy()
    target = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    target.copy_(value, non_blocking=True)
    torch.cuda.current_stream(value.device).synchronize()
    return target.numpy()


@cache
def page_locked_limit() -> int:
    """How many bytes one piece of page-locked memory may take: a thirty-second part of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 32


def norms_of(update: Mapping[str, torch.Tensor], clients: int) -> np.ndarray:
    """How far each client moved what goes up, as a Euclidean norm; leaves in the order of their names."""
    total = np.zeros(clients)
    for leaf in (update[name] for name in sorted(update)):
        if leaf.is_floating_point() and leaf.numel():
            flat = leaf.reshape(clients, -1)
            full = flat.shape[1] // _SPAN * _SPAN
            spans = [flat[:, :full].unflatten(1, (-1, _SPAN))] if full else []
            spans += [flat[:, full:].unsqueeze(1)] if full < flat.shape[1] else []
            for span in spans:
                total += torch.linalg.vector_norm(span, dim=2).double().square_().sum(1).cpu().numpy()
    return np.sqrt(total)


TORCH = ArrayLibrary(
    is_floating=torch.Tensor.is_floating_point,
    dtype=_numpy_dtype,
    to_numpy=fetch,
    stack_leaf=lambda values, like: _stack_leaves(values, like.device),
    norms=norms_of,
    round_trip=round_trip,
    split_slots=split_slots,
    no_grad=torch.no_grad,
)
