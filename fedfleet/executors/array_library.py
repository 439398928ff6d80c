"""What the client's half needs from the library whose arrays a kernel returns; that of numpy. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.codec import Codec
from fedfleet.core.records import Slots
from fedfleet.learn.codecs.messages import decode_bytes, encode_bytes

# Arrays of one library by name, with a leading client axis.
Stack = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArrayLibrary:
    """What the client's half needs from the library whose arrays a kernel returns, as functions on leaves and stacks."""

    is_floating: Callable[[Any], bool]
    dtype: Callable[[Any], np.dtype[Any]]
    to_numpy: Callable[[Any], np.ndarray]
    # (one value per client, a leaf of the stack) -> a leaf beside it
    stack_leaf: Callable[[list[Any], Any], Any]
    # (stack, clients) -> the Euclidean norm of each client's update
    norms: Callable[[Stack, int], np.ndarray]
    # (codec, stack, one address per client) -> the stack as it arrives
    round_trip: Callable[[Codec, Stack, np.ndarray], dict[str, Any]]
    # (slots of a stack, clients) -> what each client remembers, as copies: a view would keep the whole stack alive
    split_slots: Callable[[Mapping[str, Stack], int], list[Slots]]
    no_grad: Callable[[], AbstractContextManager[Any]] = nullcontext


def _norms(update: Stack, clients: int) -> np.ndarray:
    total = np.zeros(clients)
    for leaf in (update[name] for name in sorted(update)):
        if leaf.dtype.kind == "f":
            total += np.square(leaf.reshape(clients, -1), dtype=np.float64).sum(1)
    return np.sqrt(total)


def _round_trip(codec: Codec, stack: Stack, where: np.ndarray) -> dict[str, Any]:
    trees = [{n: v[c] for n, v in stack.items()} for c in range(len(where))]
    messages = [encode_bytes(codec, tree, int(a)) for tree, a in zip(trees, where, strict=True)]
    arrived = [decode_bytes(codec, data, tree) for data, tree in zip(messages, trees, strict=True)]
    return {n: np.stack([tree[n] for tree in arrived]) for n in stack}


def _split_slots(memory: Mapping[str, Stack], clients: int) -> list[Slots]:
    return [{slot: {n: np.array(v[c]) for n, v in tree.items()} for slot, tree in memory.items()} for c in range(clients)]


NUMPY = ArrayLibrary(
    is_floating=lambda leaf: leaf.dtype.kind == "f",
    dtype=lambda leaf: leaf.dtype,
    to_numpy=np.asarray,
    stack_leaf=lambda values, like: np.stack([np.asarray(v) for v in values]),
    norms=_norms,
    round_trip=_round_trip,
    split_slots=_split_slots,
)
