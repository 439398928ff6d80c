"""FedScale's two trace files, as the original pickles or as JSON: what devices can do, and when they are there.

Capacity: id -> {computation: inference milliseconds per sample, communication: kbit/s in both directions}; in JSON the
keys may also be computation_ms_per_sample and communication_kbps. Behaviour: id -> {duration, inactive, finish_time,
active, model}: session i lasts from active[i] to before inactive[i] in seconds, and the whole repeats with period
finish_time. FedScale calls a device available when it charges, a looser rule than FLASH's.
"""

from __future__ import annotations

import reprlib
from pathlib import Path
from typing import Any

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable, device_table
from fedfleet.world.bases.file_checks import join_spans, numbers, read_json, state_table
from fedfleet.world.bases.safe_pickle import read_pickle

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
    ids, periods, spans = [], [], []
    for key, row in rows.items():
        where = f"{file}: state {key}"
        period = _check_numbers([row.get("finish_time")], f"{where}: finish_time", positive=True)[0]
        sessions = _sessions(row, period, where)
        if sessions:
            ids.append(str(key))
            periods.append(period)
            spans.append(sessions)
    if not ids:
        raise BadInput(f"{file}: none of its {len(rows)} devices is ever active")
    return state_table(ids, [0.0] * len(ids), periods, spans), len(rows) - len(ids)


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
