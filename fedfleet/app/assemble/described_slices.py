"""Slices of a described model: the widths that a method cuts, as data, for devices that cannot build the model themselves.

A method that cuts the model (HeteroFL, FjORD) or sorts its layers by their work (TimelyFL) asks for the model's shape at a share of
its width. A server asks PyTorch; a device without it finds the answers in its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fedfleet.app.assemble.algorithm import Facts, facts_for, table_for
from fedfleet.app.spec.table_checks import Table, build_part
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.limits import MAX_COUNT
from fedfleet.core.part_facts import FleetFacts, ModelShape
from fedfleet.core.parts import Algorithm, Job
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints
from fedfleet.tasks.description.format import ModelDescription, description_from_json

if TYPE_CHECKING:
    from fedfleet.app.assemble.setup import Setup

_MOST_WIDTHS = 32


# ---- on the server ------------------------------------------------------------------------------------------------


def slice_entries(setup: Setup) -> Table:
    """The shapes and the descriptions of the model at all widths that this run's method asks for, its overrides included."""
    from fedfleet.tasks.description.tracer import describe_task

    shapes = _asked_shapes(setup)
    if not shapes:
        return {}
    narrow = [width for width in shapes if width != 1.0]
    return {
        "shapes": {repr(width): _shape_to_table(shape) for width, shape in shapes.items()},
        "slices": {repr(width): describe_task(setup.task, width).to_json() for width in narrow},
    }


def _asked_shapes(setup: Setup) -> dict[float, ModelShape]:
    spec, world, asked = setup.spec, setup.world, dict[float, ModelShape]()
    facts = facts_for(spec, setup.task, world, setup.plan.byte_scale)
    fleet: FleetFacts = facts[FleetFacts]
    shape_of = fleet.model
    assert shape_of is not None

    def remember(width: float) -> ModelShape:
        asked[width] = shape_of(width)
        return asked[width]

    recording = {**facts, FleetFacts: replace(fleet, model=remember)}
    tables: list[Table] = []
    for client in range(len(world.keys)) if spec.override else (0,):
        table = table_for(spec, client, world.devices.kinds[client])
        if table not in tables:
            tables.append(table)
            # Without the noise, which decides nothing about shapes and may still have to be solved for.
            _ask_all(build_part("algorithms", {**table, "private": None} if "private" in table else table, recording), setup)
    return asked


def _ask_all(algorithm: Algorithm, setup: Setup) -> None:
    """Use an algorithm as a device does, so that it asks for every shape that it needs there."""
    server = algorithm.init(setup.plan.params)
    local, offer = algorithm.local(0, NO_SETTINGS), algorithm.offer(server, 0, NO_SETTINGS)
    algorithm.fold.like(server)
    job = Job(0, 0, int(setup.world.keys[0]), setup.plan.seed, offer, local, np.zeros(1, np.int64))
    for hook in local.before if isinstance(local, LocalPass) else ():
        job = hook(job)


def _shape_to_table(shape: ModelShape) -> Table:
    places = {name: [_runs(at) for at in axes] for name, axes in shape.places.items()}
    return {"places": places, "work": dict(shape.work), "activations": shape.activations}


def _runs(at: Ints) -> list[list[int]]:
    """Ascending places as runs of neighbours: where each begins, and how long it is.

    >>> _runs(np.array([0, 1, 4, 5, 6])), _runs(np.array([], np.int64))
    ([[0, 2], [4, 3]], [])
    """
    if not len(at):
        return []
    begins = np.flatnonzero(np.diff(at, prepend=at[0] - 2) != 1)
    lengths = np.diff(begins, append=len(at))
    return [[int(at[b]), int(n)] for b, n in zip(begins, lengths, strict=True)]


# ---- on the device ------------------------------------------------------------------------------------------------


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


def with_shapes(facts: Facts, entry: Mapping[str, Any]) -> Facts:
    """What builders may ask, with the shapes of the configuration instead of those of a model that is built here."""
    return {**facts, FleetFacts: replace(facts[FleetFacts], model=partial(_cached, {}, shape_reader(entry)))}


def _cached(known: dict[float, ModelShape], shape_of: Callable[[float], ModelShape], width: float) -> ModelShape:
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
    """The inverse of `_runs`, bounded: a server must not fill a device's memory with a line of text."""
    pairs = [(int(begin), int(length)) for begin, length in runs]
    if any(begin < 0 or length < 0 for begin, length in pairs) or sum(length for _, length in pairs) > MAX_COUNT:
        raise Refused("the server describes a slice of its model with impossible places")
    return np.concatenate([np.arange(begin, begin + length) for begin, length in pairs] or [np.zeros(0, np.int64)])
