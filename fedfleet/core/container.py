"""The one form in which tensors travel: safetensors, typed and checked, never code."""

from __future__ import annotations

import functools
import json
import math
import struct
from typing import Any, cast

import numpy as np

from fedfleet.core.errors import Refused
from fedfleet.core.trees import Array, Tree

_LENGTH = struct.Struct("<Q")
_MOST_HEADER = 1 << 20  # bytes; a header beyond that names more leaves than any model has
_MOST_KNOWN = 1 << 16  # bytes of a header that is kept
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4", "F32": "<f4",
    "U64": "<u8", "I64": "<i8", "F64": "<f8",
}  # fmt: skip


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


def viewed(data: bytes | memoryview) -> Tree:
    """What `unpacked` gives, as views of the very bytes: nothing is copied, and nothing may be changed.

    >>> viewed(packed({"w": np.float32(2.0)}))
    {'w': array(2., dtype=float32)}
    """
    return viewed_whole(data)[0]


def viewed_whole(data: bytes | memoryview) -> tuple[Tree, Array | None]:
    """The same, and all leaves end to end as one array; None unless they are of one type and lie in the order of their names.

    >>> viewed_whole(packed({"w": np.ones(2), "b": np.zeros(1)}))[1]
    array([0., 1., 1.])
    """
    view = memoryview(data)
    if len(view) < _LENGTH.size:
        raise Refused("its tensors are not in safetensors form (too short)")
    (length,) = _LENGTH.unpack(view[: _LENGTH.size])
    body = _LENGTH.size + length
    if length > min(_MOST_HEADER, len(view) - _LENGTH.size):
        raise Refused("its tensors are not in safetensors form (the header is longer than what came)")
    layout = _known_layout if length <= _MOST_KNOWN else _layout
    places, kind = layout(bytes(view[_LENGTH.size : body]), len(view) - body)
    tree = {n: _leaf(view[body + a : body + b], kind, shape) for n, kind, shape, a, b in places}
    return tree, None if kind is None else np.frombuffer(view[body:], kind)


_Place = tuple[str, np.dtype[Any], tuple[int, ...], int, int]


def _layout(header: bytes, room: int) -> tuple[tuple[_Place, ...], np.dtype[Any] | None]:
    """Name, type, shape, begin and end of every leaf, by name, as a header has them; `room` is what lies behind it.

    And the type of all, if they have one and lie in the order of their names.
    """
    try:
        found: Any = json.loads(str(header, "utf-8"))  # as text: bytes would be guessed to be UTF-16 or -32
    except (ValueError, RecursionError) as wrong:
        raise Refused(f"its tensors are not in safetensors form ({type(wrong).__name__} in the header)") from None
    if not isinstance(found, dict):
        raise Refused("its tensors are not in safetensors form (the header is no object)")
    said = cast(dict[str, Any], found)
    said.pop("__metadata__", None)
    places = {name: _place(name, entry, room) for name, entry in said.items()}
    at = 0
    for kind, shape, start, end in sorted(places.values(), key=lambda p: (p[2], p[3])):
        if start != at or end - start != kind.itemsize * math.prod(shape):
            raise Refused(
                "its tensors are not in safetensors form (they overlap, leave gaps, or are not of their size)"
            )
        at = end
    if at != room:
        raise Refused("its tensors are not in safetensors form (there is more than they take)")
    found = tuple((name, *place) for name, place in sorted(places.items()))
    kinds, starts = {place[1] for place in found}, [place[3] for place in found]
    return found, kinds.pop() if len(kinds) == 1 and room and starts == sorted(starts) else None


# All reports of a fleet have the same header, and reading it takes longer than anything else about a small one.
_known_layout = functools.lru_cache(maxsize=16)(_layout)


def _place(name: str, entry: Any, room: int) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    try:
        name.encode()  # half of a pair of surrogates is no name
        kind, shape, (start, end) = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, start, end)) and max(start, end) <= room
    except (KeyError, ValueError, TypeError) as wrong:
        raise Refused(
            f"its tensors have a type or shape that cannot be read ({type(wrong).__name__} in {name[:80]!r})"
        ) from None
    # Of an empty leaf the other dimensions say nothing, and yet numpy multiplies them.
    if not whole or start > end or len(shape) > 32 or math.prod(n or 1 for n in shape) > 2**40:
        raise Refused(f"its tensors have a type or shape that cannot be read (leaf {name[:80]!r})")
    return kind, shape, start, end


def _leaf(data: memoryview, kind: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    return np.frombuffer(data, kind).reshape(shape) if len(data) else np.zeros(shape, kind)
