"""Bring your own data: files, folders, tables and datasets as arrays that `run` takes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from fedfleet.core.errors import BadInput, CurableInput, printable, suggest_name
from fedfleet.core.kinds import CLASSIFICATION, MULTILABEL, NEXT_TOKEN, REGRESSION, Kind, KindName
from fedfleet.core.parts import Dataset
from fedfleet.core.records import Floats, Ints
from fedfleet.core.trees import Array
from fedfleet.tasks.user_data import missing_values
from fedfleet.tasks.user_data import scale as scales
from fedfleet.tasks.user_data.character_windows import MOST_CONTEXT, CharacterWindows
from fedfleet.tasks.user_data.client_folders import read_path, table_source
from fedfleet.tasks.user_data.columns import Choice
from fedfleet.tasks.user_data.datasets import is_torch_dataset, table_of, torch_samples
from fedfleet.tasks.user_data.labels import check_kind, encode_labels
from fedfleet.tasks.user_data.missing_values import without_missing
from fedfleet.tasks.user_data.raw_samples import RawSamples
from fedfleet.tasks.user_data.tabular_files import READERS


@dataclass(frozen=True, slots=True)
class OwnData(Sequence[Any]):
    """Inputs, labels and perhaps who made each sample, as `run`, `study` and `replay` take them: `x, y, owner = data(..)`.

    `y` is laid out by `kind` (core.kinds). `labels` are the names of the classes, outputs or labels, where they have any; `owners`
    those behind `owner`; `inputs` those of the input columns. `time` is when each sample was made, where a column says so;
    `vocabulary` are the tokens behind the numbers of texts; `warnings` are sentences for the person who brought the data;
    `target_scale` is the mean and the standard deviation that were taken out of each output of a regression, `input_scale` those of
    the inputs.
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
    target_scale: tuple[tuple[float, float], ...] = ()
    input_scale: scales.Scale | None = None

    @property
    def classes(self) -> int:
        """How many classes, outputs, labels or tokens there are, as `Dataset.classes` counts them."""
        if self.kind in (REGRESSION, MULTILABEL):
            return self.y.shape[1]
        if self.kind is NEXT_TOKEN and not self.vocabulary:
            return max(int(self.x.max()), int(self.y.max())) + 1
        return max(int(self.y.max()) + 1, len(self.labels), len(self.vocabulary))

    def dataset(self) -> Dataset:
        """The same samples as the dataset of a task."""
        has_tokens = self.kind.places and self.x.dtype.kind in "iu"
        x = self.x if has_tokens else self.x.astype(np.float32)
        taken_out = None if self.input_scale is None else (self.input_scale.mean, self.input_scale.sd)
        return Dataset(
            x,
            self.y,
            self.classes,
            self.owner,
            self.kind,
            self.labels,
            self.owners,
            self.target_scale,
            input_names=self.inputs,
            input_scale=taken_out,
        )

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
        people = "" if self.owner is None else f" of {_count(len(self.owners), 'owner')}"
        what = {"regression": "output", "multilabel": "label"}.get(self.kind.name, "token" if self.vocabulary else "class")
        warned = f", {_count(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"OwnData({_count(len(self.y), 'sample')}{people}, inputs {self.x.shape[1:]}, {_count(self.classes, what)}{warned})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 'es' if what.endswith('s') else 's'}"


def data(
    source: Any,
    *,
    input: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    owner: str | None = None,
    drop: str | Sequence[str] | None = None,
    time: str | None = None,
    kind: Literal["auto"] | KindName = "auto",
    missing: Literal["error", "drop", "mean"] = "error",
    scale: Literal["none", "standard"] = "none",
    context: int = 32,
) -> OwnData:
    """Read your own data as arrays for `run(.., data=..)`.

    Args:
        source: a .csv, .tsv, .arff or .parquet file of everybody's samples; .npz with arrays x and y; LEAF's JSON; a folder with
            one of these files for each client; a folder of texts, CLIENT.txt; a folder of pictures, CLIENT/CLASS/picture.png; a
            Hugging Face dataset; a pandas table; a Dataset or a DataLoader of PyTorch.
        input: the column with the inputs, or several columns; default: all others (files), or one called x, image ..
        label: the column with the labels; default: one called label, y, class .., else (files) the last one. Several columns are
            several outputs of a regression or, where they hold yes and no (0 and 1), several labels at once.
        owner: the column that says who made each sample. Per-client files have their names instead.
        drop: the columns that are not read, such as numbers of rows; the inputs are then all others.
        time: the column that says when each sample was made, as a number or a date.
        kind: what is predicted: "auto" (goes by the labels) or classification, regression, multilabel, next_token, sequence_labels.
        missing: what becomes of samples with missing values: "error" refuses them, "drop" leaves them out, "mean" fills inputs with
            the mean of their column.
        scale: "standard" gives every input (and every output of a regression) mean 0 and standard deviation 1.
        context: how many characters a window of text has.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "ann.csv").write_text("speed,height,label\\n0.5,1,walk\\n2.5,1,run\\n")
    >>> _ = (folder / "bob.csv").write_text("speed,height,label\\n0.7,2,walk\\n")
    >>> found = data(folder)
    >>> found, found.labels, found.owners, found.y.tolist()
    (OwnData(3 samples of 2 owners, inputs (2,), 2 classes), ('run', 'walk'), ('ann', 'bob'), [1, 0, 1])
    """
    check_kind(kind)
    _check_word("missing", missing, missing_values.CHOICES)
    _check_word("scale", scale, scales.CHOICES)
    if isinstance(context, bool) or not isinstance(context, int) or not 2 <= context <= MOST_CONTEXT:
        raise BadInput(f"data: context = {context!r} is not a whole number from 2 to {MOST_CONTEXT}")
    choice = Choice(
        _names("input", input), _names("label", label), _name("owner", owner), _name("time", time), kind, context,
        _names("drop", drop) or (),
    )  # fmt: skip
    try:
        found = _read(source, choice)
    except CurableInput as error:
        raise _with_next_cure(error, source, choice, missing) from None
    if isinstance(found, CharacterWindows):
        if scale != "none":
            raise BadInput('data: characters have no scale; use scale = "none"')
        return _windows_data(found)
    return _samples_data(without_missing(found, missing), kind, scale)


def _with_next_cure(error: CurableInput, source: Any, choice: Choice, missing: str) -> CurableInput:
    """The refusal of columns, and that of missing values in the others where it would come next."""
    drop, time = error.cure.get("drop", ()), error.cure.get("time")
    try:
        rest = _read(source, replace(choice, drop=(*choice.drop, *drop), time=choice.time if time is None else str(time)))
        if isinstance(rest, RawSamples):
            without_missing(rest, missing)
    except CurableInput as following:
        text = str(following).removeprefix("data: ")
        return CurableInput(f"{error}; then {text}", {**error.cure, **following.cure})
    except BadInput:
        pass
    return error


def read_user_data(source: Any) -> Any:
    """What a person gave as `data`: a folder, or a file that is no file of arrays, is read; all else stays as it is."""
    if isinstance(source, str | Path):
        is_read = Path(source).is_dir() or Path(source).suffix.lower() in (*READERS, ".json", ".txt")
    else:
        is_read = is_torch_dataset(source) or hasattr(source, "column_names") or hasattr(source, "columns")
    if not is_read:
        return source
    found = data(source)
    for sentence in found.warnings:
        # A run says itself that its inputs need a scale.
        if sentence != scales.magnitude_warning(found.x, found.inputs):
            warnings.warn(sentence, stacklevel=3)
    return found


def _read(source: Any, choice: Choice) -> RawSamples | CharacterWindows:
    if isinstance(source, str | Path):
        return read_path(Path(source).expanduser(), choice)
    if is_torch_dataset(source):
        return torch_samples(source, choice)
    return table_source(table_of(source, choice), choice)


def _samples_data(samples: RawSamples, kind: str, scale: str) -> OwnData:
    """Inputs side by side, finite and on the scale that was asked for; labels in the form of their kind."""
    x = _inputs(samples)
    _check_finite(x, samples)
    labels = encode_labels(samples.labels, x, kind, samples.place)
    owner, owners = _owners(samples)
    warned = [*samples.warnings, *labels.warnings]
    if len(owners) == 1 and len(x) > 1:
        cure = "give samples of more owners, or name another column with owner=.."
        warned.append(f"data: all {len(x):,} samples belong to one owner, {printable(owners[0], 40)!r}; {cure}")
    y, target_scale, input_scale = labels.y, (), None
    if scale == "standard":
        input_scale = scales.fit_scale(x, owner=owner)
        x = scales.apply_scale(x, input_scale)
        if labels.kind is REGRESSION:
            fit = scales.fit_scale(y, owner=owner)
            y, target_scale = scales.apply_scale(y, fit), tuple(zip(fit.mean.tolist(), fit.sd.tolist(), strict=True))
    else:
        sentence = scales.magnitude_warning(x, samples.input_names)
        warned += [sentence] if sentence else []
    time = None if samples.time is None else samples.time.values.astype(np.float64)
    names = samples.input_names
    return OwnData(x, y, owner, labels.names, owners, labels.kind, names, time, tuple(warned), (), target_scale, input_scale)


def _windows_data(found: CharacterWindows) -> OwnData:
    owner = found.owner if found.owners else None
    warned, vocabulary = found.warnings, found.vocabulary
    return OwnData(found.x, found.y, owner, vocabulary, found.owners, NEXT_TOKEN, warnings=warned, vocabulary=vocabulary)


def _inputs(samples: RawSamples) -> Array:
    """Columns side by side. Numbers of tables keep float64, so that a later scale finds all their digits; all else is float32."""
    first = samples.inputs[0].values
    if len(samples.inputs) == 1 and first.ndim > 1:
        if first.dtype.kind in "iu" and samples.labels[0].values.shape == first.shape:
            return first.astype(np.int64)  # tokens, with a label for each
        is_table = first.ndim == 2 and first.dtype.itemsize == 8
        return first.astype(np.float64 if is_table else np.float32)
    blocks = [column.values if column.values.ndim == 2 else column.values[:, None] for column in samples.inputs]
    return np.concatenate(blocks, 1).astype(np.float64, copy=False)


def _check_finite(x: Array, samples: RawSamples) -> None:
    """Refuse what is infinite, or will be in float32, by its place."""
    most = np.finfo(np.float32).max
    if x.dtype.kind != "f" or (-most < x.min() and x.max() < most):
        return
    wrong = ~(np.abs(x.reshape(len(x), -1)) < most)
    rows = np.flatnonzero(wrong.any(1))
    column = int(wrong[rows[0]].argmax())
    name = f"column {samples.input_names[column]}" if samples.input_names else f"value {column}"
    raise BadInput(
        f"data: {samples.place(int(rows[0]))}, {name}: {x.reshape(len(x), -1)[rows[0], column]} is not finite in float32, as are "
        f"inputs of "
        f"{len(rows):,} of {len(x):,} samples; correct them, or leave the column out"
    )


def _owners(samples: RawSamples) -> tuple[Ints | None, tuple[str, ...]]:
    """Who made each sample, in numbers, and the names of those who made any."""
    if samples.owner is None:
        return None, ()
    used, owner = np.unique(samples.owner.values, return_inverse=True)
    people: tuple[str, ...] = samples.owner.words
    return owner.astype(np.int64), tuple(people[i] for i in used)


def _check_word(what: str, word: Any, known: Sequence[str]) -> None:
    if word not in known:
        words = ", ".join(f'"{one}"' for one in known)
        hint = suggest_name(str(word), known).partition("; known")[0]
        raise BadInput(f"data: {what} = {word!r} is not one of {words}{hint}")


def _names(what: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise BadInput(
            f"data: {what} = {given!r} is not the name of a column, or a list of different names; write {what}=['a', 'b']"
        )
    return names


def _name(what: str, given: Any) -> str | None:
    if given is not None and (not isinstance(given, str) or not given):
        raise BadInput(f"data: {what} = {given!r} is not the name of a column; write {what}='NAME'")
    return given
