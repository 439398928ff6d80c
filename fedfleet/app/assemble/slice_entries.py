"""The widths at which a method cuts the model, as data: what a server sends to devices that cannot build the model themselves.

A method that cuts the model (HeteroFL, FjORD) or sorts its layers by their work (TimelyFL) asks for the model's shape at a share of
its width. A server asks PyTorch, and writes the answers into the configuration; `described_slices` reads them on the device.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.app.assemble.algorithm import facts_for, table_for
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.spec.table_checks import Table, build_part
from fedfleet.core.part_facts import FleetFacts, ModelShape
from fedfleet.core.parts import Algorithm, Job
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints


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
