"""Names of models by their content, found when they are first needed."""

from __future__ import annotations

from fedfleet.core.trees import Tree, content_hash, tree_nbytes

# Hashing runs at about a gigabyte a second: below this, waiting for another thread would take longer.
_EAGER_HASH_BYTES = 1 << 16


class ModelName:
    """The content hash of a model that is computed on first use; compares, hashes and prints as the string.

    Whoever holds one can let another thread find it out (`str(name)`): SHA-256 lets other threads run meanwhile, and two
    that ask at once compute the same.
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
