"""Bring your own data: a folder of per-client files, LEAF's JSON, a table or a Hugging Face dataset as arrays that `run` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from fedfleet.tasks.user_data.tabular_files import from_path
from fedfleet.tasks.user_data.columns import RawData, from_columns
from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import CLASSIFICATION, MULTILABEL, REGRESSION, Kind, KindName
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Floats, Ints
from fedfleet.core.trees import Array
from fedfleet.tasks.data_checks import checked_inputs, checked_labels


@dataclass(frozen=True, slots=True)
class OwnData(Sequence[Any]):
    """Inputs, labels and perhaps who made each sample, as `run`, `study` and `replay` take them: `x, y, owner = data(..)`.

    `y` is laid out by `kind` (core.kinds). `labels` are the names of the classes, outputs or labels, where they have any; `owners`
    those behind `owner`; `inputs` those of the input columns. `time` is when each sample was made, where a column says so;
    `vocabulary` are the tokens behind the numbers of texts; `warnings` are sentences for whoever brought the data.
    """

    x: Array
    y: Array
    owner: Ints | None
    labels: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    kind: Kind = CLASSIFICATION
    inputs: tuple[str, ...] = ()
    time: Floats | None = None
    warnings: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()

    @property
    def classes(self) -> int:
        """How many classes, outputs, labels or tokens there are, as `Dataset.classes` counts them."""
        if self.kind in (REGRESSION, MULTILABEL):
            return self.y.shape[1]
        return max(int(self.y.max()) + 1, len(self.labels), len(self.vocabulary))

    def dataset(self) -> Dataset:
        """The same samples as the dataset of a task."""
        tokens = self.kind.places and self.x.dtype.kind in "iu"
        x = self.x if tokens else self.x.astype(np.float32)
        return Dataset(x, self.y, self.classes, self.owner, self.kind, self.labels, self.owners)

    def _parts(self) -> tuple[Array, ...]:
        return (self.x, self.y) if self.owner is None else (self.x, self.y, self.owner)

    def __len__(self) -> int:
        return len(self._parts())

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Array, ...]: ...
    def __getitem__(self, index: int | slice) -> Array | tuple[Array, ...]:
        return self._parts()[index]

    def __repr__(self) -> str:
        people = "" if self.owner is None else f" of {len(self.owners)} owners"
        what = {"regression": "outputs", "multilabel": "labels"}.get(self.kind.name, "tokens" if self.vocabulary else "classes")
        return f"OwnData({len(self.y)} samples{people}, inputs {self.x.shape[1:]}, {self.classes} {what})"


def data(
    source: Any,
    *,
    input: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    owner: str | None = None,
    time: str | None = None,
    kind: Literal["auto"] | KindName = "auto",
    missing: Literal["error", "drop", "mean"] = "error",
    scale: Literal["none", "standard"] = "none",
    context: int = 32,
) -> OwnData:
    """Read your own data as arrays for `run(.., data=..)`.

    Args:
        source: a folder with one file for each client, NAME.npz (arrays x and y) or NAME.csv (one sample a line); a folder or a
            file of LEAF's JSON; a .csv file of everybody's samples; a Hugging Face dataset; a pandas table.
        input: the column with the inputs, or several columns of numbers; default: all others (.csv), or one called x, image ..
        label: the column with the labels; default: one called label, y, class .., else (.csv) the last one.
        owner: the column that says who made each sample. Per-client files have their names instead.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "ann.csv").write_text("speed,height,label\\n0.5,1,walk\\n2.5,1,run\\n")
    >>> _ = (folder / "bob.csv").write_text("speed,height,label\\n0.7,2,walk\\n")
    >>> found = data(folder)
    >>> found, found.labels, found.owners, found.y.tolist()
    (OwnData(3 samples of 2 owners, inputs (2,), 2 classes), ('run', 'walk'), ('ann', 'bob'), [1, 0, 1])
    """
    if time is not None or kind != "auto" or missing != "error" or scale != "none" or context != 32 or isinstance(label, list | tuple):
        raise BadInput("data: only classification without missing values is read at present")
    inputs = [input] if isinstance(input, str) else None if input is None else list(input)
    if isinstance(source, str | Path):
        return _check_data(from_path(Path(source), inputs, label, owner))
    return _check_data(from_columns(source, inputs, label, owner))


def read_user_data(source: Any) -> Any:
    """What a person gave as `data`: a folder, or a file that is no file of arrays, is read; all else stays as it is."""
    if isinstance(source, str | Path) and (Path(source).is_dir() or Path(source).suffix in (".json", ".csv")):
        return data(source)
    if hasattr(source, "column_names") or hasattr(source, "columns"):
        return data(source)
    return source


def _check_data(raw: RawData) -> OwnData:
    x = checked_inputs(raw.x)
    y, labels = _number_labels(raw.y)
    if raw.owner is None:
        return OwnData(x, checked_labels(y, len(x)), None, labels or raw.labels)
    owners, owner = np.unique(np.asarray([str(name) for name in raw.owner], np.str_), return_inverse=True)
    return OwnData(x, checked_labels(y, len(x)), owner.astype(np.int64), labels or raw.labels, tuple(owners.tolist()))


def _number_labels(raw_labels: Any) -> tuple[Array, tuple[str, ...]]:
    """Labels as whole numbers: names are numbered in their order, numbers stay what they are."""
    y = np.asarray(raw_labels)
    if y.dtype.kind in "US" and not isinstance(raw_labels, np.ndarray):
        y = np.asarray(raw_labels, dtype=object)  # else one that is missing among names would be called nan
    if y.dtype.kind in "US" or (y.dtype.kind == "O" and all(isinstance(v, str) for v in y.ravel().tolist())):
        names, numbers = np.unique(y.astype(np.str_), return_inverse=True)
        return numbers.reshape(y.shape), tuple(names.tolist())
    if y.dtype.kind == "O":
        odd = next((i for i, v in enumerate(y.ravel().tolist()) if not isinstance(v, str)), 0)
        raise BadInput(
            f"data: label {odd} is {y.ravel()[odd]!r}, but others are names; give all labels as names, or all as numbers"
        )
    if y.dtype.kind == "b":
        return y.astype(np.int64), ()
    if y.dtype.kind == "f" and y.ndim == 1:
        wrong = np.flatnonzero(~(np.isfinite(y) & (y == np.rint(y))))
        if len(wrong):
            raise BadInput(
                f"data: label {wrong[0]} is {y[wrong[0]]}, but labels must be whole numbers or names of classes; "
                "delete the samples without a label, or name another column with label=.."
            )
        return y.astype(np.int64), ()
    return y, ()
