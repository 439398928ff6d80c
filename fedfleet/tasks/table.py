"""The task of a person's own data: a file or folder of samples, and a model that ships with FedFleet or that they wrote."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.core.errors import BadInput, CurableInput, nearest_file, suggest_name
from fedfleet.core.kinds import CLASSIFICATION, REGRESSION, Kind, KindName
from fedfleet.core.limits import Count, Width
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.pins import pinned
from fedfleet.core.records import Ints
from fedfleet.core.rng import stream
from fedfleet.tasks.file_hash import path_hash
from fedfleet.tasks.model_code import CodeName, code_name, current_hash, model_maker
from fedfleet.tasks.onnx_model import is_onnx, onnx_net, onnx_place, with_file_weights
from fedfleet.tasks.task import HOLDOUT_SHARE, Net, Recipe, TaskRecipe, fit_task, hold_out, require_torch
from fedfleet.tasks.user_data.labels import OBVIOUS
from fedfleet.tasks.user_data.samples import OwnData, data
from fedfleet.tasks.user_data.scale import apply_scale, fit_scale, magnitude_warning

TestName = Literal["random", "owner", "time"]
_SAMPLE_MODELS, _SEQUENCE_MODELS = ("linear", "mlp", "cnn"), ("gpt", "lstm")
MODELS = ("auto", *_SAMPLE_MODELS, *_SEQUENCE_MODELS)
_HEADS = 4
# What a refusal of the reader calls a parameter is a key of the task here.
_READING_KEY = re.compile(r"\b((?:missing|label|owner|input|drop|time|kind|context|scale) ?=)")
_SMALLEST_PICTURE = 8  # pixels, of a picture that a convolutional network reads by default


@dataclass(frozen=True, slots=True)
class TableSource:
    """A file or folder of samples, and how its columns are read; `content` is its hash."""

    path: str
    content: str
    label: tuple[str, ...] | None
    owner: str | None
    input: tuple[str, ...] | None
    time: str | None
    kind: str
    missing: str
    context: int
    drop: tuple[str, ...] = ()


def pin_files(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the hashes of its data and of its model's code, where it has none yet: then it means these, for ever."""
    if not table["path"]:
        raise BadInput("task.path: name the file or folder with your samples, for example task.path=my.csv, or --data my.csv")
    data_pin = (
        {} if table.get("content") else {"path": str(_existing(table["path"])), "content": path_hash(_existing(table["path"]))}
    )
    if is_onnx(table["model"]):
        place = onnx_place(table["model"])
        return {**table, **data_pin, "model": str(place), "code": table.get("code") or path_hash(place)}
    named = code_name(table["model"])
    if named is None or not named.file:
        return {**table, **data_pin}
    place = {"model": f"{Path(named.file).expanduser().absolute()}:{named.name}"}
    return {**table, **data_pin, **place, "code": table.get("code") or current_hash(named)}


def _existing(path: str, again: str = "") -> Path:
    found = Path(path).expanduser().absolute()
    if not found.exists():
        raise BadInput(f"task.path: there is no file or folder {path}{again or nearest_file(path)}")
    return found


def content_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """What of the table says what is trained on, wherever files lie."""
    named = code_name(str(table.get("model", "")))
    model = {"model": named.name} if named is not None and table.get("code") else {}
    if is_onnx(str(table.get("model", ""))) and table.get("code"):
        model = {"model": "onnx"}
    return {**{key: value for key, value in table.items() if key != "path"}, **model}


@pinned(pin_files, content_of)
def table(
    *,
    path: str = "",
    label: str | list[str] | None = None,
    owner: str | None = None,
    input: str | list[str] | None = None,
    drop: str | list[str] | None = None,
    time: str | None = None,
    kind: Literal["auto"] | KindName = "auto",
    missing: Literal["error", "drop", "mean"] = "error",
    scale: Literal["auto", "standard", "none"] = "auto",
    test: TestName = "random",
    model: str = "auto",
    hidden: Width = 64,
    context: Count = 32,
    content: str | None = None,
    code: str | None = None,
) -> TaskRecipe:
    """Your own data, in a file or a folder, with a small model by default or with your own.

    `label` and `owner` are columns, `input` those that the model sees (all others but `drop` by default), `time` orders samples.
    `scale` takes mean and deviation out of the inputs, and out of the numbers of a regression: by default for tables of numbers.
    A fifth of the samples is the central test set: at random, everything of some owners, or the latest samples of each owner.
    `model` is linear, mlp, cnn, gpt, lstm, or the place of your own, as in model.py:Net or net.onnx; `hidden` is the width of those
    that ship.
    `content` and `code` are the hashes of data and model, which FedFleet fills in.
    """
    source = TableSource(path, content or "", _names(label), owner, _names(input), time, kind, missing, context, _names(drop) or ())
    if is_onnx(model):
        require_torch()
        from fedfleet.tasks.own_model import own_recipe

        return with_file_weights(own_recipe(table_recipe(source, onnx_net(model, code), test=test, scale=scale)))
    named = code_name(model)
    if named is None and model not in MODELS:
        raise BadInput(
            f"task.model = {model!r} is no model{suggest_name(model, MODELS)}; or name your own, as in model.py:Net or net.onnx"
        )
    if named is not None:
        require_torch()
        from fedfleet.tasks.own_model import own_recipe

        return own_recipe(table_recipe(source, _own_net(named, code), test=test, scale=scale))
    return table_recipe(source, _net_of(model, hidden), test=test, scale=scale)


def table_recipe(source: TableSource, net: Net, *, test: TestName, scale: str) -> TaskRecipe:
    """The task of these samples with this model."""

    def load() -> Dataset:
        own = read_samples(source)
        return replace(own.dataset(), x=own.x, input_names=own.inputs)

    def hold(dataset: Dataset, seed: int) -> Ints:
        return held_out(dataset, seed, test, None if test != "time" else read_samples(source).time)

    def prepare(dataset: Dataset, test_rows: Ints) -> Dataset:
        return scaled(dataset, test_rows, scale)

    inner = fit_task("table", load, net, hold=hold, prepare=prepare)
    assert isinstance(inner, Recipe)

    def recipe(seed: int) -> Task:
        return replace(inner(seed), warnings=_reading_warnings(source))

    return Recipe(recipe, inner.here, inner.fit)


def _reading_warnings(source: TableSource) -> tuple[str, ...]:
    """What was odd about the samples when they were read; whether they need a scale is seen once they have one, or none."""
    own = read_samples(source)
    known = magnitude_warning(own.x, own.inputs)
    return tuple(_READING_KEY.sub(r"task.\1", one) for one in own.warnings if one != known and OBVIOUS not in one)


def _names(value: str | list[str] | None) -> tuple[str, ...] | None:
    return (value,) if isinstance(value, str) else None if value is None else tuple(value)


@lru_cache(maxsize=2)
def read_samples(source: TableSource) -> OwnData:
    """The samples of a source, read once a process; refused if they are not those that the spec means."""
    path = _existing(source.path, "; this run needs it: restore it, or give its new place with task.path=..")
    if source.content and path_hash(path) != source.content:
        raise BadInput(
            f"task.path: {source.path} has changed since this run was described; restore it, or begin a new run with the new "
            "samples (without task.content)"
        )
    input, label = (
        None if names is None else names[0] if len(names) == 1 else list(names) for names in (source.input, source.label)
    )
    try:
        return _read(path, source, input, label)
    except BadInput as error:
        text = _READING_KEY.sub(r"task.\1", str(error))
        raise (CurableInput(text, error.cure) if isinstance(error, CurableInput) else BadInput(text)) from None


def _read(path: Path, source: TableSource, input: Any, label: Any) -> OwnData:
    kind: Any = source.kind
    missing: Any = source.missing
    return data(
        path, input=input, label=label, owner=source.owner, drop=source.drop or None, time=source.time, kind=kind, missing=missing,
        context=source.context,
    )  # fmt: skip


def has_owners(table: Mapping[str, Any]) -> bool:
    """Do the samples of a resolved table say who made each of them?"""
    return table["owner"] is not None or read_samples(source_of(table)).owner is not None


def source_of(table: Mapping[str, Any]) -> TableSource:
    """How the samples of a resolved table are read."""
    keys = ("path", "owner", "time", "kind", "missing", "context")
    return TableSource(
        **{key: table[key] for key in keys},
        content=table["content"] or "",
        label=_names(table["label"]),
        input=_names(table["input"]),
        drop=_names(table.get("drop")) or (),
    )


def held_out(dataset: Dataset, seed: int, test: TestName, time: Any = None) -> Ints:
    """The rows of the central test set: a fifth at random, all of a fifth of the owners, or the latest fifth of each owner."""
    if test == "random":
        return hold_out(dataset, seed, 0)
    if test == "owner":
        if dataset.owner is None:
            raise BadInput('task.test = "owner": nobody says who made the samples; name the column with task.owner')
        return hold_out(dataset, seed, max(1, round(HOLDOUT_SHARE * len(np.unique(dataset.owner)))))
    if time is None:
        raise BadInput('task.test = "time": nothing says when the samples were made; name the column with task.time')
    owner = dataset.owner if dataset.owner is not None else np.zeros(len(dataset.y), np.int64)
    # Samples of one moment keep an order of their own, the same for each seed.
    ties = stream(0, "time").permutation(len(time))
    order = np.lexsort((ties, time, owner))
    sizes = np.bincount(owner)[np.unique(owner)]
    places = np.concatenate([np.arange(n) for n in sizes])
    most = np.repeat(sizes, sizes)
    return np.sort(order[places >= most - np.round(HOLDOUT_SHARE * most)])


def scaled(dataset: Dataset, test_rows: Ints, scale: str) -> Dataset:
    """The dataset with mean and deviation taken out, as the clients' samples have them; those of the test set do not count."""
    flat = dataset.x.ndim == 2 and dataset.x.dtype.kind == "f"
    if scale == "none" or (scale == "auto" and not flat):
        return replace(dataset, x=dataset.x if dataset.x.dtype.kind != "f" else dataset.x.astype(np.float32))
    if dataset.x.dtype.kind != "f":
        raise BadInput('task.scale = "standard": the inputs are tokens, which have no scale; leave task.scale out')
    rows = np.setdiff1d(np.arange(len(dataset.y)), test_rows)
    own = fit_scale(dataset.x, rows, dataset.owner)
    changed = replace(dataset, x=apply_scale(dataset.x, own), input_scale=(own.mean, own.sd))
    if dataset.kind is not REGRESSION or dataset.target_scale:
        return changed
    target = fit_scale(dataset.y, rows, dataset.owner)
    pairs = tuple(zip(target.mean.tolist(), target.sd.tolist(), strict=True))
    return replace(changed, y=apply_scale(dataset.y, target), target_scale=pairs)


# ---- models -----------------------------------------------------------------------------------------------------------


def _own_net(named: CodeName, digest: str | None) -> Callable[..., Any]:
    def net(shape: tuple[int, ...], classes: int) -> Any:
        return model_maker(named, digest or current_hash(named))(shape, classes)

    return net


def _net_of(model: str, hidden: int) -> Callable[..., Any]:
    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0, kind: Kind = CLASSIFICATION) -> Any:
        from fedfleet.tasks.narrow_models import units
        from fedfleet.tasks.nets import attention, small

        chosen = default_model(shape, kind) if model == "auto" else model
        _check_choice(chosen, shape, kind)
        match chosen:
            case "linear":
                return small.logistic_regression(math.prod(shape), classes)
            case "mlp":
                return small.perceptron(math.prod(shape), [units(hidden, scale)], classes)
            case "cnn":
                return small.TwoConvNet(shape, hidden, classes, scale=scale)
            case "gpt":
                width = units(max(_HEADS, hidden // _HEADS * _HEADS), scale, _HEADS)
                return attention.Gpt(classes, shape[0], width=width, depth=2, heads=_HEADS)
            case _:
                return small.CharLstm(classes, embedding=small.EMBEDDING, hidden=units(hidden, scale), layers=1, every_place=True)

    return net


def default_model(shape: tuple[int, ...], kind: Kind) -> str:
    """A small transformer for tokens, a convolutional network for pictures, a perceptron for everything else.

    >>> from fedfleet.core.kinds import NEXT_TOKEN
    >>> default_model((12,), CLASSIFICATION), default_model((3, 32, 32), CLASSIFICATION), default_model((32,), NEXT_TOKEN)
    ('mlp', 'cnn', 'gpt')
    """
    if kind.places:
        return "gpt"
    return "cnn" if len(shape) == 3 and min(shape[1:]) >= _SMALLEST_PICTURE else "mlp"


def _check_choice(model: str, shape: tuple[int, ...], kind: Kind) -> None:
    """Refuse a model that these samples cannot use."""
    if kind.places != (model in _SEQUENCE_MODELS):
        fitting = ", ".join(_SEQUENCE_MODELS if kind.places else _SAMPLE_MODELS)
        raise BadInput(f'task.model = "{model}" does not fit {kind.name}; use one of {fitting}, or your own, as in model.py:Net')
    if kind.places and len(shape) != 1:
        raise BadInput(
            f"task.model: the models that ship read tokens, and a sample has the shape {shape}; give your own, as in model.py:Net"
        )
    if model == "cnn" and (len(shape) != 3 or min(shape[1:]) < 4):
        raise BadInput(f'task.model = "cnn" needs pictures (channels, height, width), and a sample has the shape {shape}; use mlp')
