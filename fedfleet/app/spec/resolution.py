"""Resolving a spec: every table is checked against its schema, every default is filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fedfleet.app.spec.people import default_clients
from fedfleet.app.spec.spec_record import TABLES, Spec
from fedfleet.app.spec.table_checks import Table, UnknownKey, as_table, check_table, check_value, resolve_part
from fedfleet.core.bounds import MinLen
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Clients, Count, Natural, Part, Positive, Seed, Threads
from fedfleet.core.pins import complete
from fedfleet.core.records import Stop
from fedfleet.core.registry import builder

TUNE = "tune"  # a table of a spec's file that `fedfleet tune` reads
_DEFAULT_PARTS = {
    "task": ("tasks", "digits_cnn"),
    "algorithm": ("algorithms", "fedavg"),
    "choose": ("selectors", "uniform"),
    "pace": ("policies", "readiness"),
}
_WORLD_PARTS = {
    "devices": ("devices", "homogeneous"),
    "states": ("states", "always_on"),
    "data": ("partitions", "iid"),
    "energy": ("energy", "phones"),
}
DEFAULTS = {
    **{key: name for key, (_, name) in _DEFAULT_PARTS.items()},
    **{f"world.{key}": name for key, (_, name) in _WORLD_PARTS.items()},
}
_WORLD_OPTIONAL = {"users": "users", "faults": "faults"}  # what a spec may leave out altogether
# Where a spec names a part, and of which kind.
PART_KINDS = {
    **{key: kind for key, (kind, _) in _DEFAULT_PARTS.items()},
    **{f"world.{key}": kind for key, (kind, _) in _WORLD_PARTS.items()},
    **{f"world.{key}": kind for key, kind in _WORLD_OPTIONAL.items()},
    "edge": "edges",
}


def resolve(
    table: Mapping[str, Any],
    name: str = "run",
    *,
    content_id: str | None = None,
    count: Callable[[Spec], int] | None = None,
) -> Spec:
    """Check a spec against the builders' signatures and fill in every default.

    `content_id` names a task that was given as objects instead of by name; the spec of such a run holds that name, and `count`
    gives the number of people in its data. What stands in [tune] says what a search may change and is no part of a run, so it is
    left out. Where data are dealt by owner and `world.clients` is not given, the data of a named task are read.
    """
    try:
        return _resolve(table, name, content_id, count)
    except UnknownKey as wrong:
        from fedfleet.app.spec.key_places import misplaced_key

        raise BadInput(misplaced_key(wrong)) from None


def _resolve(table: Mapping[str, Any], name: str, content_id: str | None, count: Callable[[Spec], int] | None) -> Spec:
    for key in table:
        if key not in (*TABLES, TUNE):
            raise UnknownKey("", key, table[key], (*TABLES, TUNE))
    custom_table = {"use": "own", "content": content_id} if content_id else _custom_task(table.get("task"))
    parts = {
        key: resolve_part(kind, with_privacy_mechanism(as_table(table.get(key, {}), key)), key, default)
        for key, (kind, default) in _DEFAULT_PARTS.items()
        if not (key == "task" and custom_table)
    }
    if custom_table:
        parts["task"] = custom_table
    else:
        parts["task"] = complete(builder("tasks", parts["task"]["use"]), parts["task"])
    world = _world(as_table(table.get("world", {}), "world"))
    edge = resolve_part("edges", as_table(table["edge"], "edge"), "edge") if "edge" in table else None
    if edge and "users" not in world:
        raise BadInput('edge: [edge] needs to know which devices belong to which user; add world.users = { use = "households" }')
    overrides = table.get("override", [])
    if not isinstance(overrides, list):
        raise BadInput("override must be a list of tables: write [[override]], with two brackets")
    seed = check_value(Seed, table.get("seed", 0), "seed")
    spec = Spec(
        name=name,
        seed=seed,
        seeds=_seeds(as_table(table.get("seeds", {}), "seeds"), seed),
        **parts,
        edge=edge,
        world=world,
        stop=check_table(Stop, as_table(table.get("stop", {}), "stop"), "stop"),
        run=check_table(run_settings, as_table(table.get("run", {}), "run"), "run"),
        override=[],
    )
    # Last of what is not given, since data may have to be read for it.
    clients = default_clients(spec, count) if world["clients"] is None else world["clients"]
    asked = as_table(table.get("algorithm", {}), "algorithm")
    algorithm = privacy_by_epsilon(parts["algorithm"], asked, clients)
    return replace(
        spec,
        pace=_with_cohort_for(parts["pace"], as_table(table.get("pace", {}), "pace"), clients),
        world={**world, "clients": clients},
        algorithm=algorithm,
        override=[_override(o, i, algorithm) for i, o in enumerate(overrides)],
    )


def _with_cohort_for(pace: Table, asked: Mapping[str, Any], clients: int) -> Table:
    """The pace of a fleet that is smaller than the default cohort: if no cohort is asked for, all clients are the cohort."""
    if "cohort" in asked or not isinstance(pace.get("cohort"), int) or pace["cohort"] <= clients:
        return pace
    return {**pace, "cohort": clients}


def with_privacy_mechanism(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table whose `private` asks for an epsilon alone is meant for the Gaussian mechanism."""
    private = table.get("private")
    if not isinstance(private, Mapping) or "epsilon" not in private:
        return table
    return {**table, "private": {"use": "gaussian", **private}}


def privacy_by_epsilon(algorithm: Table, asked: Mapping[str, Any], clients: int) -> Table:
    """The algorithm's table, where `private` asks for an epsilon: assembling solves for its noise. Delta is then by default no more
    than a client's share of the fleet to the power of 1.1."""
    private, given = algorithm.get("private"), asked.get("private")
    if private is None or private.get("epsilon") is None or not isinstance(given, Mapping):
        return algorithm
    if given.get("noise") is not None:
        raise BadInput("algorithm.private: noise and epsilon are both given, and one decides the other; give only one of them")
    delta = private["delta"] if "delta" in given else min(private["delta"], clients**-1.1)
    return {**algorithm, "private": {**private, "noise": None, "delta": delta}}


def _seeds(table: Mapping[str, Any], seed: int) -> Table:
    """Seeds of their own; one that is the spec's own seed is none, so that the same run has the same digest."""
    result = check_table(seed_settings, table, "seeds")
    return {name: None if value == seed else value for name, value in result.items()}


def _custom_task(task: Any) -> Table | None:
    """The table of a person's own task, as the spec of its run holds it: the name of its content, and of its loss if it has one."""
    if not isinstance(task, Mapping) or task.get("use") != "own" or "content" not in task:
        return None
    return {"use": "own", **check_table(_custom_task_settings, {k: v for k, v in task.items() if k != "use"}, "task")}


def _custom_task_settings(*, content: Annotated[str, MinLen(1)], loss: str | None = None) -> None:
    """The keys of an own task."""


def _world(table: Mapping[str, Any]) -> Table:
    parts = {**_WORLD_PARTS, **{key: (kind, None) for key, kind in _WORLD_OPTIONAL.items()}}
    settings = {k: v for k, v in table.items() if k not in parts}
    result = check_table(world_settings, settings, "world", also=tuple(parts))
    if len(result["split"]) != 3 or result["split"][0] < 1:
        raise BadInput(f"world.split: {result['split']} must be three numbers, train : valid : test, for example [6, 2, 2]")
    if result["charge"] == "trained":  # as it is without the key
        result["charge"] = None
    for key, (kind, default) in parts.items():
        if key in table or default is not None:
            value = _join_faults(table[key]) if key == "faults" else table.get(key, {})
            result[key] = resolve_part(kind, as_table(value, f"world.{key}"), f"world.{key}", default)
    return result


def _join_faults(value: Any) -> Any:
    """Several faults are one part, made of a list."""
    return {"use": "all_of", "faults": value} if isinstance(value, list) else value


def _override(table: Any, i: int, algorithm: Table) -> Table:
    where = f"override[{i}]"
    entries = as_table(table, where)
    if isinstance(entries.get("algorithm"), str):
        entries = {**entries, "algorithm": {"use": entries["algorithm"]}}
    settings = check_table(override_settings, entries, where)
    if not settings["clients"] and not settings["kinds"]:
        raise BadInput(f"{where} does not say to which clients it applies; give clients = [..] or kinds = [..]")
    if not settings["algorithm"]:
        raise BadInput(f"{where} changes nothing; give it a setting, for example algorithm.lr = 0.01")
    change_algorithm(algorithm, settings["algorithm"], f"{where}.algorithm")
    return settings


def change_algorithm(algorithm: Table, settings: Mapping[str, Any], where: str) -> Table:
    """The algorithm's table with some settings changed, those of algorithms inside it too; checked and complete."""
    return resolve_part("algorithms", _change_settings(algorithm, settings, where), where)


def _change_settings(table: Table, settings: Mapping[str, Any], where: str) -> Table:
    if settings.get("use", table["use"]) != table["use"]:
        raise BadInput(f"{where}.use: an override can change settings of the algorithm, not the algorithm itself")
    result = dict(table)
    for key, value in settings.items():
        inner = table.get(key)
        if isinstance(inner, Mapping) and "use" in inner:
            result[key] = _change_settings(dict(inner), as_table(value, f"{where}.{key}"), f"{where}.{key}")
        else:
            result[key] = value
    return result


# The keys of the tables that are not parts. Only the signatures are used: they are the schema, as a builder's is for a part.


def world_settings(
    *,
    clients: Clients | None = None,
    model_bytes: Positive | None = None,
    split: list[Natural] = [6, 2, 2],  # noqa: B006
    min_samples: Count = 5,
    heterogeneity: Literal["both", "devices", "states", "none"] = "both",
    free_probes: bool = False,
    tags: dict[str, list[Natural]] | None = None,
    holdout: Part | Count | None = None,
    unseen: Part | Count | list[Natural] | None = None,
    charge: Literal["trained"] | Count | None = None,
) -> None:
    """The keys of [world] beside its parts. `clients`: by default 100, or one for each person where data are dealt by owner."""


def seed_settings(*, fleet: Seed | None = None, data: Seed | None = None, training: Seed | None = None) -> None:
    """The keys of [seeds]: what is not set has the `seed` of the spec."""


def run_settings(
    *,
    execute: Literal["auto", "inline", "stacked", "numpy", "mnn", "ray"] = "auto",
    device: Literal["cpu", "cuda"] = "cpu",
    tf32: bool = False,
    threads: Threads = 1,
    checkpoint_every: Count = 20,
    memory_mb: Count = 2048,
    workers: Threads | None = None,
    ray_address: str | None = None,
    ray_execute: Literal["inline", "stacked"] = "inline",
) -> None:
    """The keys of [run], which say how to run and not what; they stay out of the digest."""


def override_settings(*, clients: list[Natural] = [], kinds: list[str] = [], algorithm: dict[str, Any] = {}) -> None:  # noqa: B006
    """The keys of one [[override]]."""
