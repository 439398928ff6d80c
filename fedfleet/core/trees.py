"""Trees: flat dictionaries of numpy arrays, by name. Only the algorithm knows what the names mean."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Tree = dict[str, Array]


def tree_map(function: Callable[..., Array], *trees: Tree) -> Tree:
    """`function` applied leaf by leaf; the first tree gives the names."""
    return {name: function(*(tree[name] for tree in trees)) for name in trees[0]}


def difference(after: Tree, before: Tree) -> Tree:
    """after - before for floating leaves; integer leaves (counters of a model) travel as they are."""
    return {n: a - before[n] if np.issubdtype(a.dtype, np.floating) else a for n, a in after.items()}


def tree_nbytes(tree: Mapping[str, Array]) -> int:
    """Bytes of all leaves."""
    return sum(leaf.nbytes for leaf in tree.values())


def mismatch(tree: Mapping[str, Array], like: Mapping[str, Array]) -> str | None:
    """Why `tree` has not the names, shapes and types of `like`; None if it has."""
    if tree.keys() != like.keys():
        odd = sorted(tree.keys() ^ like.keys())[0]
        return f"leaf {odd!r} is {'unknown' if odd in tree else 'missing'}"
    for name, leaf in tree.items():
        if leaf.shape != like[name].shape:
            return f"leaf {name!r} has shape {leaf.shape}, not {like[name].shape}"
        if leaf.dtype != like[name].dtype:
            return f"leaf {name!r} is {leaf.dtype}, not {like[name].dtype}"
    return None


def content_hash(tree: Mapping[str, Array]) -> str:
    """SHA-256 over names, types, shapes and bytes, in the order of the names: the same tree, the same name."""
    h = hashlib.sha256()
    for name in sorted(tree):
        leaf = np.ascontiguousarray(tree[name])
        # The shape of the leaf itself: a scalar becomes a vector of one when it is made contiguous.
        h.update(f"{name}|{leaf.dtype.str}|{tree[name].shape}|".encode())
        h.update(leaf.data if leaf.size else b"")
    return h.hexdigest()
