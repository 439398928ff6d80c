"""Datasets of other libraries: Hugging Face and pandas by their columns, PyTorch sample by sample. None of them is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, printable
from fedfleet.core.trees import Array
from fedfleet.tasks.data_checks import error_line
from fedfleet.tasks.user_data.array_files import array_samples, label_column
from fedfleet.tasks.user_data.client_folders import KINDS
from fedfleet.tasks.user_data.columns import INPUTS, LABELS, Choice, Column, Table, column_of, keys_of, listed
from fedfleet.tasks.user_data.raw_samples import RawSamples

MOST_SAMPLES = 10_000_000  # of a stream that may never end
_OWNERS = ("owner", "user", "client")


def table_of(source: Any, choice: Choice) -> Table:
    """An object with `column_names` (Hugging Face) or `columns` (pandas) as a table, with the columns that are needed."""
    keys = keys_of(source)
    where = type(source).__name__
    if isinstance(getattr(source, "column_names", None), Mapping) or isinstance(getattr(source, "columns", None), Mapping):
        first = next(iter(keys or ()), "train")
        raise BadInput(
            f"data: this contains the splits {', '.join(map(str, keys or ()))}; give one of them, such as dataset[{first!r}]"
        )
    if keys is None or not hasattr(source, "__len__"):
        raise BadInput(
            f"data: {where} cannot be read; give {KINDS}, a table with columns that is completely in memory (not streaming), a "
            f"PyTorch "
            "Dataset or DataLoader, or give arrays to fedfleet.run: data=(inputs, labels)"
        )
    if len(source) == 0:
        raise BadInput(f"data: {where} is empty; give at least one sample")
    if len(set(keys)) < len(list(getattr(source, "columns", keys))):
        raise BadInput(f"data: {where} has two columns of one name ({listed(tuple(keys))}); give each column a name of its own")
    columns = tuple(_column(source, name, key, choice) for name, key in keys.items() if _is_needed(name, choice))
    return Table(where, columns, lambda row: f"{where}: sample {row}", last=False)


def _is_needed(name: str, choice: Choice) -> bool:
    """Pictures of a column that nobody asked for would be decoded for nothing."""
    if choice.input is None or choice.label is None:
        return True
    return name in (*choice.input, *choice.label, choice.owner, choice.time)


def _column(source: Any, name: str, key: Any, choice: Choice) -> Column:
    try:
        raw = source[key]
    # Whatever another library raises while it decodes a sample.
    except Exception as error:
        raise BadInput(
            f"data: the column {name!r} cannot be read: {error_line(error)}; name others with input=.. and label=.."
        ) from None
    names = _class_names(source, name, raw)
    values = raw.to_numpy() if hasattr(raw, "to_numpy") else raw if isinstance(raw, np.ndarray) else list(raw)
    if names and name not in choice.text_columns():
        codes = values if names[1] is None else names[1]
        return label_column(name, codes, names[0])
    known = [v for v in islice(values, 100) if v is not None]
    nested = bool(known) and (hasattr(known[0], "__len__") or hasattr(known[0], "getbands"))
    nested = nested and not isinstance(known[0], str | bytes | Mapping)
    if nested:
        return Column(name, nested_values(values, name))
    if name in choice.text_columns():
        return column_of(name, [None if v is None or v != v else str(v) for v in values])
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return Column(name, np.where(np.isnat(values), np.nan, values.astype("datetime64[us]").astype(np.int64) / 1e6))
    if known and not isinstance(known[0], str | bytes | int | float | np.number | np.bool_):
        return Column(name, _objects(values))
    return column_of(name, values)


def _objects(values: Any) -> Array:
    """What cannot be read, for a refusal: only where somebody asks for this column."""
    objects = np.empty(len(values), object)
    for i, value in enumerate(values):
        objects[i] = value
    return objects


def _class_names(source: Any, name: str, raw: Any) -> tuple[tuple[str, ...], Any] | None:
    """The names that a dataset's own features have for the numbers of a column, or a categorical series of pandas, with its "
    "codes."""
    features = getattr(source, "features", None)
    names = getattr(features[name], "names", None) if isinstance(features, Mapping) and name in features else None
    if names:
        return tuple(map(str, names)), None
    categories = getattr(raw, "cat", None)
    if categories is not None and hasattr(categories, "categories") and hasattr(categories, "codes"):
        return tuple(map(str, categories.categories)), np.asarray(categories.codes)
    return None


def nested_values(column: Any, name: str) -> Array:
    """Arrays or pictures of a column as one array; pictures become channels first, from 0 to 1."""
    values = list(column)
    picture = hasattr(values[0], "getbands")  # pictures of PIL, which datasets decode to
    rows = [_row(value, i, name) for i, value in enumerate(values)]
    odd = next((i for i, row in enumerate(rows) if row.shape != rows[0].shape), None)
    if odd is not None:
        raise BadInput(
            f"data: column {name!r}: sample {odd} has the shape {rows[odd].shape}, but sample 0 has {rows[0].shape}; give all "
            f"samples the "
            "same shape"
        )
    x = np.stack(rows)
    if not picture:
        return x
    return np.moveaxis(x, -1, 1).astype(np.float32) / 255.0 if x.ndim == 4 else x[:, None].astype(np.float32) / 255.0


def _row(value: Any, i: int, name: str) -> Array:
    if value is None:
        raise BadInput(f"data: column {name!r}: sample {i} is empty; fill it in or delete it")
    try:
        row = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (ValueError, TypeError, RuntimeError):
        raise BadInput(f"data: column {name!r}: sample {i} has rows of different length; give all rows the same length") from None
    if row.dtype.kind not in "fiub":
        raise BadInput(
            f"data: column {name!r}: sample {i} is not an array of numbers but {printable(str(value), 40)!r}; convert it into "
            f"numbers first"
        )
    return row


def is_torch_dataset(source: Any) -> bool:
    """Is this a Dataset or a DataLoader of PyTorch?"""
    return any(base.__module__.startswith("torch.utils.data") for base in type(source).__mro__)


def torch_samples(source: Any, choice: Choice) -> RawSamples:
    """The samples of a Dataset, in its order: (x, y), (x, y, owner), or dictionaries with these names.

    Of a DataLoader, those of its dataset: how it draws and shuffles does not matter.
    """
    dataset = source.dataset if hasattr(source, "dataset") and hasattr(source, "batch_size") else source
    where = type(dataset).__name__
    parts: tuple[list[Any], list[Any], list[Any], list[Any]] = ([], [], [], [])
    pick: Callable[[Any], tuple[Any, ...]] | None = None
    count = 0
    for i, sample in enumerate(_each(dataset, where)):
        pick = pick or _parts_of(sample, where, choice)
        try:
            picked = pick(sample)
        except (KeyError, IndexError, TypeError, ValueError):
            raise BadInput(f"data: sample {i} of {where} is not like the first one; give all samples the same parts") from None
        for values, part in zip(parts, picked, strict=False):
            values.append(part)
        count = i + 1
    if not count:
        raise BadInput(f"data: {where} has no samples; give at least one")
    x, y, owner, time = parts
    inputs = nested_values([v if hasattr(v, "getbands") else np.atleast_1d(_row(v, i, "x")) for i, v in enumerate(x)], "x")
    plain = [_plain(value) for value in y]
    classes = _feature_names(dataset, choice) or getattr(dataset, "classes", None)
    names = tuple(map(str, classes)) if isinstance(classes, list | tuple) and not isinstance(plain[0], str) else ()
    if names and (np.ndim(plain[0]) or len(names) <= max(_number(v) for v in plain)):
        names = ()
    return array_samples(
        where, inputs, plain, [_plain(v) for v in owner] or None, [_plain(v) for v in time] or None, ("x", "y"), names
    )


def _feature_names(dataset: Any, choice: Choice) -> tuple[str, ...] | None:
    """The names of classes that a stream of Hugging Face has in its features."""
    features = getattr(dataset, "features", None)
    if not isinstance(features, Mapping):
        return None
    name = _key(tuple(map(str, features)), choice.label, LABELS, "label")
    return tuple(map(str, getattr(features[name], "names", None) or ())) or None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else np.inf


def _each(dataset: Any, where: str) -> Iterator[Any]:
    """Samples by their places; those of a stream until it ends."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        at = -1
        try:
            for at, sample in enumerate(iter(dataset)):
                if at == MOST_SAMPLES:
                    raise BadInput(
                        f"data: {where} has more than {MOST_SAMPLES:,} samples, or no end; give fewer, for example by "
                        f"itertools.islice"
                    )
                yield sample
        except BadInput:
            raise
        # The code of whoever wrote the dataset may raise anything.
        except Exception as error:
            raise BadInput(f"data: sample {at + 1} of {where} cannot be read: {error_line(error)}; correct the dataset") from error
        return
    for i in range(len(dataset)):
        try:
            sample = dataset[i]
        # As above.
        except Exception as error:
            raise BadInput(f"data: sample {i} of {where} cannot be read: {error_line(error)}; correct the dataset") from error
        yield sample


def _parts_of(sample: Any, where: str, choice: Choice) -> Callable[[Any], tuple[Any, ...]]:
    """How inputs, label, owner and time are taken from each sample, by the first one."""
    if isinstance(sample, Mapping):
        names = tuple(map(str, sample))
        asked = (_key(names, choice.input, INPUTS, "input"), _key(names, choice.label, LABELS, "label"))
        owner = choice.owner or next((name for name in _OWNERS if name in names), None)
        for what, name in (("owner", owner), ("time", choice.time)):
            if name is not None and name not in names:
                raise BadInput(
                    f"data: {what}={name!r} is not one of the parts {listed(names)} of a sample of {where}; name another"
                )
        return lambda one: (
            tuple(one[name] for name in (*asked, *((owner,) if owner else ())))
            + ((*(() if owner else (None,)), one[choice.time]) if choice.time else ())
        )
    for what in ("input", "label", "owner", "time", "drop"):
        if getattr(choice, what):
            raise BadInput(f"data: samples of {where} have no names, so {what}=.. has no meaning here; leave it out")
    if isinstance(sample, list | tuple) and len(sample) in (2, 3):
        size = len(sample)

        def pick(one: Any) -> tuple[Any, ...]:
            if len(one) != size:
                raise ValueError
            return tuple(one)

        return pick
    given = f"{len(sample)} things" if isinstance(sample, list | tuple) else f"a {type(sample).__name__}"
    raise BadInput(f"data: a sample of {where} is {given}; give (x, y), (x, y, owner) or a dictionary with these names")


def _key(names: tuple[str, ...], asked: tuple[str, ...] | None, known: tuple[str, ...], what: str) -> str:
    one, *others = asked or (None,)
    if others or (one is not None and one not in names):
        raise BadInput(
            f"data: {what}={listed(asked or ())!r} is not one of the parts {listed(names)} of a sample; name one of them"
        )
    found = one or next((name for word in known for name in names if name.lower() == word), None)
    if found is None:
        raise BadInput(f"data: none of the parts {listed(names)} of a sample is called {known[0]}; name one with {what}=..")
    return found


def _plain(value: Any) -> Any:
    """A label or an owner as Python or numpy has it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return value.item() if hasattr(value, "item") and np.size(value) == 1 and np.ndim(value) == 0 else value
