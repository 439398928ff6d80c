"""Resolving a spec: every table is checked against its schema, every default is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedfleet.app.spec.record import TABLES, Spec
from fedfleet.app.spec.settings import override_settings, run_settings, world_settings
from fedfleet.app.spec.tables import Table, check_table, check_value, resolve_part
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.limits import Seed
from fedfleet.core.records import Stop

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
}
_WORLD_OPTIONAL = {"users": "users"}  # what a spec may leave out altogether


def resolve(table: Mapping[str, Any], name: str = "run", *, own_task: str | None = None) -> Spec:
    """Check a spec against the builders' signatures and fill in every default.

    `own_task` names a task that was given as objects instead of by name.
    """
    for key in table:
        if key not in TABLES:
            raise BadInput(f"the spec has no table or key {key!r}{nearest(key, TABLES)}")
    parts = {
        key: resolve_part(kind, _as_table(table.get(key, {}), key), key, default)
        for key, (kind, default) in _DEFAULT_PARTS.items()
        if not (key == "task" and own_task)
    }
    if own_task:
        parts["task"] = {"use": "own", "content": own_task}
    world = _world(_as_table(table.get("world", {}), "world"))
    edge = resolve_part("edges", _as_table(table["edge"], "edge"), "edge") if "edge" in table else None
    if edge and "users" not in world:
        raise BadInput('edge: [edge] needs to know whose device is whose; add world.users = { use = "households" }')
    overrides = table.get("override", [])
    if not isinstance(overrides, list):
        raise BadInput("override must be a list of tables: write [[override]], with two brackets")
    return Spec(
        name=name,
        seed=check_value(Seed, table.get("seed", 0), "seed"),
        **parts,
        edge=edge,
        world=world,
        stop=check_table(Stop, _as_table(table.get("stop", {}), "stop"), "stop"),
        run=check_table(run_settings, _as_table(table.get("run", {}), "run"), "run"),
        override=[_override(o, i, parts["algorithm"]) for i, o in enumerate(overrides)],
    )


def _world(table: Mapping[str, Any]) -> Table:
    parts = {**_WORLD_PARTS, **{key: (kind, None) for key, kind in _WORLD_OPTIONAL.items()}}
    settings = {k: v for k, v in table.items() if k not in parts}
    found = check_table(world_settings, settings, "world", also=tuple(parts))
    if len(found["split"]) != 3 or found["split"][0] < 1:
        raise BadInput(
            f"world.split: {found['split']} must be three numbers, train : valid : test, for example [6, 2, 2]"
        )
    for key, (kind, default) in parts.items():
        if key in table or default is not None:
            found[key] = resolve_part(kind, _as_table(table.get(key, {}), f"world.{key}"), f"world.{key}", default)
    return found


def _override(table: Any, i: int, algorithm: Table) -> Table:
    where = f"override[{i}]"
    got = check_table(override_settings, _as_table(table, where), where)
    if not got["clients"] and not got["kinds"]:
        raise BadInput(f"{where} names neither clients nor kinds; name the ones it applies to")
    if "use" in got["algorithm"]:
        raise BadInput(
            f"{where}.algorithm.use: an override can change settings of the algorithm, not the algorithm itself"
        )
    if not got["algorithm"]:
        raise BadInput(f"{where} changes nothing; give it a setting, for example algorithm.lr = 0.01")
    resolve_part("algorithms", {**algorithm, **got["algorithm"]}, f"{where}.algorithm", algorithm["use"])
    return got


def _as_table(value: Any, where: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {"use": value}
    if not isinstance(value, Mapping):
        raise BadInput(f'{where}: {value!r} is not a table; write {where} = {{ use = "NAME" }}')
    return value
