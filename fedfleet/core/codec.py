"""The type of codecs: how a tree is made small before it travels, and what comes out at the other end.

A codec has two halves. The first may lose something: `squeeze` turns the values of a whole stack of clients into fewer or coarser
ones, `expand` turns those back into a tree of the old shapes. The second loses nothing and belongs to one message: `pack` turns
what was squeezed into what really travels (bits side by side, compressed bytes), `unpack` undoes it. A simulation needs
the first half alone, so that stacks stay where they are; a wire needs both, and the values are the same to the last bit.
`learn.codecs.applying` has the verbs: encode, decode, through, nbytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedfleet.core.trees import Array, Tree

Stack = Mapping[str, Any]  # torch tensors with a leading client axis
Level = Literal["select", "round", "compress"]
LEVELS: tuple[Level, ...] = ("select", "round", "compress")  # the order in which codecs can follow each other

Squeeze = Callable[[Stack, Any], Stack]  # (stack, one int64 address per client, as a tensor where the stack is)
Expand = Callable[[Stack, Tree], Stack]  # (squeezed stack, a tree like that of one client)
Through = Callable[[Stack, Any], Stack]
SqueezeTree = Callable[[Tree, int], Tree]  # (float32 leaves of one message, its address)
ExpandTree = Callable[[Tree, Tree], Tree]


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec as a value: equal names and settings are equal codecs, so that clients who use them still train together.

    `level` says what it does: "select" fewer numbers, "round" them, or "compress" bytes; in a chain levels only go up. The first
    two take float32 leaves (at least one) and leave all other leaves alone; the last takes anything. `sized`: the bytes
    follow from names, shapes and types alone. `addressed`: it uses the addresses that `squeeze` is given. `within(tree)` is its
    promise, the largest error of each element of such values, by leaf. `through`, where it is given, is expand after squeeze in
    fewer steps and with the same bits. `squeeze_tree` and `expand_tree` are squeeze and expand for one message with numpy alone, to
    the same bits: without them a message goes through PyTorch, which small devices lack. `parts` are the codecs of a chain.
    """

    name: str
    settings: tuple[tuple[str, Any], ...]
    level: Level
    within: Callable[[Tree], Tree] = field(compare=False)
    sized: bool = field(default=True, compare=False)
    addressed: bool = field(default=False, compare=False)
    squeeze: Squeeze | None = field(default=None, compare=False)
    expand: Expand | None = field(default=None, compare=False)
    pack: Callable[[Tree], Tree] | None = field(default=None, compare=False)
    unpack: Callable[[Tree, Tree], Tree] | None = field(default=None, compare=False)
    through: Through | None = field(default=None, compare=False)
    squeeze_tree: SqueezeTree | None = field(default=None, compare=False)
    expand_tree: ExpandTree | None = field(default=None, compare=False)
    parts: tuple[Codec, ...] = field(default=(), compare=False)


def is_coded(leaf: Array) -> bool:
    """Is this a leaf that codecs change? Counters, masks and other types travel as they are."""
    return leaf.dtype == np.float32


def no_error(tree: Tree) -> Tree:
    """The promise of a codec that loses nothing."""
    return {name: np.zeros(leaf.shape) for name, leaf in tree.items()}
