"""Slices of a described model on a device: the shapes and the descriptions that its configuration holds (`slice_entries`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.limits import MAX_COUNT
from fedfleet.core.part_facts import FleetFacts, ModelShape
from fedfleet.core.records import Ints
from fedfleet.tasks.description.format import ModelDescription, description_from_json

_MOST_WIDTHS = 32


def shape_reader(entry: Mapping[str, Any]) -> Callable[[float], ModelShape]:
    """The model's shape at the widths that a configuration holds; `BadInput` for another."""
    shapes = _widths(entry, "shapes")

    def shape_of(width: float) -> ModelShape:
        if width not in shapes:
            raise BadInput(f"the server does not describe the model at the width {width:g}; install the same version on both sides")
        return _shape_from_table(shapes[width])

    return shape_of


def describer(entry: Mapping[str, Any], whole: ModelDescription) -> Callable[[float], ModelDescription]:
    """The model at the widths that a configuration describes."""
    slices = _widths(entry, "slices")

    def describe(width: float) -> ModelDescription:
        if width == 1.0:
            return whole
        if width not in slices:
            raise BadInput(f"the server does not describe the model at the width {width:g}; start this device with --engine torch")
        return description_from_json(str(slices[width]))

    return describe


def with_shapes(facts: Mapping[Any, Any], entry: Mapping[str, Any]) -> Mapping[Any, Any]:
    """What builders may ask, with the shapes of the configuration instead of those of a model that is built here."""
    return {**facts, FleetFacts: replace(facts[FleetFacts], model=partial(_shape_at, {}, shape_reader(entry)))}


def _shape_at(known: dict[float, ModelShape], shape_of: Callable[[float], ModelShape], width: float) -> ModelShape:
    if width not in known:
        known[width] = shape_of(width)
    return known[width]


def _widths(entry: Mapping[str, Any], name: str) -> dict[float, Any]:
    table = entry.get(name, {})
    if not isinstance(table, Mapping) or len(table) > _MOST_WIDTHS:
        raise Refused("the server describes its model at widths in a form that this version cannot read")
    return {float(width): value for width, value in table.items()}


def _shape_from_table(table: Mapping[str, Any]) -> ModelShape:
    places = {str(name): tuple(_places(runs) for runs in axes) for name, axes in table["places"].items()}
    return ModelShape(places, {str(n): float(v) for n, v in table["work"].items()}, float(table["activations"]))


def _places(runs: Any) -> Ints:
    """The inverse of `slice_entries`' runs, bounded: a server must not fill a device's memory with a line of text."""
    pairs = [(int(begin), int(length)) for begin, length in runs]
    if any(begin < 0 or length < 0 for begin, length in pairs) or sum(length for _, length in pairs) > MAX_COUNT:
        raise Refused("the server describes a slice of its model with impossible places")
    return np.concatenate([np.arange(begin, begin + length) for begin, length in pairs] or [np.zeros(0, np.int64)])
