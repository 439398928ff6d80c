"""Resolving a spec: every table is checked against its schema, every default is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import MinLen

from fedfleet.app.spec.spec_record import TABLES, Spec
from fedfleet.app.spec.table_checks import Table, as_table, check_table, check_value, resolve_part
from fedfleet.app.spec.table_schemas import override_settings, run_settings, seed_settings, world_settings
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.limits import Seed
from fedfleet.core.records import Stop

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


def resolve(table: Mapping[str, Any], name: str = "run", *, own_task: str | None = None) -> Spec:
    """Check a spec against the builders' signatures and fill in every default.

    `own_task` names a task that was given as objects instead of by name; the spec of such a run holds that name. What stands in
    [tune] says what a search may change and is no part of a run, so it is left out.
    """
    for key in table:
        if key not in (*TABLES, TUNE):
            raise BadInput(f"the spec has no table or key {key!r}{nearest(key, (*TABLES, TUNE))}")
    own = {"use": "own", "content": own_task} if own_task else _own_task(table.get("task"))
    parts = {
        key: resolve_part(kind, as_table(table.get(key, {}), key), key, default)
        for key, (kind, default) in _DEFAULT_PARTS.items()
        if not (key == "task" and own)
    }
    if own:
        parts["task"] = own
    world = _world(as_table(table.get("world", {}), "world"))
    edge = resolve_part("edges", as_table(table["edge"], "edge"), "edge") if "edge" in table else None
    if edge and "users" not in world:
        raise BadInput('edge: [edge] needs to know whose device is whose; add world.users = { use = "households" }')
    overrides = table.get("override", [])
    if not isinstance(overrides, list):
        raise BadInput("override must be a list of tables: write [[override]], with two brackets")
    seed = check_value(Seed, table.get("seed", 0), "seed")
    return Spec(
        name=name,
        seed=seed,
        seeds=_seeds(as_table(table.get("seeds", {}), "seeds"), seed),
        **parts,
        edge=edge,
        world=world,
        stop=check_table(Stop, as_table(table.get("stop", {}), "stop"), "stop"),
        run=check_table(run_settings, as_table(table.get("run", {}), "run"), "run"),
        override=[_override(o, i, parts["algorithm"]) for i, o in enumerate(overrides)],
    )


def _seeds(table: Mapping[str, Any], seed: int) -> Table:
    """Seeds of their own; one that is the spec's own seed is none, so that the same run has the same digest."""
    found = check_table(seed_settings, table, "seeds")
    return {name: None if value == seed else value for name, value in found.items()}


def _own_task(task: Any) -> Table | None:
    """The table of a person's own task, as the spec of its run holds it: the name of its content, and of its loss if it has one."""
    if not isinstance(task, Mapping) or task.get("use") != "own" or "content" not in task:
        return None
    return {"use": "own", **check_table(_own_settings, {k: v for k, v in task.items() if k != "use"}, "task")}


def _own_settings(*, content: Annotated[str, MinLen(1)], loss: str | None = None) -> None:
    """The keys of an own task."""


def _world(table: Mapping[str, Any]) -> Table:
    parts = {**_WORLD_PARTS, **{key: (kind, None) for key, kind in _WORLD_OPTIONAL.items()}}
    settings = {k: v for k, v in table.items() if k not in parts}
    found = check_table(world_settings, settings, "world", also=tuple(parts))
    if len(found["split"]) != 3 or found["split"][0] < 1:
        raise BadInput(
            f"world.split: {found['split']} must be three numbers, train : valid : test, for example [6, 2, 2]"
        )
    if found["charge"] == "trained":  # as it is without the key
        found["charge"] = None
    for key, (kind, default) in parts.items():
        if key in table or default is not None:
            given = _together(table[key]) if key == "faults" else table.get(key, {})
            found[key] = resolve_part(kind, as_table(given, f"world.{key}"), f"world.{key}", default)
    return found


def _together(given: Any) -> Any:
    """Several faults are one part, made of a list."""
    return {"use": "all_of", "faults": given} if isinstance(given, list) else given


def _override(table: Any, i: int, algorithm: Table) -> Table:
    where = f"override[{i}]"
    given = as_table(table, where)
    if isinstance(given.get("algorithm"), str):
        given = {**given, "algorithm": {"use": given["algorithm"]}}
    got = check_table(override_settings, given, where)
    if not got["clients"] and not got["kinds"]:
        raise BadInput(f"{where} names neither clients nor kinds; name the ones it applies to")
    if not got["algorithm"]:
        raise BadInput(f"{where} changes nothing; give it a setting, for example algorithm.lr = 0.01")
    changed(algorithm, got["algorithm"], f"{where}.algorithm")
    return got


def changed(algorithm: Table, settings: Mapping[str, Any], where: str) -> Table:
    """The algorithm's table with some settings changed, those of algorithms inside it too; checked and complete."""
    return resolve_part("algorithms", _changed(algorithm, settings, where), where)


def _changed(table: Table, settings: Mapping[str, Any], where: str) -> Table:
    if settings.get("use", table["use"]) != table["use"]:
        raise BadInput(f"{where}.use: an override can change settings of the algorithm, not the algorithm itself")
    found = dict(table)
    for key, value in settings.items():
        inner = table.get(key)
        if isinstance(inner, Mapping) and "use" in inner:
            found[key] = _changed(dict(inner), as_table(value, f"{where}.{key}"), f"{where}.{key}")
        else:
            found[key] = value
    return found
