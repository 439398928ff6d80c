"""Pickles of plain data, read without running anything that they name."""

from __future__ import annotations

import io
import os
import pickle
import struct
from pathlib import Path
from typing import Any, NoReturn

from fedfleet.core.errors import BadInput

# Three times FedScale's largest file; an empty list costs one byte in a pickle and 64 in memory, hence a limit at all.
LARGEST_BYTES = 128 * 2**20

_PLAIN_OPCODES = (
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.POP_MARK,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.INT, pickle.LONG, pickle.LONG1, pickle.LONG4,
    pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.FLOAT, pickle.BINFLOAT,
    pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.UNICODE, pickle.BINUNICODE,
    pickle.SHORT_BINUNICODE, pickle.BINUNICODE8, pickle.BINBYTES, pickle.SHORT_BINBYTES, pickle.BINBYTES8,
    pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3,
    pickle.EMPTY_LIST, pickle.LIST, pickle.APPEND, pickle.APPENDS,
    pickle.EMPTY_DICT, pickle.DICT, pickle.SETITEM, pickle.SETITEMS,
    pickle.EMPTY_SET, pickle.FROZENSET, pickle.ADDITEMS,
    pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.GET, pickle.BINGET, pickle.LONG_BINGET,
    pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.INST, pickle.REDUCE,  # all of them end in `find_class` below
)  # fmt: skip

# numpy's names of plain numbers -> struct's
_NUMBERS = dict(zip(("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"), "?bhiqBHIQfd", strict=True))
_ORDERS = {"<": "<", ">": ">", "|": "<"}


def read_pickle(path: str, largest_bytes: int = LARGEST_BYTES) -> Any:
    """The containers, numbers, strings and bytes in a pickle file; every other thing that it names is refused by name.

    Numpy's scalars become plain numbers without numpy's own unpickling: FedScale's capacity file consists of them.
    """
    stream = io.BytesIO(_content(path, largest_bytes))
    try:
        value = _PlainReader(stream, path).load()
    except BadInput:
        raise
    except Exception as error:  # garbage trips an unpickler in a dozen ways, all of which mean the same
        raise BadInput(f"{path} cannot be read as a pickle of plain data: {error or 'it ends too early'}") from None
    if stream.read(1):
        raise BadInput(f"{path} cannot be read as a pickle of plain data: something follows its end")
    return value


def _content(path: str, largest_bytes: int) -> bytes:
    try:
        with Path(path).open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            if length > largest_bytes:
                raise BadInput(f"{path} has {length:,} bytes; at most {largest_bytes:,} are read as a pickle")
            return file.read(length)
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


class _NumberType:
    """Stands in for a numpy dtype: one kind of plain number, in one byte order."""

    __slots__ = ("code",)

    def __init__(self, name: Any, *_: Any) -> None:
        if not isinstance(name, str) or name not in _NUMBERS:
            raise pickle.UnpicklingError(f"numpy's type {name!r} is not a plain number")
        self.code = "<" + _NUMBERS[name]

    def take_order(self, state: Any) -> None:
        """Numpy tells the byte order apart from the type."""
        order = state[1] if isinstance(state, tuple) and len(state) > 1 else None
        if not isinstance(order, str) or order not in _ORDERS:
            raise pickle.UnpicklingError(f"numpy's byte order {order!r} is not known")
        self.code = _ORDERS[order] + self.code[1:]


def _number(kind: Any, raw: Any) -> Any:
    """Stands in for numpy's scalar: the number itself."""
    if not isinstance(kind, _NumberType) or not isinstance(raw, bytes):
        raise pickle.UnpicklingError("a numpy number needs a type and its bytes")
    return struct.unpack(kind.code, raw)[0]


_STANDINS = {
    ("numpy", "dtype"): _NumberType,
    ("numpy.core.multiarray", "scalar"): _number,
    ("numpy._core.multiarray", "scalar"): _number,  # since numpy 2
}


class _Opcodes(dict[int, Any]):
    """What the reader can do; an opcode that is not here is refused."""

    def __missing__(self, opcode: int) -> NoReturn:
        raise pickle.UnpicklingError(f"the opcode {bytes([opcode])!r} does not belong to plain data")


def _build(reader: _PlainReader) -> None:
    """Complete an object: only a number type has anything to complete."""
    state = reader.stack.pop()
    if not isinstance(reader.stack[-1], _NumberType):
        raise pickle.UnpicklingError("the opcode b'b' completes something that is not plain data")
    reader.stack[-1].take_order(state)


# The unpickler in Python, not the one in C: that one can be made to fill half a gigabyte of memo by nine bytes, this one
# keeps its memo in a dict, and its opcodes can be cut down to the plain ones.
class _PlainReader(pickle._Unpickler):
    """An unpickler whose only callables are the stand-ins above."""

    dispatch = _Opcodes({code[0]: pickle._Unpickler.dispatch[code[0]] for code in _PLAIN_OPCODES})
    dispatch[pickle.BUILD[0]] = _build
    stack: list[Any]

    def __init__(self, stream: io.BytesIO, path: str) -> None:
        super().__init__(stream)
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        """Stand-ins for numpy's numbers; nothing is ever imported."""
        if (module, name) not in _STANDINS:
            raise BadInput(f"{self.path}: this pickle asks for {module}.{name}, not plain data; refused, nothing was run")
        return _STANDINS[module, name]
