"""The configuration of one edge: its devices with what each trains, and how the edge adds their reports up.

The server makes it, and `network.edge.edge_plan` reads it.

Like that of a device it holds neither the world nor code: rules of edges stay with the server, which plans their turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedfleet.app.assemble.setup import Setup
from fedfleet.core.aggregation import plain_entry
from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import BadInput
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Ints, ServerState
from fedfleet.network.edge.edge_plan import CONFIG_FORMAT
from fedfleet.network.frontend.partial_sums import fold_layout, layout_to_json


def check_edges(setup: Setup) -> None:
    """Refuse what does not work with edges over the network, with one sentence each."""
    inside, name, method = nested_pass_of(setup), repr(setup.plan.algorithm.name), repr(setup.spec.algorithm["use"])
    algorithm, server = inside.algorithm, ServerState(setup.plan.params)
    offer, fold = algorithm.offer(server, 0, NO_SETTINGS), algorithm.fold
    plain = offer.params is server.params and not offer.extra and offer.encoded is None
    by_samples = fold.enter is plain_entry and not fold.partial and fold.noise is None and fold.least == 1
    refusals = (
        (bool(setup.spec.override), "[[override]] has no effect behind edges over the network; remove it, or simulate the run"),
        (bool(setup.task.frozen), "the model has frozen weights, which edges do not pass on to devices yet; use a task without a "
         "backbone, or simulate the run"),
        (not plain, f"{method} sends more than the model to devices, which edges do not pass on over the network; use another "
         "algorithm, or simulate the run"),
        (not by_samples, f"the fold of {method} weighs reports by more than their samples, which edges cannot do over the network; "
         "use the mean as algorithm.fold, or simulate the run"),
    )  # fmt: skip
    for refused, why in refusals:
        if refused:
            raise BadInput(f"edge.use = {name}: {why}")


def nested_pass_of(setup: Setup) -> NestedPass:
    """What the edges of a run do."""
    half = setup.plan.algorithm.local(0, NO_SETTINGS)
    assert isinstance(half, NestedPass)
    return half


# From a device's number, its key, its kind, and its training rows to its own part of its configuration.
DeviceEntries = Callable[[int, int, Ints], dict[str, Any]]


def edge_configs(setup: Setup, shared: Mapping[str, Any], device_entries: DeviceEntries) -> Callable[[int], bytes]:
    """The configurations of all edges, by number. `shared` is what the configurations of all devices have in common."""
    check_edges(setup)
    inside, world = nested_pass_of(setup), setup.world
    algorithm, fleet = inside.algorithm, inside.fleet
    layout = layout_to_json(fold_layout(algorithm.fold, ServerState(setup.plan.params)))

    def config_of(edge: int) -> bytes:
        if not 0 <= edge < len(world.keys):
            raise BadInput(f"there is no client {edge}: each client of this run is an edge, and there are {len(world.keys)}")
        devices, rows, slots = fleet.users.devices_of(edge), world.data.shard(edge, "train", 0), fleet.first_slots(edge)
        shards = [rows[slots == place] for place in range(len(devices))]
        keys = fleet.keys[devices].tolist()
        table = {
            "form": CONFIG_FORMAT,
            "edge": edge,
            "rule": inside.rule.name,
            "run": setup.spec.name,
            "seed": setup.plan.seed,
            "keys": [f"{key:016x}" for key in keys],
            "sizes": [len(shard) for shard in shards],
            "layout": layout,
            "denominator": algorithm.fold.denominator,
            "most_reports": int(max(algorithm.fold.most_reports, len(devices))),
            "shared": {**shared, "moves_samples": inside.rule.moves_samples},
            "devices": [device_entries(*one) for one in zip(devices.tolist(), keys, shards, strict=True)],
            "own_data": not (inside.rule.by_labels or inside.rule.moves_samples),
            "moves_samples": inside.rule.moves_samples,
        }
        return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    return config_of


NO_ROWS = np.zeros(0, np.int64)
