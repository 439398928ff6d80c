"""The configuration of one client: what it trains and with what, as registered names and numbers; the server makes it, the
device reads it. In the protocol it is the field `sheet`.

It never holds the world, other clients, a path or code. The device builds its own half from its own registry, with the functions
that build a plan (`algorithm`), and trains the same bits as a simulation of the same task.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble.algorithm import Facts, build_algorithm, part_facts, table_for, with_task_loss
from fedfleet.app.assemble.private_noise import with_private_noise
from fedfleet.app.assemble.setup import Setup
from fedfleet.app.assemble.table_config import device_recipe, found_data, is_table, own_samples, table_entries
from fedfleet.app.spec.table_checks import Table, build_part, resolve_part
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.limits import LARGEST, MAX_COUNT, MAX_SEED
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import client_keys
from fedfleet.core.trees import Array, Tree, content_hash
from fedfleet.network.device.client_runtime import ClientRuntime
from fedfleet.network.device.local_data import ModelInputs, fit_to_model, read_samples, split_rows
from fedfleet.tasks.backbones import BUILTIN, LITE0

FORMAT = 1
_UNREADABLE = "this version of FedFleet cannot read the client configuration that the server sent"
_MOST_BYTES = 64 << 20  # of a configuration that a device reads
# Frozen weights by their content hash.
Fetch = Callable[[str], Tree]


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
    }

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
        raise BadInput("edge: a server cannot work with devices behind edges over the network yet; remove [edge]")
    if setup.spec.has_custom_task:
        raise BadInput(
            'task.use = "own": a model that was given as an object of Python cannot be sent to devices; write it into a file and '
            "give it with your data: fedfleet serve SPEC --data FILE --model model.py:Net"
        )


def _shard(setup: Setup, client: int) -> Table:
    """This client's rows, and their labels where these were changed: the device has the data, as in a rehearsal."""
    shard, labels = setup.world.data.shard, setup.task.dataset.y
    train, test = shard(client, "train", 0), shard(client, "test", 0)
    result: Table = {"use": "shard", "train": train.tolist(), "test": test.tolist()}
    if setup.labels_changed:
        result["labels"] = labels[train].tolist()
    return {**result, "check": checksum(setup.task.dataset, train, test)}


def checksum(dataset: Dataset, *rows: Ints) -> int:
    """A number that tells whether two machines hold the same samples in these rows."""
    result = 0
    for indices in rows:
        for array in (dataset.x, dataset.y):
            result = zlib.crc32(np.ascontiguousarray(array[indices]).tobytes(), result)
    return result


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


# ---- on the device ------------------------------------------------------------------------------------------------


def build_client_runtime(
    config_bytes: bytes, data_path: Path | None = None, fetch: Fetch | None = None, trusted: str | None = None
) -> ClientRuntime:
    """What a client trains with, built here from the names in its configuration; `data_path` is where its own samples are.

    `fetch` downloads frozen weights that this machine lacks; without it they are refused. `trusted` is the hash of a model's code
    that the device's owner trusts.
    """
    config = _parse_config(config_bytes)
    try:
        return _build_runtime(config, data_path, fetch, trusted)
    except (KeyError, TypeError, ValueError, OverflowError, IndexError) as odd:
        raise Refused(f"{_UNREADABLE}: {type(odd).__name__}: {odd}") from odd


def _build_runtime(config: Table, data_path: Path | None, fetch: Fetch | None, trusted: str | None) -> ClientRuntime:
    table, seed, key = resolve_part("tasks", config["task"], "task"), config["seed"], int(config["key"], 16)
    if is_table(table):
        table = {**table, "path": str(found_data(table["path"])) if data_path is None else ""}
        recipe = device_recipe(config, table, trusted)
    else:
        recipe = build_part("tasks", table)
    task, train, test = _with_data(config, table, recipe, data_path, key)
    algorithm = resolve_part("algorithms", config["algorithm"], "algorithm")
    built, task = build_algorithm(algorithm, task, _facts(config, task), seed)
    task = _with_frozen_weights(task, config["frozen"], fetch)
    # Loads torch, which a device that only waits does not need.
    from fedfleet.executors.inline import inline

    return ClientRuntime(
        client=config["client"],
        key=key,
        seed=seed,
        algorithm=with_task_loss(built, task),
        task=task,
        params=task.init(seed),
        train=train,
        test=test,
        execute=inline(task, threads=1),
        frozen=config["frozen"],
    )


def _parse_config(config_bytes: bytes) -> Table:
    """The configuration's table, checked before it is used, whatever a server has written there."""
    if len(config_bytes) > _MOST_BYTES:
        raise Refused(f"{_UNREADABLE}: it has {len(config_bytes)} bytes")
    try:
        config = json.loads(config_bytes)
    except (ValueError, RecursionError) as odd:
        raise Refused(f"{_UNREADABLE}: it is not JSON ({type(odd).__name__})") from None
    if not isinstance(config, dict) or config.get("form") != FORMAT:
        raise Refused(f"{_UNREADABLE}: its format is not {FORMAT}; install the same version on both sides")
    for name, kind in _KINDS.items():
        if not isinstance(config.get(name), kind) or isinstance(config.get(name), bool):
            raise Refused(f"{_UNREADABLE}: {name!r} is missing or has another type")
    for name, (least, most) in _RANGES.items():
        if not least <= config[name] <= most:
            raise Refused(f"{_UNREADABLE}: {name!r} is not between {least} and {most}")
    return config


_KINDS: dict[str, type[Any] | tuple[type[Any], ...]] = {
    "seed": int, "data_seed": int,
    "clients": int, "rounds": int, "client": int, "key": str, "task": dict, "algorithm": dict, "inputs": dict,
    "data": dict, "frozen": str, "byte_scale": (int, float),
}  # fmt: skip
_MOST_FLEET = 10_000_000  # clients: a device holds the key of each, and no server may fill its memory with them
_RANGES: dict[str, tuple[float, float]] = {
    "seed": (0, MAX_SEED), "data_seed": (0, MAX_SEED),
    "clients": (1, _MOST_FLEET), "client": (0, _MOST_FLEET - 1), "rounds": (1, MAX_COUNT),
    "byte_scale": (0, LARGEST),  # 0: trained in one place, where nothing travels
}  # fmt: skip


def _with_data(config: Table, table: Table, recipe: Any, data_path: Path | None, key: int) -> tuple[Task, Ints, Ints]:
    """The task with this client's samples, and the rows that train and test."""
    input_info, data, seed = config["inputs"], config["data"], config["data_seed"]
    if data["use"] == "own":
        if data_path is None:
            raise BadInput("this client was enrolled with its own samples; give their path with --data FILE|FOLDER")
        if is_table(table):
            dataset = own_samples(config, table, data_path)
        else:
            x, y = read_samples(data_path)
            inputs = ModelInputs(tuple(input_info["shape"]), input_info["kind"], input_info["classes"])
            dataset = Dataset(fit_to_model(x, y, inputs, data_path), y, inputs.classes)
        return _task_on_data(recipe, seed, dataset), *split_rows(len(dataset.y), seed, key)
    if data_path is not None:
        raise BadInput("--data: the server gives this client a shard of its own data; leave --data out, or enrol again")
    task: Task = recipe(seed)
    train, test = (np.array(data[name], np.int64) for name in ("train", "test"))
    odd = [rows for rows in (train, test) if len(rows) and not 0 <= rows.min() <= rows.max() < len(task.dataset.y)]
    if not odd and "labels" in data:
        labels: Array = task.dataset.y.copy()
        labels[train] = data["labels"]
        task = replace(task, dataset=replace(task.dataset, y=labels))
    if odd or checksum(task.dataset, train, test) != data["check"]:
        raise BadInput(
            f"task {task.name!r}: the data on this machine differ from those of the run, so this client would "
            "train on other samples; copy the same data to this machine, or give your own with --data"
        )
    return task, train, test


def _task_on_data(recipe: Any, seed: int, dataset: Dataset) -> Task:
    """The task that a recipe makes, on other data; a recipe that cannot take other data loads its own first."""
    fit = getattr(recipe, "fit", None)
    if fit is not None:
        return fit(seed, dataset)
    return replace(recipe(seed), dataset=dataset, holdout=np.zeros(0, np.int64))


def _facts(config: Table, task: Task) -> Facts:
    """What builders may ask on a device: numbers of the run, this model, and of all devices only its own memory."""
    client, memory_mb = config["client"], config.get("memory_mb")

    def memory(clients: Ints) -> Floats:
        return np.where(clients == client, float(memory_mb or math.nan), math.nan)

    fleet = FleetFacts(
        keys=client_keys(config["clients"]),
        seed=config["seed"],
        memory_mb=None if memory_mb is None else memory,
        byte_scale=config["byte_scale"],
    )
    return part_facts(RunFacts(config["clients"], config["seed"], config["rounds"]), task, fleet)


def _with_frozen_weights(task: Task, wanted: str, fetch: Fetch | None) -> Task:
    """The task with the frozen weights of the run: those that are here, or, where they differ, those that are fetched."""
    if task.frozen_name == wanted:
        return task
    if fetch is None or not wanted:
        raise BadInput("the frozen weights on this machine differ from those of the run; install the same version on both sides")
    from fedfleet.tasks.frozen_weights import replace_frozen

    weights = fetch(wanted)
    if content_hash(weights) != wanted:
        raise Refused("the received frozen weights are not those that the configuration names")
    return replace_frozen(task, weights)
