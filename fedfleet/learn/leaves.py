"""The few operations of hooks that arrays and tensors spell differently. A hook that uses these works in every executor."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_floating(leaf: Any) -> bool:
    """Does it hold numbers with decimals?

    >>> is_floating(np.ones(2)), is_floating(np.arange(2))
    (True, False)
    """
    return leaf.dtype.kind == "f" if isinstance(leaf, np.ndarray) else leaf.is_floating_point()


def like(values: Any, leaf: Any) -> Any:
    """These numbers in the library, the type and the place of a leaf."""
    if isinstance(leaf, np.ndarray):
        return np.asarray(values, leaf.dtype)
    return leaf.new_tensor(values) if isinstance(values, np.ndarray | float | list) else values.to(leaf.dtype)


def column(values: Any, leaf: Any) -> Any:
    """One number for each client, in a shape that broadcasts against a stack.

    >>> column([1.0, 2.0], np.zeros((2, 3, 4))).shape
    (2, 1, 1)
    """
    return like(values, leaf).reshape(-1, *(1,) * (leaf.ndim - 1))


def copy_of(leaf: Any) -> Any:
    """A copy that may be changed."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf.clone()


def doubles(leaf: Any) -> Any:
    """The numbers in double precision, as a copy."""
    return leaf.astype(np.float64) if isinstance(leaf, np.ndarray) else leaf.double()


def share_kept(longest: float, squared_norms: Any) -> Any:
    """What each client's update is multiplied by so that it is no longer than this, from the squares of their norms.

    >>> share_kept(1.0, np.array([0.0, 0.25, 4.0])).tolist()
    [1.0, 1.0, 0.5]
    """
    if isinstance(squared_norms, np.ndarray):
        with np.errstate(divide="ignore"):
            return np.minimum(longest / np.sqrt(squared_norms), 1.0)
    return (longest / squared_norms.sqrt()).clamp(max=1.0)


def join(leaves: list[Any]) -> Any:
    """Stacks [clients, numbers] side by side."""
    if isinstance(leaves[0], np.ndarray):
        return np.concatenate(leaves, axis=1)
    import torch  # late: a device without PyTorch has arrays alone

    return torch.cat(leaves, 1)
