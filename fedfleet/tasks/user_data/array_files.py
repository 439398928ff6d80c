"""Arrays in .npz files: x and y, and perhaps owner; nothing in a file is executed."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.trees import Array
from fedfleet.tasks.data_checks import error_line
from fedfleet.tasks.user_data.columns import Choice, Column, column_of, listed, text_column
from fedfleet.tasks.user_data.raw_samples import RawSamples, as_names, time_column
from fedfleet.tasks.user_data.tabular_files import joined_column

# What damaged archives raise in zipfile, zlib and numpy.
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    IndexError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
)
_DAMAGED = (*UNREADABLE, zipfile.BadZipFile, zlib.error, OverflowError)


def read_npz(path: Path, choice: Choice) -> RawSamples:
    """The arrays x and y of a file, or those that `choice` names."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise ValueError("a single array without a name")
        with loaded as file:
            arrays = {name: file[name] for name in file.files}
    except _DAMAGED as error:
        raise BadInput(
            f"data: {path} cannot be read as .npz: {error_line(error)}; write it with np.savez(.., x=inputs, y=labels), without "
            f"objects"
        ) from None
    if choice.drop:
        raise BadInput(f"data: {path} holds arrays, so drop=.. has no meaning here; leave it out")
    if len(choice.input or ()) > 1 or len(choice.label or ()) > 1:
        raise BadInput(f"data: {path} holds arrays; name one array with input=.. and one with label=..")
    x_name, y_name = (choice.input or ("x",))[0], (choice.label or ("y",))[0]
    for name in (x_name, y_name, *(n for n in (choice.owner, choice.time) if n)):
        if name not in arrays:
            names = listed(tuple(arrays)) or "none"
            hint = suggest_name(name, arrays).partition("; known")[0]
            raise BadInput(f"data: {path} has no array {name} ({names}){hint}; write it with np.savez(.., x=inputs, y=labels)")
    x, y = arrays[x_name], arrays[y_name]
    if x.ndim < 2 or y.ndim < 1 or len(x) != len(y) or not len(x):
        raise BadInput(
            f"data: {path}: {x_name} has the shape {x.shape} and {y_name} {y.shape}; give one row and one label for each sample"
        )
    owner = choice.owner or ("owner" if "owner" in arrays else None)
    for name in (n for n in (owner, choice.time) if n):
        if arrays[name].shape != (len(x),):
            raise BadInput(
                f"data: {path}: {name} has the shape {arrays[name].shape}; give one value for each of {len(x):,} samples"
            )
    return array_samples(
        str(path),
        x,
        y,
        None if owner is None else arrays[owner],
        None if choice.time is None else arrays[choice.time],
        (x_name, y_name),
    )


def array_samples(
    where: str,
    x: Array,
    y: Any,
    owner: Any = None,
    time: Any = None,
    names: tuple[str, str] = ("x", "y"),
    label_names: tuple[str, ...] = (),
) -> RawSamples:
    """Samples that are arrays already; `label_names` are names that the source itself has for the numbers of its labels."""
    place = partial(_place, where)
    if x.dtype.kind not in "fiub" or not x.size:
        raise BadInput(f"data: the inputs of {where} are {x.dtype} of shape {x.shape}; give numbers with one row for each sample")
    return RawSamples(
        where,
        (Column(names[0], x),),
        (label_column(names[1], y, label_names),),
        None if owner is None else owner_column(owner),
        None if time is None else time_column(column_of("time", time), place),
        place,
    )


def label_column(name: str, values: Any, names: tuple[str, ...] = ()) -> Column:
    """Labels of any form: numbers, names, or a row of numbers for each sample."""
    array = values if isinstance(values, np.ndarray) else None
    if array is None:
        try:
            array = np.asarray(values)
        except ValueError:
            raise BadInput("data: the labels of some samples are rows of different length; give rows of equal length") from None
    if array.ndim > 1:
        return Column(name, array)
    column = column_of(name, array if array.dtype.kind in "fiub" else values)
    if not names or column.names is not None:
        return column
    # Datasets mark a sample without a label by -1.
    known = np.isfinite(column.values) & (column.values >= 0) & (column.values < len(names))
    return Column(name, np.where(known, column.values, -1).astype(np.int64), names, fixed=True)


def owner_column(values: Any) -> Column:
    """Whose each sample is, by name."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return as_names(column_of("owner", array))
    column = column_of("owner", values if isinstance(values, Sequence) and not isinstance(values, str) else array)
    return column if column.names is not None else as_names(column)


def client_arrays(where: str, clients: Sequence[tuple[str, RawSamples]]) -> RawSamples:
    """The arrays of several clients, one below the other; their inputs must be alike."""
    first, shape = clients[0][0], clients[0][1].inputs[0].values.shape[1:]
    for name, samples in clients:
        own_shape = samples.inputs[0].values.shape[1:]
        if own_shape != shape:
            raise BadInput(
                f"data: inputs of {name} in {where} have the shape {own_shape}, but inputs of {first} have {shape}; give all "
                f"inputs the same shape"
            )
        if samples.labels[0].values.shape[1:] != clients[0][1].labels[0].values.shape[1:]:
            raise BadInput(f"data: the labels of {name} and of {first} in {where} differ in shape; give all labels the same shape")
    check_alike_labels([(name, samples.labels[0]) for name, samples in clients])
    starts = np.cumsum([0, *(len(samples.inputs[0].values) for _, samples in clients)])

    def place(row: int) -> str:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return clients[at][1].place(row - int(starts[at]))

    x = Column(clients[0][1].inputs[0].name, np.concatenate([samples.inputs[0].values for _, samples in clients]))
    times = [samples.time for _, samples in clients]
    time = Column("time", np.concatenate([t.values for t in times if t is not None])) if None not in times else None
    owner = text_column("owner", [name for name, samples in clients for _ in range(len(samples.inputs[0].values))])
    unused = next((name for name, samples in clients if samples.owner is not None), None)
    warned = f"data: the array owner of {unused} in {where} is not used: in a folder, the owners are the names of the files"
    labels = joined_column([samples.labels[0] for _, samples in clients])
    return RawSamples(where, (x,), (labels,), owner, time, place, warnings=(warned,) if unused else ())


def check_alike_labels(labels: Sequence[tuple[str, Column]]) -> None:
    """Refuse labels that are names with one client and numbers with another."""
    first, one = labels[0]
    for name, column in labels:
        if (column.names is None) != (one.names is None) and not (column.missing().all() or one.missing().all()):
            raise BadInput(
                f"data: the labels of {name} and of {first} differ: some are names, some are numbers; use names in all files, or "
                f"numbers in all "
                "files"
            )


def _place(where: str, row: int) -> str:
    return f"{where}: sample {row}"
