"""Codecs one after the other: what is sent goes through them in order, what arrives in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fedfleet.core.codec import LEVELS, Codec, Stack
from fedfleet.core.errors import BadInput
from fedfleet.core.trees import Tree
from fedfleet.learn.codecs.messages import layout


def chain(codecs: Sequence[Codec] | Codec, where: str = "codecs") -> Codec | None:
    """These codecs as one, or this one; None if there is none.

    Numbers are selected, then rounded, then bytes compressed, each at most once.

    >>> from fedfleet.learn.codecs.lossless import gzip
    >>> from fedfleet.learn.codecs.quantisation import int8
    >>> chain([int8(), gzip()]).name
    'int8+gzip'
    >>> chain([gzip(), int8()], "up")
    Traceback (most recent call last):
    ..
    fedfleet.BadInput: up: 'gzip' cannot come before 'int8', which needs numbers but would get bytes; swap the two
    """
    codecs = [codecs] if isinstance(codecs, Codec) else codecs
    _check_order(codecs, where)
    if len(codecs) <= 1:
        return codecs[0] if codecs else None
    lossy = tuple(c for c in codecs if c.squeeze is not None)
    packing = tuple(c for c in codecs if c.pack is not None)
    single = lossy[0] if len(lossy) == 1 else None
    plain = bool(lossy) and all(c.squeeze_tree is not None and c.expand_tree is not None for c in lossy)

    def squeeze(stack: Stack, where: Any) -> Stack:
        """Squeeze the numbers; what an earlier codec says in integers passes by."""
        for codec in lossy:
            assert codec.squeeze is not None
            numbers = {n: v for n, v in stack.items() if v.is_floating_point()}
            stack = {n: v for n, v in stack.items() if n not in numbers} | dict(codec.squeeze(numbers, where))
        return stack

    def expand(stack: Stack, like: Tree) -> Stack:
        targets = [like]
        for codec in lossy[:-1]:
            targets.append(layout(codec, targets[-1]))
        for codec, target in zip(lossy[::-1], targets[::-1], strict=True):
            assert codec.expand is not None
            numbers = {n: v for n, v in target.items() if v.dtype == np.float32}
            unchanged = [n for n in target if n not in numbers]
            result = codec.expand({n: v for n, v in stack.items() if n not in unchanged}, numbers)
            stack = {n: stack[n] for n in unchanged} | dict(result)
        return stack

    def squeeze_tree(tree: Tree, address: int) -> Tree:
        for codec in lossy:
            assert codec.squeeze_tree is not None
            numbers = {n: v for n, v in tree.items() if v.dtype.kind == "f"}
            tree = {n: v for n, v in tree.items() if n not in numbers} | codec.squeeze_tree(numbers, address)
        return tree

    def expand_tree(tree: Tree, like: Tree) -> Tree:
        targets = [like]
        for codec in lossy[:-1]:
            targets.append(layout(codec, targets[-1]))
        for codec, target in zip(lossy[::-1], targets[::-1], strict=True):
            assert codec.expand_tree is not None
            numbers = {n: v for n, v in target.items() if v.dtype == np.float32}
            unchanged = [n for n in target if n not in numbers]
            result = codec.expand_tree({n: v for n, v in tree.items() if n not in unchanged}, numbers)
            tree = {n: tree[n] for n in unchanged} | result
        return tree

    def pack(tree: Tree) -> Tree:
        for codec in packing:
            assert codec.pack is not None
            tree = codec.pack(tree)
        return tree

    def unpack(tree: Tree, like: Tree) -> Tree:
        for codec in packing[::-1]:  # packing only shortens, so that what was squeezed bounds every step
            assert codec.unpack is not None
            tree = codec.unpack(tree, like)
        return tree

    def no_bounds(tree: Tree) -> Tree:
        """Two losses together: each is bounded for what it is given, and that is all that can be said."""
        return {n: np.full(v.shape, np.inf) for n, v in tree.items()}

    return Codec(
        name="+".join(c.name for c in codecs),
        settings=tuple((c.name, c.settings) for c in codecs),
        level=codecs[-1].level,
        within=(single or codecs[0]).within if len(lossy) <= 1 else no_bounds,
        sized=all(c.sized for c in codecs),
        addressed=any(c.addressed for c in codecs),
        squeeze=squeeze if lossy else None,
        expand=expand if lossy else None,
        pack=pack if packing else None,
        unpack=unpack if packing else None,
        through=None if single is None else single.through,
        squeeze_tree=squeeze_tree if plain else None,
        expand_tree=expand_tree if plain else None,
        parts=tuple(codecs),
    )


def _check_order(codecs: Sequence[Codec], where: str) -> None:
    for first, second in pairwise(codecs):
        before, after = LEVELS.index(first.level), LEVELS.index(second.level)
        if before == after:
            reasons = {"select": "both select numbers", "round": "both round numbers", "compress": "both compress bytes"}
            raise BadInput(
                f"{where}: {first.name!r} and {second.name!r} cannot follow each other: {reasons[second.level]}; leave one out"
            )
        if before > after:
            kind = "bytes" if first.level == "compress" else "rounded ones"
            raise BadInput(
                f"{where}: {first.name!r} cannot come before {second.name!r}, which needs numbers but would get {kind}; swap the "
                "two"
            )
        if second.squeeze is not None and not first.sized:
            raise BadInput(
                f"{where}: {second.name!r} cannot follow {first.name!r}, whose size depends on the values; give {first.name} a "
                "fixed size, or let only gzip, deflate or zstd follow"
            )
