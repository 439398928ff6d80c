"""Columns of a table, and which of them are inputs, labels, owners and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, printable, suggest_name
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array

LABELS = ("label", "labels", "y", "class", "target", "activity", "fine_label")
INPUTS = ("x", "image", "img", "features", "input", "inputs", "pixel_values", "data", "signal")
OWNERS = frozenset(
    ("owner", "user", "userid", "client", "clientid", "person", "personid", "subject", "subjectid", "participant", "patient",
     "patientid", "volunteer", "worker", "customer", "household", "speaker", "writer", "rider", "driver", "device", "deviceid")
)  # fmt: skip
_NUMBER_WORDS = ("id", "no", "nr", "number", "name", "code", "key", "index")
MISSING = frozenset(("", "?", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None"))
YES, NO = frozenset(("yes", "true")), frozenset(("no", "false"))
# What other programs call a number and people do not, such as 1_000 or infinity, is none.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_SHOWN = 40  # characters of a cell, and names of columns, in a sentence


@dataclass(frozen=True, slots=True)
class Column:
    """One column: numbers are float64, NaN where one is missing; text is places in `names`, -1 where it is missing; everything else
    is arrays, one for each sample.

    `fixed`: the source itself lists the names, so that their order and those that do not occur count too.
    """

    name: str
    values: Array
    names: tuple[str, ...] | None = None
    fixed: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The names, none of numbers and arrays."""
        return () if self.names is None else self.names

    def missing(self) -> Array:
        """Which samples lack a value."""
        if self.names is not None:
            return self.values < 0
        if self.values.dtype.kind != "f":
            return np.zeros(len(self.values), bool)
        return np.asarray(np.isnan(self.values).reshape(len(self.values), -1).any(1))

    def rows(self, rows: Array) -> Column:
        """The same column of some of the samples."""
        return replace(self, values=self.values[rows])


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length. `place(row)` says where a sample stands, such as `my.csv: line 3`; `last`: without a column that is
    called label, the last one is the label."""

    where: str
    columns: tuple[Column, ...]
    place: Callable[[int], str]
    last: bool = True
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of this name."""
        return self.columns[self.names.index(name)]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person asked for: names of columns, or None to go by their names; the kind of task; the places of a window of text;
    columns that are left out."""

    input: tuple[str, ...] | None = None
    label: tuple[str, ...] | None = None
    owner: str | None = None
    time: str | None = None
    kind: str = "auto"
    context: int = 32
    drop: tuple[str, ...] = ()

    def text_columns(self) -> frozenset[str]:
        """Columns that are text even where they hold digits alone."""
        texts = (self.input or ()) if self.kind == "next_token" else ()
        return frozenset((*texts, *((self.owner,) if self.owner else ())))


def column_of(name: str, values: Sequence[Any] | Array, where: str = "") -> Column:
    """A column of plain values of Python or numpy: numbers, truth values, text, or nothing at all for one that is missing.

    >>> column_of("a", ["walk", None, "run"]).names, column_of("a", ["walk", None, "run"]).values.tolist()
    (('run', 'walk'), [1, -1, 0])
    >>> column_of("a", [1, None, True]).values.tolist()
    [1.0, nan, 1.0]
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return Column(name, values.astype(np.float64))
    cells = np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)
    try:
        if not any(isinstance(cell, str | bytes) for cell in cells):
            return Column(name, np.array([np.nan if _is_none(cell) else cell for cell in cells], np.float64))
    except (ValueError, TypeError, OverflowError):
        odd = next((i for i, cell in enumerate(cells) if not _is_none(cell) and not isinstance(cell, int | float)), 0)
        raise BadInput(
            f"data: {where}column {name!r}: sample {odd} is {printable(str(cells[odd]), _SHOWN)!r}, neither a number nor text; "
            f"convert it first"
        ) from None
    return text_column(name, ["" if _is_none(cell) else _as_text(cell) for cell in cells])


def text_column(name: str, cells: Sequence[str]) -> Column:
    """A column of text: the names in their order, and where each cell stands among them."""
    index: dict[str, int] = {}
    codes = np.fromiter((index.setdefault(cell.strip(), len(index)) for cell in cells), np.int64, len(cells))
    return coded_column(name, codes, list(index))


def coded_column(name: str, codes: Ints, values: Sequence[str]) -> Column:
    """A column of text from places in a list of values, in any order, some of which may stand for a missing one."""
    names = tuple(sorted({value for value in values if value not in MISSING}))
    place = {value: i for i, value in enumerate(names)}
    table = np.array([place.get(value, -1) for value in values] or [-1], np.int64)
    return Column(name, table[codes], names)


def label_columns(names: Sequence[str], wanted: tuple[str, ...] | None, *, last: bool) -> tuple[str, ...]:
    """The columns of labels: as asked, or one that is called so; `last`: else the last one."""
    if wanted is not None:
        for name in wanted:
            check_column(names, name, "label")
        return wanted
    matches = [name for word in LABELS for name in names if name.strip().lower() == word]
    if matches:
        return (matches[0],)
    if last and names:
        return (names[-1],)
    raise BadInput(f"data: none of the columns {listed(names)} is called label; name the column of labels with label=..")


class UnknownColumn(BadInput):
    """A column that a table does not have; `hint` names the nearest one, where one is near."""

    def __init__(self, what: str, column: str, names: Sequence[str], hint: str) -> None:
        super().__init__(f"data: {what}={column!r} is not one of the columns {listed(names)}{hint}")
        self.what, self.column, self.hint = what, column, hint


def check_column(names: Sequence[str], column: str, what: str) -> None:
    """Refuse a column that is not there."""
    if column not in names:
        hint = suggest_name(column, names).partition("; known")[0]
        owners = [name for name in names if names_owner(name)] if what == "owner" and not hint else []
        hint = f"; did you mean {owners[0]!r}?" if owners else hint
        raise UnknownColumn(what, column, names, hint)


def names_owner(name: str) -> bool:
    """Is a column with this name likely to say who made each sample?

    >>> [names_owner(name) for name in ("person", "User ID", "patient_no", "personality")]
    [True, True, True, False]
    """
    words = [word for word in re.split(r"[^a-z]+", name.strip().lower()) if word and word not in _NUMBER_WORDS]
    return len(words) == 1 and words[0] in OWNERS


def check_choice(names: Sequence[str], choice: Choice, labels: tuple[str, ...]) -> None:
    """Refuse columns that are not there, or that are asked to be two things."""
    asked = [("input", name) for name in choice.input or ()]
    asked += [("owner", choice.owner)] * (choice.owner is not None) + [("time", choice.time)] * (choice.time is not None)
    asked += [("drop", name) for name in choice.drop]
    if choice.input is not None and choice.drop:
        raise BadInput("data: input=[..] names the columns that are read, so drop=.. has nothing to leave out; leave drop=.. out")
    for what, name in asked:
        check_column(names, str(name), what)
    roles: dict[str, str] = dict.fromkeys(labels, "label")
    for what, name in asked:
        if what != "time" and roles.setdefault(str(name), what) != what:
            raise BadInput(
                f"data: the column {name!r} cannot be both {what} and {roles[str(name)]}; name others with {what}=.. and "
                f"{roles[str(name)]}=.."
            )


def listed(names: Sequence[str]) -> str:
    """Names in a sentence, not more than people read."""
    more = f", .. ({len(names):,} in all)" if len(names) > _SHOWN else ""
    return ", ".join(printable(name, _SHOWN) for name in names[:_SHOWN]) + more


def odd_cell(column: Column, fits: Callable[[str], bool]) -> tuple[int, str] | None:
    """The first sample whose text does not fit, and the text."""
    wrong = [i for i, name in enumerate(column.words) if not fits(name)]
    rows = np.flatnonzero(np.isin(column.values, wrong))
    return (int(rows[0]), column.words[int(column.values[rows[0]])]) if len(rows) else None


def is_number(text: str) -> bool:
    """Does this text stand for a number?

    >>> [is_number(text) for text in ("1.5e3", " -2", "1_000", "inf", "1,5")]
    [True, True, False, False, False]
    """
    return NUMBER.fullmatch(text.strip()) is not None


def _has_no_comma(text: str) -> bool:
    return COMMA_NUMBER.fullmatch(text) is None


def is_flag(name: str) -> bool:
    """Is this one of yes, no, true and false?"""
    return name.lower() in YES or name.lower() in NO


def flag_values(column: Column) -> Array:
    """Yes and true as 1, no and false as 0, NaN where one is missing."""
    table = np.array([*(float(name.lower() in YES) for name in column.words), np.nan])
    return table[column.values]


def refuse_odd_number(column: Column, place: Callable[[int], str], cure: str) -> None:
    """Refuse text in a column most of which is numbers: a mistake in a cell, and no name of anything."""
    found = odd_number(column)
    if found is None:
        return
    where = f"data: {place(found[0])}, column {column.name}: {printable(found[1], _SHOWN)!r}"
    if COMMA_NUMBER.fullmatch(found[1]) is not None:
        raise BadInput(f"{where} has a comma in a number; save the file with decimal points and without separators of thousands")
    raise BadInput(f"{where} is not a number; {cure}")


def odd_number(column: Column) -> tuple[int, str] | None:
    """The first sample of a column most of which is numbers whose text is none, or has a decimal comma; and the text."""
    names = column.words
    counts = np.bincount(column.values[column.values >= 0], minlength=len(names))
    for pattern in (COMMA_NUMBER, NUMBER):
        likes = np.array([pattern.fullmatch(name) is not None for name in names], bool)
        if 2 * counts[likes].sum() < max(counts.sum(), 1):
            continue
        found = odd_cell(column, _has_no_comma if pattern is COMMA_NUMBER else is_number)
        if found is not None:
            return found
    return None


def keys_of(source: Any) -> Mapping[str, Any] | None:
    """How a table of another library calls each of its columns; None where it is no table. Pandas numbers those that nobody "
    "named."""
    names = getattr(source, "column_names", None)
    names = getattr(source, "columns", None) if names is None else names
    if names is None or isinstance(names, Mapping):
        return names
    return {str(name): name for name in names}


def _is_none(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in ("NAType", "NaTType")


def _as_text(cell: Any) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
