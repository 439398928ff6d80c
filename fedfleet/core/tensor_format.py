"""The one form in which tensors travel: safetensors, typed and checked, never code."""

from __future__ import annotations

import functools
import json
import math
import struct
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fedfleet.core.errors import Refused
from fedfleet.core.old_names import old_symbols
from fedfleet.core.trees import Array, Tree

_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 1 << 20  # bytes; a header beyond that names more leaves than any model has
_MAX_CACHED_HEADER_BYTES = 1 << 16  # bytes of a header that is kept
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4", "F32": "<f4",
    "U64": "<u8", "I64": "<i8", "F64": "<f8",
}  # fmt: skip
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}
# In this order leaves follow each other, by type and then by name: no leaf begins at an odd place for its numbers.
_PACKED = ("U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL")


def pack_tree(tree: Tree) -> bytes:
    """A tree as bytes, those that the library safetensors would write; the same tree gives the same bytes.

    >>> pack_tree({"w": np.float32(2.0)})[8:72]
    b'{"w":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   \\x00\\x00\\x00@'
    """
    leaves = sorted(((name, *_little_endian(name, leaf)) for name, leaf in tree.items()), key=lambda one: (one[1], one[0]))
    header, body, position = dict[str, Any](), list[bytes](), 0
    for name, rank, leaf in leaves:
        header[name] = {"dtype": _PACKED[rank], "shape": list(leaf.shape), "data_offsets": [position, position + leaf.nbytes]}
        body.append(leaf.tobytes())
        position += leaf.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((_LENGTH.pack(len(text)), text, *body))


def _little_endian(name: str, leaf: Array) -> tuple[int, Array]:
    """Where a leaf stands by its type, and its numbers as they are written."""
    values = np.asarray(leaf)
    kind = _NAMES.get(values.dtype.newbyteorder("<"))
    if kind is None:
        raise TypeError(f"the leaf {name!r} has the type {values.dtype}, which tensors cannot have on their way")
    return _PACKED.index(kind), values.astype(_TYPES[kind], copy=False)


def unpack_tree(data: bytes) -> Tree:
    """The inverse of `pack_tree`, leaves in the order of their names; whatever is wrong with the bytes is `Refused`.

    >>> unpack_tree(pack_tree({"w": np.float32(2.0)}))
    {'w': array(2., dtype=float32)}
    """
    return {name: leaf.copy() for name, leaf in view_tree(data).items()}


def view_tree(data: bytes | memoryview) -> Tree:
    """What `unpack_tree` gives, as views of the exact bytes: nothing is copied, and nothing may be changed.

    >>> view_tree(pack_tree({"w": np.float32(2.0)}))
    {'w': array(2., dtype=float32)}
    """
    return view_tree_and_array(data)[0]


def view_tree_and_array(data: bytes | memoryview) -> tuple[Tree, Array | None]:
    """The same, and all leaves end to end as one array; None unless they are of one type and lie in the order of their names.

    >>> view_tree_and_array(pack_tree({"w": np.ones(2), "b": np.zeros(1)}))[1]
    array([0., 1., 1.])
    """
    view = memoryview(data)
    if len(view) < _LENGTH.size:
        raise Refused("its tensors are not in safetensors form (too short)")
    (length,) = _LENGTH.unpack(view[: _LENGTH.size])
    body = _LENGTH.size + length
    if length > min(_MAX_HEADER_BYTES, len(view) - _LENGTH.size):
        raise Refused("its tensors are not in safetensors form (the header is longer than what came)")
    layout = _cached_layout if length <= _MAX_CACHED_HEADER_BYTES else _layout
    places, kind = layout(bytes(view[_LENGTH.size : body]), len(view) - body)
    tree: Tree = {}
    for n, dtype, shape, a, b in places:
        tree[n] = np.frombuffer(view[body + a : body + b], dtype).reshape(shape) if b > a else np.zeros(shape, dtype)
    return tree, None if kind is None else np.frombuffer(view[body:], kind)


_LeafLayout = tuple[str, np.dtype[Any], tuple[int, ...], int, int]


def _layout(header: bytes, body_bytes: int) -> tuple[tuple[_LeafLayout, ...], np.dtype[Any] | None]:
    """Name, type, shape, begin and end of every leaf, by name, as a header has them; `body_bytes` is what lies behind it.

    And the type of all, if they have one and lie in the order of their names.
    """
    try:
        result: Any = json.loads(str(header, "utf-8"))  # as text: bytes would be guessed to be UTF-16 or -32
    except (ValueError, RecursionError) as error:
        raise Refused(f"its tensors are not in safetensors form ({type(error).__name__} in the header)") from None
    if not isinstance(result, dict):
        raise Refused("its tensors are not in safetensors form (the header is no object)")
    entries = cast(dict[str, Any], result)
    entries.pop("__metadata__", None)
    places = {name: _leaf_layout(name, entry, body_bytes) for name, entry in entries.items()}
    position = 0
    for kind, shape, start, end in sorted(places.values(), key=lambda p: (p[2], p[3])):
        if start != position or end - start != kind.itemsize * math.prod(shape):
            raise Refused("its tensors are not in safetensors form (they overlap, leave gaps, or are not of their size)")
        position = end
    if position != body_bytes:
        raise Refused("its tensors are not in safetensors form (there is more than they take)")
    result = tuple((name, *place) for name, place in sorted(places.items()))
    kinds, starts = {place[1] for place in result}, [place[3] for place in result]
    return result, kinds.pop() if len(kinds) == 1 and body_bytes and starts == sorted(starts) else None


# All reports of a fleet have the same header, and reading it takes longer than anything else about a small one.
_cached_layout = functools.lru_cache(maxsize=16)(_layout)


def _leaf_layout(name: str, entry: Any, body_bytes: int) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    try:
        name.encode()  # half of a pair of surrogates is no name
        kind, shape, (start, end) = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, start, end)) and max(start, end) <= body_bytes
    except (KeyError, ValueError, TypeError) as error:
        raise Refused(f"its tensors have a type or shape that cannot be read ({type(error).__name__} in {name[:80]!r})") from None
    # Of an empty leaf the other dimensions say nothing, and yet numpy multiplies them.
    if not whole or start > end or len(shape) > 32 or math.prod(n or 1 for n in shape) > 2**40:
        raise Refused(f"its tensors have a type or shape that cannot be read (leaf {name[:80]!r})")
    return kind, shape, start, end


if not TYPE_CHECKING:
    __getattr__ = old_symbols(__name__, packed="pack_tree", unpacked="unpack_tree", viewed="view_tree")
