"""What a device makes of its configuration: the client's half of the run, built from the device's own registry, for its engine.

With the engines numpy and mnn nothing here loads PyTorch: the model is a description, and the samples are the device's own.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble.algorithm import Facts, build_algorithm, part_facts, with_task_loss
from fedfleet.app.assemble.config_format import FORMAT, checksum
from fedfleet.app.assemble.described_slices import describer, with_shapes
from fedfleet.app.assemble.described_task import described_task, model_of_entry, without_adapting
from fedfleet.app.assemble.table_config import device_recipe, found_data, is_table, own_samples
from fedfleet.app.spec.table_checks import Table, build_part, resolve_part
from fedfleet.core.engines import EngineName
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.kinds import CLASSIFICATION, KINDS
from fedfleet.core.limits import LARGEST, MAX_COUNT, MAX_SEED
from fedfleet.core.part_facts import FleetFacts, ModelOf, RunFacts
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import client_keys
from fedfleet.core.trees import Array, Tree, content_hash
from fedfleet.network.device.client_runtime import ClientRuntime
from fedfleet.network.device.local_data import ModelInputs, fit_to_model, read_samples, split_rows
from fedfleet.network.device.work import SHARD, Fetch

_UNREADABLE = "this version of FedFleet cannot read the client configuration that the server sent"
_MOST_BYTES = 64 << 20  # of a configuration that a device reads


def build_client_runtime(
    config_bytes: bytes,
    data_path: Path | None = None,
    fetch: Fetch | None = None,
    trusted: str | None = None,
    engine: EngineName = "torch",
) -> ClientRuntime:
    """What a client trains with, built here from the names in its configuration; `data_path` is where its own samples are.

    `fetch` downloads frozen weights that this machine lacks; without it they are refused. `trusted` is the hash of a model's code
    that the device's owner trusts. `engine` is what trains: numpy and mnn take the model's description, and need neither PyTorch
    nor code of the run.
    """
    config = _parse_config(config_bytes)
    try:
        if engine == "torch":
            return _build_runtime(config, data_path, fetch, trusted)
        return _build_described_runtime(config, data_path, fetch, engine)
    except (KeyError, TypeError, ValueError, OverflowError, IndexError) as odd:
        raise Refused(f"{_UNREADABLE}: {type(odd).__name__}: {odd}") from odd


def check_own_samples(config_bytes: bytes, data_path: Path) -> None:
    """Refuse a device's own samples that the run cannot use, in the words that its first task would; nothing here loads PyTorch."""
    config = _parse_config(config_bytes)
    try:
        if config["data"]["use"] != "own":
            return
        _own_dataset(config, _own_table(config), data_path)
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
        make_executor=partial(inline, threads=1),
    )


def _build_described_runtime(config: Table, data_path: Path | None, fetch: Fetch | None, engine: EngineName) -> ClientRuntime:
    """The same from the model's description alone. Only the samples of a rehearsal come from the task itself."""
    from fedfleet.executors.described_executor import described_executor

    description, model = model_of_entry(config.get("described"), engine)
    seed, key = config["seed"], int(config["key"], 16)
    if config["data"]["use"] == "own":
        dataset = _own_dataset(config, _own_table(config), data_path)
        train, test = split_rows(len(dataset.y), config["data_seed"], key)
    else:
        dataset, train, test = _rehearsal_data(config, data_path, key, fetch)
    frozen = _fetch_frozen(config["frozen"], fetch) if config["frozen"] else {}
    task = described_task(description, str(config["described"]["name"]), dataset, frozen)
    facts = {**with_shapes(_facts(config, task), config["described"]), ModelOf: lambda: model}
    algorithm = resolve_part("algorithms", config["algorithm"], "algorithm")
    built = without_adapting(build_part("algorithms", algorithm, facts))
    return ClientRuntime(
        client=config["client"],
        key=key,
        seed=seed,
        algorithm=built,
        task=task,
        params=task.init(seed),
        train=train,
        test=test,
        execute=described_executor(engine, task, describer(config["described"], description)),
        frozen=config["frozen"],
        make_executor=lambda other: described_executor(engine, other, describer(config["described"], description)),
    )


def _parse_config(config_bytes: bytes) -> Table:
    """The configuration's table, checked before it is used, whatever a server has written there."""
    if len(config_bytes) > _MOST_BYTES:
        raise Refused(f"{_UNREADABLE}: it has {len(config_bytes)} bytes")
    try:
        config = json.loads(config_bytes)
    except (ValueError, RecursionError) as odd:
        raise Refused(f"{_UNREADABLE}: it is not JSON ({type(odd).__name__})") from None
    if isinstance(config, dict) and "edge" in config:
        raise Refused("this client of the run is an edge with devices of its own; start it with fedfleet edge")
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
    data, seed = config["data"], config["data_seed"]
    if data["use"] == "own":
        dataset = _own_dataset(config, table, data_path)
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


def _own_dataset(config: Table, table: Table, data_path: Path | None) -> Dataset:
    """The samples that a device brings, as the run's model takes them."""
    if data_path is None:
        raise BadInput("this client was enrolled with its own samples; give their path with --data FILE|FOLDER")
    if is_table(table):
        return own_samples(config, table, data_path)
    x, y = read_samples(data_path)
    info = config["inputs"]
    inputs = ModelInputs(tuple(info["shape"]), info["kind"], info["classes"])
    return Dataset(fit_to_model(x, y, inputs, data_path), y, inputs.classes)


def _rehearsal_data(config: Table, data_path: Path | None, key: int, fetch: Fetch | None) -> tuple[Dataset, Ints, Ints]:
    """The data of the run itself, made on this machine, and this client's rows of them."""
    try:
        table = resolve_part("tasks", config["task"], "task")
        if is_table(table):
            table = {**table, "path": str(found_data(table["path"])), "model": "auto"}
        task, train, test = _with_data(config, table, build_part("tasks", table), data_path, key)
    except ImportError as error:
        if fetch is None:
            raise
        return _fetch_shard(config, fetch, str(error.name))
    return task.dataset, train, test


def _fetch_shard(config: Table, fetch: Fetch, missing: str) -> tuple[Dataset, Ints, Ints]:
    """The samples that the run deals to this client, from the server: making them needs a package that this device lacks."""
    tree = fetch(SHARD)
    parts = [tree[name] for name in ("train_x", "test_x", "train_y", "test_y")]
    x, y = np.concatenate(parts[:2]), np.concatenate(parts[2:])
    kind = KINDS[config["reading"]["kind"]] if "reading" in config else CLASSIFICATION
    if "reading" not in config and (y.ndim != 1 or y.dtype.kind not in "iu"):
        raise BadInput(f"rehearsals of this task need {missing}, which this device lacks; install fedfleet[train]")
    train, test = np.arange(len(parts[0])), np.arange(len(parts[0]), len(x))
    dataset = Dataset(x, y, config["inputs"]["classes"], kind=kind)
    if checksum(dataset, train, test) != config["data"]["check"]:
        raise Refused("the samples that came are not those that the configuration names")
    return dataset, train, test


def _own_table(config: Table) -> Table:
    """What a configuration says of its task to a device that brings samples: such a device does without the task's own module."""
    table = config["task"]
    return resolve_part("tasks", table, "task") if is_table(table) else table


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
    if not wanted:
        raise BadInput(_OTHER_FROZEN)
    from fedfleet.tasks.frozen_weights import replace_frozen

    return replace_frozen(task, _fetch_frozen(wanted, fetch))


_OTHER_FROZEN = "the frozen weights on this machine differ from those of the run; install the same version on both sides"


def _fetch_frozen(wanted: str, fetch: Fetch | None) -> Tree:
    """Frozen weights as the server gives them."""
    if fetch is None:
        raise BadInput(_OTHER_FROZEN)
    weights = fetch(wanted)
    if content_hash(weights) != wanted:
        raise Refused("the received frozen weights are not those that the configuration names")
    return weights
