"""The one form in which tensors travel: safetensors, typed and checked, never code."""

from __future__ import annotations

import numpy as np

from fedfleet.core.errors import Refused
from fedfleet.core.trees import Tree


def packed(tree: Tree) -> bytes:
    """A tree as bytes; the same tree gives the same bytes."""
    from safetensors.numpy import save

    # Safetensors reads raw memory, so leaves must be contiguous; asarray, unlike ascontiguousarray, leaves scalars be.
    return save({name: np.asarray(leaf, order="C") for name, leaf in tree.items()})


def unpacked(data: bytes) -> Tree:
    """The inverse of `packed`, leaves in the order of their names; whatever is wrong with the bytes is `Refused`.

    >>> unpacked(packed({"w": np.float32(2.0)}))
    {'w': array(2., dtype=float32)}
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = load(data)
    except SafetensorError as wrong:
        raise Refused(f"its tensors are not in safetensors form ({wrong})") from None
    except (KeyError, ValueError, TypeError) as wrong:  # a type that numpy does not know, a shape that does not fit
        raise Refused(f"its tensors have a type or shape that cannot be read ({wrong})") from None
    return {name: found[name] for name in sorted(found)}  # safetensors names them in no fixed order
