"""FedScale's two trace files, as the original pickles or as JSON: what devices can do, and when they are there.

Capacity: id -> {computation: inference milliseconds per sample, communication: kbit/s in both directions}; in JSON the
keys may also be computation_ms_per_sample and communication_kbps. Behaviour: id -> {duration, inactive, finish_time,
active, model}: session i lasts from active[i] to before inactive[i] in seconds, and the whole repeats with period
finish_time. FedScale calls a device available when it charges, a looser rule than FLASH's.
"""

from __future__ import annotations

import io
import os
import pickle
import reprlib
import struct
from pathlib import Path
from typing import Any, NoReturn

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.fleet import DeviceTable, StateTable, device_table
from fedfleet.world.bases.file_checks import StateRow, join_spans, numbers, read_json, state_table

CAPACITY, BEHAVIOUR = "client_device_capacity", "client_behave_trace"


def devices(path: str) -> DeviceTable:
    """A capacity file, or the folder of one: one speed a device, which serves both directions as in FedScale."""
    file, rows = _rows(path, CAPACITY)
    speeds, seconds = [], []
    for key, row in rows.items():
        where = f"{file}: device {key}"
        milliseconds = _get_either(row, "computation", "computation_ms_per_sample", where)
        seconds.append(_check_numbers([milliseconds], f"{where}: computation")[0] / 1000.0)
        kbps = _get_either(row, "communication", "communication_kbps", where)
        speeds.append(_check_numbers([kbps], f"{where}: communication", positive=True))
    return device_table([str(key) for key in rows], speeds, seconds)


def states(path: str) -> StateTable:
    """A behaviour file, or the folder of one; devices that are never active are left out."""
    return states_and_left_out(path)[0]


def states_and_left_out(path: str) -> tuple[StateTable, int]:
    """The states, and how many devices were left out because all their sessions are empty."""
    file, rows = _rows(path, BEHAVIOUR)
    states: list[StateRow] = []
    for key, row in rows.items():
        where = f"{file}: state {key}"
        period = _check_numbers([row.get("finish_time")], f"{where}: finish_time", positive=True)[0]
        sessions = _sessions(row, period, where)
        if sessions:
            states.append((str(key), 0.0, period, sessions))
    if not states:
        raise BadInput(f"{file}: none of its {len(rows)} devices is ever active")
    return state_table(states), len(rows) - len(states)


def _sessions(row: dict[str, Any], period: float, where: str) -> list[tuple[float, float]]:
    """Half-open sessions; FedScale's clock never gets beyond the period, so what lies there is cut away."""
    begins = _check_numbers(row.get("active"), f"{where}: active")
    ends = _check_numbers(row.get("inactive"), f"{where}: inactive")
    if len(begins) != len(ends):
        raise BadInput(f"{where}: {len(begins)} times in active, but {len(ends)} in inactive")
    for j, (low, high) in enumerate(zip(begins, ends, strict=True)):
        if high < low:
            raise BadInput(f"{where}: session {j} becomes inactive at {high:g}, before it is active at {low:g}")
    return join_spans([(low, min(high, period)) for low, high in zip(begins, ends, strict=True)])


def _rows(path: str, name: str) -> tuple[str, dict[Any, dict[str, Any]]]:
    """The file that was read, and its table."""
    file = str(Path(path) / name) if Path(path).is_dir() else path
    loaded = read_json(file) if _is_json(file) else read_pickle(file)
    if not isinstance(loaded, dict) or not loaded:
        raise BadInput(f"{file}: a table of id -> record is expected, as in FedScale's {name}")
    for key, row in loaded.items():
        if not isinstance(key, int | str) or not isinstance(row, dict):
            raise BadInput(f"{file}: the record of {reprlib.repr(key)} is {reprlib.repr(row)}, not a table")
    return file, loaded


def _is_json(file: str) -> bool:
    """By its first sign, since the original files have no ending; no pickle of a table begins with a brace that opens."""
    try:
        with Path(file).open("rb") as opened:
            return opened.read(64).lstrip()[:1] in (b"{", b"[")
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None


def _get_either(row: dict[str, Any], name: str, with_unit: str, where: str) -> Any:
    result = row.get(name, row.get(with_unit))
    if result is None:
        raise BadInput(f"{where} has no {name}; devices come from {CAPACITY}, states from {BEHAVIOUR}")
    return result


def _check_numbers(values: Any, where: str, *, positive: bool = False) -> list[float]:
    """Numbers; what is shown of anything else is kept short, because a pickle can nest without end."""
    if not isinstance(values, list) or not values or any(type(v) not in (int, float) for v in values):
        raise BadInput(f"{where} must be at least one number, not {reprlib.repr(values)}")
    return numbers(values, where, positive=positive)


# ---- pickles of plain data, read without running anything that they name ------------------------------------------

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
    """The plain data in a pickle file; what else it names is refused by name, and numpy's scalars become plain numbers."""
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
        raise BadInput(f"there is no file {path}{nearest_file(path)}") from None
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
