"""Own data in files: a folder with a file for each client, everybody's samples in one .csv, or LEAF's JSON."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.tasks.user_data.columns import LABELS, RawData, check_column, label_column
from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.trees import Array
from fedfleet.tasks.readers.leaf import users_of

_KINDS = "a folder of NAME.npz or NAME.csv, one for each client, a .csv, or LEAF's .json"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)


def from_path(path: Path, inputs: list[str] | None, label: str | None, owner: str | None) -> RawData:
    """The samples of a folder or a file, by what it holds."""
    if not path.exists():
        raise BadInput(f"data: there is no file or folder {path}{nearest_file(path) or f'; give {_KINDS}'}")
    if not path.is_dir():
        return _read_file(path, inputs, label, owner)
    files = sorted(p for p in path.iterdir() if p.suffix in (".npz", ".csv", ".json") and not p.name.startswith("."))
    kinds = sorted({p.suffix for p in files})
    if not files:
        raise BadInput(f"data: {path} holds no .npz, .csv or .json file; give {_KINDS}")
    if len(kinds) > 1:
        raise BadInput(f"data: {path} contains {' and '.join(kinds)} files; keep only one kind there")
    if kinds == [".json"]:
        return _read_leaf(files)
    if owner is not None:
        raise BadInput(
            "data: owner= is for a single table; in a folder, the names of the files are the owners, so leave owner= out"
        )
    per_client = [(p.stem, _read_arrays(p) if p.suffix == ".npz" else _read_table(p, inputs, label, None)) for p in files]
    return _concatenate(path, per_client)


def _read_file(path: Path, inputs: list[str] | None, label: str | None, owner: str | None) -> RawData:
    if path.suffix == ".csv":
        return _read_table(path, inputs, label, owner)
    if path.suffix == ".json":
        return _read_leaf([path])
    if path.suffix == ".npz":
        return _read_arrays(path)
    raise BadInput(f"data: {path} is of an unsupported file type; give {_KINDS}")


def _concatenate(path: Path, per_client: Sequence[tuple[str, RawData]]) -> RawData:
    """All clients' samples one below the other; their inputs must be alike."""
    first, shape, columns = per_client[0][0], np.shape(per_client[0][1].x)[1:], per_client[0][1].columns
    for name, samples in per_client:
        own_shape = np.shape(samples.x)[1:]
        if own_shape != shape:
            raise BadInput(
                f"data: inputs of {name} in {path} have the shape {own_shape}, but inputs of {first} have {shape}; give "
                "all inputs the same shape"
            )
        if samples.columns != columns:
            odd = next((n for n in samples.columns if n not in columns), samples.columns[0])
            difference = f"{name} has a column {odd!r} where {first} has other columns, or has them in another order"
            raise BadInput(f"data: the columns in {path} differ: {difference}; give all files the same first line")
    are_names = {name: np.asarray(got.y).dtype.kind in "US" for name, got in per_client}
    if len(set(are_names.values())) > 1:
        odd = next(name for name in are_names if are_names[name] != are_names[first])
        raise BadInput(
            f"data: the labels of {odd} and of {first} differ: some are names, some are numbers; use names in all "
            "files, or numbers in all files"
        )
    owner = [name for name, got in per_client for _ in range(len(got.x))]
    return RawData(
        np.concatenate([got.x for _, got in per_client]), np.concatenate([np.asarray(got.y) for _, got in per_client]), owner
    )


def _read_arrays(path: Path) -> RawData:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except _UNREADABLE as error:
        raise BadInput(f"data: {path} cannot be read as .npz: {error}; write it with np.savez(.., x=inputs, y=labels)") from None
    for name in ("x", "y"):
        if name not in arrays:
            names = ", ".join(arrays) or "none"
            raise BadInput(f"data: {path} has no array {name} ({names}); write it with np.savez(.., x=inputs, y=labels)")
    if arrays["x"].ndim < 2 or arrays["y"].shape != arrays["x"].shape[:1]:
        raise BadInput(
            f"data: {path}: x has the shape {arrays['x'].shape} and y {arrays['y'].shape}; give one row and one "
            f"label for each sample"
        )
    return RawData(arrays["x"], arrays["y"], arrays["owner"].tolist() if "owner" in arrays else None)


def _read_leaf(files: Sequence[Path]) -> RawData:
    x, y, owners = list[Any](), list[Any](), list[str]()
    for path in files:
        try:
            for user, samples in users_of(path):
                if len(samples["x"]) != len(samples["y"]):
                    raise ValueError(f"user {user} has {len(samples['x'])} inputs and {len(samples['y'])} labels")
                x += samples["x"]
                y += samples["y"]
                owners += [user] * len(samples["y"])
        except (*_UNREADABLE, RecursionError, AttributeError) as error:
            shape = '{"user_data": {USER: {"x": [..], "y": [..]}}}'
            raise BadInput(f"data: {path} cannot be read: {error}; LEAF files contain {shape}") from None
    if not x:
        raise BadInput(f"data: {files[0].parent} holds no samples; LEAF files contain inputs x and labels y for each user")
    if isinstance(x[0], str):
        raise BadInput(f"data: the inputs in {files[0]} are text; convert them into numbers first")
    lengths = [np.size(row) for row in x]
    odd = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
    if odd is not None:
        raise BadInput(
            f"data: an input of user {owners[odd]} has {lengths[odd]} numbers, but the first input has "
            f"{lengths[0]}; give all inputs the same length"
        )
    rows = np.asarray(x)
    return RawData(rows[:, None] if rows.ndim == 1 else rows, y, owners)


def _read_table(path: Path, inputs: list[str] | None, label: str | None, owner: str | None) -> RawData:
    """One sample a line; without a line of names, the last column is the label."""
    names, lines, numbers = _read_cells(path)
    y_name = label_column(names, label, last=True)
    for name in (*(inputs or ()), *([owner] if owner else [])):
        check_column(names, name, "owner" if name == owner else "input")
    used = [i for i, n in enumerate(names) if (n in inputs if inputs else n not in (y_name, owner))]
    if not used:
        raise BadInput(f"data: {path} has only the column {y_name}; put the inputs in columns before the label")
    x = _floats(path, names, lines, numbers, used)
    y = [line[names.index(y_name)].strip() for line in lines]
    empty = next((i for i, cell in enumerate(y) if not cell), None)
    if empty is not None:
        raise BadInput(f"data: {path}: line {numbers[empty]} has no {y_name}; fill it in, or delete the line")
    people = None if owner is None else [line[names.index(owner)].strip() for line in lines]
    return RawData(x, _as_numbers(y), people, (), tuple(names[i] for i in used))


def _read_cells(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """The names of the columns, all lines below, and their numbers in the file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"data: {path} cannot be read as CSV: {error}; save it in UTF-8 with one sample per line") from None
    if not rows:
        raise BadInput(f"data: {path} is empty; give one sample per line, or delete the file")
    has_header = _has_header(path, rows[0][1], rows[1][1] if len(rows) > 1 else None)
    names = [cell.strip() for cell in rows[0][1]] if has_header else [str(i) for i in range(len(rows[0][1]))]
    body = rows[1:] if has_header else rows
    if not body:
        raise BadInput(f"data: {path} has a header line but no sample; give one sample per line, or delete the file")
    for number, row in body:
        if len(row) != len(names):
            raise BadInput(
                f"data: {path}: line {number} has {len(row)} cells, but the first line has {len(names)}; give "
                "every line the same number"
            )
    return names, [row for _, row in body], [number for number, _ in body]


def _has_header(path: Path, first: list[str], second: list[str] | None) -> bool:
    """Is the first line one of names? Never a guess that would lose a sample."""
    numeric = [_is_number(cell) for cell in first]
    if not any(numeric):
        return True
    if all(numeric[:-1]):  # numbers may be names too, as in 0,1,2,label
        numbers_below = second is not None and _is_number(second[-1])
        return not numeric[-1] and (first[-1].strip().lower() in LABELS or numbers_below)
    odd = first[numeric.index(False)]
    raise BadInput(
        f"data: {path}: the first line has numbers and also {odd[:40]!r}, so it is neither a header nor a sample; "
        "start the file with a line of column names"
    )


def _floats(path: Path, names: list[str], lines: list[list[str]], numbers: list[int], used: list[int]) -> Array:
    try:
        return np.array([[line[i] for i in used] for line in lines], np.str_).astype(np.float32)
    except ValueError:
        for number, line in zip(numbers, lines, strict=True):
            for i in used:
                if not _is_number(line[i]):
                    where = f"line {number}, column {names[i]}: {line[i][:40]!r}"
                    raise BadInput(
                        f"data: {path}: {where} is not a number; correct it, or choose columns with input=[..]"
                    ) from None
        raise


def _as_numbers(cells: list[str]) -> Any:
    """Labels as whole numbers where all of them are, else as the names that they are."""
    if all(_is_number(cell) for cell in cells):
        return np.array(cells, np.str_).astype(np.float64)
    return np.array(cells, np.str_)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
