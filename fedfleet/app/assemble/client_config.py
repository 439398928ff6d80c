"""The configuration of one client: what it trains and with what, as registered names and numbers; the server makes it, and
`device_runtime` reads it. In the protocol it is the field `sheet`.

It never holds the world, other clients, a path or code. The device builds its own half from its own registry, with the functions
that build a plan (`algorithm`), and trains the same bits as a simulation of the same task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedfleet.app.assemble.algorithm import table_for
from fedfleet.app.assemble.config_format import FORMAT, checksum
from fedfleet.app.assemble.described_task import description_entry
from fedfleet.app.assemble.edge_config import NO_ROWS, check_edges, edge_configs
from fedfleet.app.assemble.private_noise import with_private_noise
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.assemble.table_config import is_table, table_entries
from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import Table
from fedfleet.core.errors import BadInput
from fedfleet.core.records import Ints
from fedfleet.core.tensor_format import pack_tree
from fedfleet.tasks.backbones import BUILTIN, LITE0

# ---- on the server ------------------------------------------------------------------------------------------------


def client_config_for(setup: Setup, client: int, *, brings_own: bool = False, local: bool = False) -> bytes:
    """The configuration of one client as JSON; `brings_own`: it has its own samples instead of a shard of the run's data."""
    return client_configs(setup, local=local)(client, brings_own)


def client_configs(setup: Setup, *, local: bool = False) -> Callable[[int, bool], bytes]:
    """The configurations of all clients, by number and whether they bring own samples; what all of them share is made once.

    `local`: the devices are on this machine, as in a rehearsal.
    """
    # Devices get the noise itself: they need no accountant.
    spec, world, data = with_private_noise(setup.spec, setup.plan.pace, setup.world), setup.world, setup.task.dataset
    check_sendable(setup)
    memory = world.devices.memory_mb
    shared: Table = {
        "form": FORMAT,
        "seed": spec.training_seed,
        "data_seed": spec.data_seed,
        "clients": spec.world["clients"],
        "rounds": spec.stop["rounds"],
        "byte_scale": setup.plan.byte_scale,
        **_task_entries(setup, local=local),
        "inputs": {"shape": list(data.x.shape[1:]), "kind": data.x.dtype.str, "classes": data.classes},
        "frozen": setup.task.frozen_name,
        "described": description_entry(setup),
    }

    if setup.spec.edge is not None:
        edge_config = edge_configs(setup, shared, lambda device, key, rows: _device_entries(setup, spec, device, key, rows))
        return lambda edge, brings_own=False: edge_config(edge)

    def config_of(client: int, brings_own: bool = False) -> bytes:
        if not 0 <= client < len(world.keys):
            raise BadInput(f"there is no client {client} in a fleet of {len(world.keys)}")
        table = table_for(spec, client, world.devices.kinds[client])
        mb = None if memory is None else float(memory(np.array([client]))[0])
        per_client = {
            "client": client,
            "key": f"{int(world.keys[client]):016x}",
            "algorithm": _sendable_table(table, "algorithm"),
            "memory_mb": mb if mb is not None and np.isfinite(mb) else None,
            "data": {"use": "own"} if brings_own else _shard(setup, client),
        }
        return json.dumps({**shared, **per_client}, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    return config_of


def _task_entries(setup: Setup, *, local: bool) -> Table:
    """What is trained: the task's name and parameters, and of a person's own task also how its samples are read."""
    task = setup.spec.task
    if is_table(task):
        entries = table_entries(setup, local=local)
        return {**entries, "task": {k: v for k, v in entries["task"].items() if v is not None}}
    return {"task": _sendable_table({**task, **_backbone(task)}, "task")}


def check_sendable(setup: Setup) -> None:
    """Refuse a run that cannot be described to devices."""
    if setup.spec.edge is not None:
        check_edges(setup)
    if setup.spec.has_custom_task:
        raise BadInput(
            'task.use = "own": a model that was given as an object of Python cannot be sent to devices; write it into a file and '
            "give it with your data: fedfleet serve SPEC --data FILE --model model.py:Net"
        )


def _device_entries(setup: Setup, spec: Spec, device: int, key: int, rows: Ints) -> Table:
    """The own part of the configuration of a device behind an edge. It tests nothing: the server does."""
    return {
        "client": device,
        "key": f"{key:016x}",
        "algorithm": _sendable_table(table_for(spec, device, ""), "algorithm"),
        "memory_mb": None,
        "data": _shard_of(setup, rows, NO_ROWS),
    }


def _shard(setup: Setup, client: int) -> Table:
    """This client's rows, and their labels where these were changed: the device has the data, as in a rehearsal."""
    shard = setup.world.data.shard
    return _shard_of(setup, shard(client, "train", 0), shard(client, "test", 0))


def _shard_of(setup: Setup, train: Ints, test: Ints) -> Table:
    labels = setup.task.dataset.y
    result: Table = {"use": "shard", "train": train.tolist(), "test": test.tolist()}
    if setup.labels_changed:
        result["labels"] = labels[train].tolist()
    return {**result, "check": checksum(setup.task.dataset, train, test)}


def shard_bytes(setup: Setup, client: int) -> bytes:
    """The samples of a client's shard in safetensors form, for a device that cannot make them from the data itself."""
    shard, dataset = setup.world.data.shard, setup.task.dataset
    rows = {part: shard(client, part, 0) for part in ("train", "test")}
    tree = {f"{part}_x": dataset.x[rows[part]] for part in rows} | {f"{part}_y": dataset.y[rows[part]] for part in rows}
    return pack_tree({name: np.ascontiguousarray(leaf) for name, leaf in tree.items()})


def _backbone(task: Table) -> Table:
    """A file of weights stays with the server: devices get its weights with the model, and what is frozen by its hash."""
    if "backbone" not in task or task["backbone"] in ("", BUILTIN, LITE0):
        return {}
    return {"backbone": ""}


def _sendable_table(table: Any, where: str) -> Any:
    """A table as it may be sent: without what is not set, and without paths."""
    if isinstance(table, Mapping):
        return {k: _sendable_table(v, f"{where}.{k}") for k, v in table.items() if v is not None}
    if isinstance(table, list | tuple):
        return [_sendable_table(v, f"{where}[{i}]") for i, v in enumerate(table)]
    if isinstance(table, str) and ("/" in table or "\\" in table):
        raise BadInput(f"{where} = {table!r} looks like a path of this machine, which devices cannot see; use a name")
    return table
