"""Trees: flat dictionaries of numpy arrays, by name; their difference, their content hash, and the name of a model."""

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


# Hashing runs at about a gigabyte a second: below this, waiting for another thread would take longer.
_EAGER_HASH_BYTES = 1 << 16


class ModelName:
    """The content hash of a model that is computed on first use; compares, hashes and prints as the string.

    Whoever holds one can let another thread find it out (`str(name)`): SHA-256 lets other threads run meanwhile, and two that ask
    at once compute the same.
    """

    __slots__ = ("_name", "_tree")

    def __init__(self, tree: Tree) -> None:
        self._tree: Tree | None = tree
        self._name = ""

    @property
    def is_computed(self) -> bool:
        """Whether asking costs nothing any more."""
        return self._tree is None

    def __str__(self) -> str:
        tree = self._tree
        if tree is not None:
            self._name = content_hash(tree)  # before the tree is let go: no other thread may see neither
            self._tree = None
        return self._name

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, str | ModelName) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))


def model_name(tree: Tree) -> str | ModelName:
    """The name of a model: at once for a small one, on first use for a large one. The tree must not change any more."""
    return content_hash(tree) if tree_nbytes(tree) <= _EAGER_HASH_BYTES else ModelName(tree)
