"""The canonical files as .csv, for spreadsheets: one line for each measured speed or ready interval; refused by line and column.

Lines of the same id are one device or state. Where several clients have the same one, a column `client` keeps them apart. What a
device or state has only once (seconds_per_sample, start, ..) stands in its first line, and further lines may leave it out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedfleet.core.csv_cells import guard_cell, unguard_cell
from fedfleet.core.errors import BadInput, nearest_file, suggest_name
from fedfleet.world.bases.file_checks import SLACK, numbers

_LINK = ("down_kbps", "up_kbps")
_ONCE = ("seconds_per_sample", "seconds_per_batch", "latency_ms_low", "latency_ms_high", "cores", "memory_mb")
_POSITIVE = (*_LINK, "cores", "memory_mb")
DEVICE_COLUMNS = ("id", *_LINK, *_ONCE)
STATE_COLUMNS = ("id", "start", "end", "ready_from", "ready_to")
_NEEDED = {"devices": ("id", "down_kbps", "seconds_per_sample"), "states": STATE_COLUMNS}
_COLUMNS = {"devices": ("client", *DEVICE_COLUMNS), "states": ("client", *STATE_COLUMNS)}

Line = dict[str, Any]  # numbers by column, without what is blank; `line` and `id` beside them


def is_sheet(path: str) -> bool:
    """Is this a .csv file, by its ending?"""
    return path.lower().endswith(".csv")


def device_rows(path: str) -> list[dict[str, Any]]:
    """The devices of a sheet as the rows of a canonical JSON file."""
    return [_device(path, lines) for lines in _group_lines(path, "devices")]


def _device(path: str, lines: list[Line]) -> dict[str, Any]:
    once = {name: _single_value(path, lines, name) for name in _ONCE}
    if once["seconds_per_sample"] is None:
        raise BadInput(_cell_error(path, lines[0], "seconds_per_sample", "is empty; give the seconds of inference per sample"))
    down, up = ([line[name] for line in lines if name in line] for name in _LINK)
    if not down:
        raise BadInput(_cell_error(path, lines[0], "down_kbps", "is empty; give at least one download speed in kbit/s"))
    low, high = once.pop("latency_ms_low"), once.pop("latency_ms_high")
    if low is None and high is None:
        return {"id": lines[0]["id"], "down_kbps": down, "up_kbps": up or None, **once}
    if low is None or high is None:
        name = "latency_ms_low" if low is None else "latency_ms_high"
        raise BadInput(_cell_error(path, lines[0], name, "is empty and the other end is not; give both, or neither"))
    if low > high:
        raise BadInput(
            _cell_error(path, lines[0], "latency_ms_low", f"{low:g} lies above latency_ms_high {high:g}; swap the two values")
        )
    return {"id": lines[0]["id"], "down_kbps": down, "up_kbps": up or None, "latency_ms": [low, high], **once}


def state_rows(path: str) -> list[dict[str, Any]]:
    """The states of a sheet as the rows of a canonical JSON file."""
    return [_state(path, lines) for lines in _group_lines(path, "states")]


def _state(path: str, lines: list[Line]) -> dict[str, Any]:
    start, end = _single_value(path, lines, "start"), _single_value(path, lines, "end")
    if start is None or end is None:
        name = "start" if start is None else "end"
        raise BadInput(_cell_error(path, lines[0], name, "is empty; give the seconds between which the trace lies"))
    if end <= start:
        raise BadInput(_cell_error(path, lines[0], "end", f"{end:g} is not after start {start:g}; correct one of them"))
    for line in lines:
        for name in ("ready_from", "ready_to"):
            if name not in line:
                why = "is empty; a line of a state is one interval in which it can be reached"
                raise BadInput(_cell_error(path, line, name, why))
        low, high = line["ready_from"], line["ready_to"]
        if high < low:
            raise BadInput(_cell_error(path, line, "ready_to", f"{high:g} lies before ready_from {low:g}; swap the two values"))
        if low < start or low >= end:
            why = f"{low:g} lies outside start {start:g} to end {end:g}; move it inside"
            raise BadInput(_cell_error(path, line, "ready_from", why))
        if high > end:
            raise BadInput(_cell_error(path, line, "ready_to", f"{high:g} lies after end {end:g}; cut it there"))
    for a, b in pairwise(sorted(lines, key=lambda line: line["ready_from"])):
        if b["ready_from"] < a["ready_to"] + 1 - SLACK:
            message = (
                f"{b['ready_from']:g} lies in the interval of line {a['line']}, which covers its ready_to + 1; part or join them"
            )
            raise BadInput(_cell_error(path, b, "ready_from", message))
    ready = [[line["ready_from"], line["ready_to"]] for line in lines]
    return {"id": lines[0]["id"], "start": start, "end": end, "ready": ready}


def write_device_sheet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write devices, which come as rows of a canonical JSON file."""

    def lines(row: dict[str, Any]) -> Iterable[Line]:
        down, up = row["down_kbps"], row["up_kbps"] or []
        low, high = row.get("latency_ms") or (None, None)
        once = {**{n: row.get(n) for n in _ONCE}, "latency_ms_low": low, "latency_ms_high": high}
        for j in range(max(len(down), len(up))):
            speeds = {n: values[j] if j < len(values) else None for n, values in zip(_LINK, (down, up), strict=True)}
            yield {"id": row["id"], **speeds, **(once if j == 0 else {})}

    _write(path, DEVICE_COLUMNS, [list(lines(row)) for row in rows], _NEEDED["devices"])


def write_state_sheet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write states, which come as rows of a canonical JSON file."""
    clients = [
        [{"id": r["id"], "start": r["start"], "end": r["end"], "ready_from": a, "ready_to": b} for a, b in r["ready"]] for r in rows
    ]
    _write(path, STATE_COLUMNS, clients, STATE_COLUMNS)


def _write(path: Path, columns: Sequence[str], clients: list[list[Line]], always: Sequence[str]) -> None:
    """One line after the other; columns that nobody fills are left out, and clients are numbered where names repeat."""
    used = [c for c in columns if c in always or any(line.get(c) is not None for lines in clients for line in lines)]
    repeats = len({lines[0]["id"] for lines in clients}) < len(clients)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*(["client"] if repeats else []), *used])
        for client, lines in enumerate(clients):
            for line in lines:
                cells = ["" if line.get(c) is None else _cell(line[c]) for c in used]
                out.writerow([*([client] if repeats else []), *cells])


def _cell(value: Any) -> str:
    """A number without a needless `.0`, else to the last digit; a name so that no spreadsheet takes it for a formula."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(guard_cell(value))


def _group_lines(path: str, what: str) -> list[list[Line]]:
    """The lines of each client, in the order in which clients first appear."""
    groups: dict[str, list[Line]] = {}
    for line in _lines(path, what):
        lines = groups.setdefault(line["client"], [])
        if lines and lines[0]["id"] != line["id"]:
            message = f"{line['id']!r} is not the id {lines[0]['id']!r} of the same client in line {lines[0]['line']}; give one"
            raise BadInput(_cell_error(path, line, "id", message))
        lines.append(line)
    if not groups:
        raise BadInput(f"{path} has a line of column names and no rows below it; give at least one of {what}")
    return list(groups.values())


def _lines(path: str, what: str) -> Iterable[Line]:
    rows = _cells(path)
    names = _names(path, rows, what)
    for number, cells in rows[1:]:
        if len(cells) != len(names):
            raise BadInput(
                f"{path}: line {number} has {len(cells)} cells and the first line has {len(names)} names; "
                "give the same number, and write numbers with a decimal point"
            )
        line: Line = {"line": number}
        for name, cell in zip(names, cells, strict=True):
            if name in ("id", "client"):
                line[name] = unguard_cell(cell)
            elif cell.strip():
                line[name] = _number(cell, f"{path}: line {number}, column {name}", name)
        for name in ("id", "client"):
            if name in names and not line[name]:
                raise BadInput(_cell_error(path, line, name, "is empty; give each a name"))
        line.setdefault("client", line["id"])
        yield line


def _cells(path: str) -> list[tuple[int, list[str]]]:
    """All lines that are not empty, with their numbers; parted by commas, semicolons or tabs, as the first line has it."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}{nearest_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}; save it as CSV in UTF-8") from None
    parted = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=parted, strict=True)
    try:
        rows = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise BadInput(f"{path}: line {reader.line_num} cannot be read as CSV: {error}; close its quotes") from None
    return [(number, cells) for number, cells in rows if any(cell.strip() for cell in cells)]


def _names(path: str, rows: list[tuple[int, list[str]]], what: str) -> list[str]:
    if not rows:
        raise BadInput(f"{path} is empty; its first line names the columns: {','.join(_COLUMNS[what][1:])}")
    names = [cell.strip() for cell in rows[0][1]]
    for name in names:
        if name not in _COLUMNS[what]:
            raise BadInput(f"{path}: there is no column {name!r} in a table of {what}{suggest_name(name, _COLUMNS[what])}")
        if names.count(name) > 1:
            raise BadInput(f"{path}: the column {name} appears twice; leave one of them out")
    for name in _NEEDED[what]:
        if name not in names:
            raise BadInput(f"{path}: the column {name} is missing; a table of {what} has {', '.join(_NEEDED[what])}")
    return names


def _number(cell: str, where: str, name: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise BadInput(f"{where}: {cell[:40]!r} is not a number; write it plainly, for example 21000 or 0.05") from None
    return numbers([value], where, positive=name in _POSITIVE, signed=name in STATE_COLUMNS)[0]


def _single_value(path: str, lines: Sequence[Line], name: str) -> float | None:
    """What a client has only one of, from whichever of its lines say it; they must agree."""
    with_value = [line for line in lines if name in line]
    for line in with_value[1:]:
        if line[name] != with_value[0][name]:
            where = f"{line[name]:g} here and {with_value[0][name]:g} in line {with_value[0]['line']}"
            why = f"is {where}, of the same id {line['id']!r}; give one value, or another id"
            raise BadInput(_cell_error(path, line, name, why))
    return with_value[0][name] if with_value else None


def _cell_error(path: str, line: Line, column: str, wrong: str) -> str:
    return f"{path}: line {line['line']}, column {column}: {wrong}"
