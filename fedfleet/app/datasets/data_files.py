"""Own data in files: a folder with a file for each client, everybody's samples in one .csv, or LEAF's JSON."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.datasets.table_columns import LABELS, Picked, check_column, the_label
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.trees import Array
from fedfleet.tasks.readers.leaf import users_of

_KINDS = "a folder of NAME.npz or NAME.csv, one for each client, a .csv, or LEAF's .json"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile)


def from_path(path: Path, inputs: list[str] | None, label: str | None, owner: str | None) -> Picked:
    """The samples of a folder or a file, by what it holds."""
    if not path.exists():
        beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise BadInput(f"data: {path} is not there{nearest(path.name, beside) or f'; give {_KINDS}'}")
    if not path.is_dir():
        return _file(path, inputs, label, owner)
    files = sorted(p for p in path.iterdir() if p.suffix in (".npz", ".csv", ".json") and not p.name.startswith("."))
    kinds = sorted({p.suffix for p in files})
    if not files:
        raise BadInput(f"data: {path} holds no .npz, .csv or .json file; give {_KINDS}")
    if len(kinds) > 1:
        raise BadInput(f"data: {path} holds {' and '.join(kinds)} files together; keep one kind there")
    if kinds == [".json"]:
        return _leaf(files)
    if owner is not None:
        raise BadInput("data: owner= goes with a single table; in a folder the owners are the names of the files")
    found = [(p.stem, _arrays(p) if p.suffix == ".npz" else _table(p, inputs, label, None)) for p in files]
    return _together(path, found)


def _file(path: Path, inputs: list[str] | None, label: str | None, owner: str | None) -> Picked:
    if path.suffix == ".csv":
        return _table(path, inputs, label, owner)
    if path.suffix == ".json":
        return _leaf([path])
    if path.suffix == ".npz":
        return _arrays(path)
    raise BadInput(f"data: {path} has an ending that nobody here reads; give {_KINDS}")


def _together(path: Path, found: Sequence[tuple[str, Picked]]) -> Picked:
    """All clients' samples one below the other; their inputs must be alike."""
    first, shape, columns = found[0][0], np.shape(found[0][1].x)[1:], found[0][1].columns
    for name, got in found:
        own = np.shape(got.x)[1:]
        if own != shape:
            raise BadInput(
                f"data: inputs of {name} in {path} have the shape {own} and those of {first} {shape}; make all alike"
            )
        if got.columns != columns:
            odd = next((n for n in got.columns if n not in columns), got.columns[0])
            said = f"{name} has a column {odd!r} where {first} has others, or has them in another order"
            raise BadInput(f"data: the columns in {path} differ: {said}; give all files the same first line")
    words = {name: np.asarray(got.y).dtype.kind in "US" for name, got in found}
    if len(set(words.values())) > 1:
        odd = next(name for name in words if words[name] != words[first])
        raise BadInput(
            f"data: the labels of {odd} and of {first} are names here and numbers there; give all as one or the other"
        )
    owner = [name for name, got in found for _ in range(len(got.x))]
    return Picked(
        np.concatenate([got.x for _, got in found]), np.concatenate([np.asarray(got.y) for _, got in found]), owner
    )


def _arrays(path: Path) -> Picked:
    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: file[name] for name in file.files}
    except _UNREADABLE as wrong:
        raise BadInput(
            f"data: {path} cannot be read as .npz: {wrong}; write it with np.savez(.., x=inputs, y=labels)"
        ) from None
    for name in ("x", "y"):
        if name not in held:
            there = ", ".join(held) or "none"
            raise BadInput(
                f"data: {path} has no array {name} ({there}); write it with np.savez(.., x=inputs, y=labels)"
            )
    if held["x"].ndim < 2 or held["y"].shape != held["x"].shape[:1]:
        raise BadInput(
            f"data: {path}: x has the shape {held['x'].shape} and y {held['y'].shape}; give one row and one label for each sample"
        )
    return Picked(held["x"], held["y"], held["owner"].tolist() if "owner" in held else None)


def _leaf(files: Sequence[Path]) -> Picked:
    x, y, who = list[Any](), list[Any](), list[str]()
    for path in files:
        try:
            for user, held in users_of(path):
                if len(held["x"]) != len(held["y"]):
                    raise ValueError(f"user {user} has {len(held['x'])} inputs and {len(held['y'])} labels")
                x += held["x"]
                y += held["y"]
                who += [user] * len(held["y"])
        except (*_UNREADABLE, RecursionError, AttributeError) as wrong:
            shape = '{"user_data": {USER: {"x": [..], "y": [..]}}}'
            raise BadInput(f"data: {path} cannot be read: {wrong}; LEAF's files hold {shape}") from None
    if not x:
        raise BadInput(
            f"data: {files[0].parent} holds no samples; LEAF's files hold inputs x and labels y for each user"
        )
    if isinstance(x[0], str):
        raise BadInput(f"data: the inputs in {files[0]} are text; turn them into numbers first")
    lengths = [np.size(row) for row in x]
    odd = next((i for i, n in enumerate(lengths) if n != lengths[0]), None)
    if odd is not None:
        raise BadInput(
            f"data: an input of user {who[odd]} has {lengths[odd]} numbers and the first one {lengths[0]}; make all alike"
        )
    rows = np.asarray(x)
    return Picked(rows[:, None] if rows.ndim == 1 else rows, y, who)


def _table(path: Path, inputs: list[str] | None, label: str | None, owner: str | None) -> Picked:
    """One sample a line; without a line of names, the last column is the label."""
    names, lines, numbers = _cells(path)
    y_name = the_label(names, label, last=True)
    for name in (*(inputs or ()), *([owner] if owner else [])):
        check_column(names, name, "owner" if name == owner else "input")
    used = [i for i, n in enumerate(names) if (n in inputs if inputs else n not in (y_name, owner))]
    if not used:
        raise BadInput(f"data: {path} has the column {y_name} alone; inputs stand in columns before the label")
    x = _floats(path, names, lines, numbers, used)
    y = [line[names.index(y_name)].strip() for line in lines]
    empty = next((i for i, cell in enumerate(y) if not cell), None)
    if empty is not None:
        raise BadInput(f"data: {path}: line {numbers[empty]} has no {y_name}; fill it in, or drop the line")
    people = None if owner is None else [line[names.index(owner)].strip() for line in lines]
    return Picked(x, _as_numbers(y), people, (), tuple(names[i] for i in used))


def _cells(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """The names of the columns, all lines below, and their numbers in the file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as wrong:
        raise BadInput(
            f"data: {path} cannot be read as CSV: {wrong}; save it in UTF-8 with one sample a line"
        ) from None
    if not rows:
        raise BadInput(f"data: {path} is empty; give one sample a line, or drop the file")
    headed = _headed(path, rows[0][1], rows[1][1] if len(rows) > 1 else None)
    names = [cell.strip() for cell in rows[0][1]] if headed else [str(i) for i in range(len(rows[0][1]))]
    body = rows[1:] if headed else rows
    if not body:
        raise BadInput(f"data: {path} has a line of names and no sample; give one sample a line, or drop the file")
    for number, row in body:
        if len(row) != len(names):
            raise BadInput(
                f"data: {path}: line {number} has {len(row)} cells and the first line {len(names)}; give as many in each"
            )
    return names, [row for _, row in body], [number for number, _ in body]


def _headed(path: Path, first: list[str], second: list[str] | None) -> bool:
    """Is the first line one of names? Never a guess that would lose a sample."""
    told = [_is_number(cell) for cell in first]
    if not any(told):
        return True
    if all(told[:-1]):  # numbers may be names too, as in 0,1,2,label
        numbers_below = second is not None and _is_number(second[-1])
        return not told[-1] and (first[-1].strip().lower() in LABELS or numbers_below)
    odd = first[told.index(False)]
    raise BadInput(
        f"data: {path}: the first line has numbers and also {odd[:40]!r}, so that it is neither a line of names nor a sample; "
        "put a line with the names of the columns on top"
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
                        f"data: {path}: {where} is no number; correct it, or choose columns with input=[..]"
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
