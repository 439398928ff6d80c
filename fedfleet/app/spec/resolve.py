"""The spec: one TOML file, checked against the signatures of the builders it names, with every default filled in."""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge

from fedfleet.app.tables import Table, check_table, check_value, resolve_part
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.limits import Count, Natural, Positive
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
_TABLES = ("seed", "task", "world", "algorithm", "edge", "choose", "pace", "stop", "run", "override")


def world_settings(
    *,
    clients: Count = 100,
    model_bytes: Positive | None = None,
    split: list[Annotated[int, Ge(0)]] = [6, 2, 2],  # noqa: B006
    min_samples: Count = 5,
    heterogeneity: Literal["both", "devices", "states", "none"] = "both",
) -> None:
    """The keys of [world] beside its parts; only the signature is used."""


def run_settings(
    *,
    execute: Literal["auto", "inline", "stacked", "ray"] = "auto",
    device: Literal["cpu", "cuda"] = "cpu",
    tf32: bool = False,
    threads: Count = 1,
    checkpoint_every: Count = 20,
    workers: Count | None = None,
    ray_address: str | None = None,
    ray_execute: Literal["inline", "stacked"] = "inline",
) -> None:
    """The keys of [run]: how, not what. They stay out of the digest; only the signature is used."""


def override_settings(*, clients: list[Natural] = [], kinds: list[str] = [], algorithm: dict[str, Any] = {}) -> None:  # noqa: B006
    """The keys of one [[override]]; only the signature is used."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A resolved spec: every table whole, every default in place."""

    name: str
    seed: int
    task: Table
    world: Table
    algorithm: Table
    edge: Table | None
    choose: Table
    pace: Table
    stop: Table
    run: Table
    override: list[Table]

    def table(self) -> dict[str, Any]:
        """The spec as one nested table, without what is not set."""
        whole = {name: getattr(self, name) for name in _TABLES}
        return _without_none({k: v for k, v in whole.items() if v != []})

    @property
    def digest(self) -> str:
        """SHA-256 of what was asked; [run], which says how, is left out."""
        asked = {k: v for k, v in self.table().items() if k != "run"}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def toml(self) -> str:
        """The resolved spec as TOML, which reads back to the same spec."""
        import tomli_w

        return tomli_w.dumps(self.table())


def load_spec(path: str | Path, words: Sequence[str] = ()) -> Spec:
    """Read a spec file and apply `key=value` words to it."""
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise BadInput(f"there is no spec file {path}") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a folder; name a spec file, such as {path / 'spec.toml'}") from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise BadInput(f"the spec {path} cannot be read: {wrong}") from None
    except tomllib.TOMLDecodeError as wrong:
        raise BadInput(f"the spec {path} is not valid TOML: {wrong}") from None
    return resolve(with_words(table, words), path.stem)


def with_words(table: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The table with `a.b=value` words applied; a value is read as TOML, else as text."""
    table = copy.deepcopy(table)
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not all(key.split(".")):
            raise BadInput(f"{word!r} is not an override; write key=value, such as pace.cohort=20")
        try:
            value = tomllib.loads(f"v = {text}")["v"]
        except tomllib.TOMLDecodeError:
            value = text
        place = table
        *path, last = key.split(".")
        for part in path:
            inner = place.get(part, {})
            place[part] = {"use": inner} if isinstance(inner, str) else inner  # a bare name stands for its part
            place = place[part]
            if not isinstance(place, dict):
                raise BadInput(f"{word!r}: {part!r} holds a value, not a table")
        place[last] = value
    return table


def resolve(table: Mapping[str, Any], name: str = "run", *, own_task: str | None = None) -> Spec:
    """Check a spec against the builders' signatures and fill in every default.

    `own_task` names a task that was given as objects instead of by name.
    """
    for key in table:
        if key not in _TABLES:
            raise BadInput(f"the spec has no table or key {key!r}{nearest(key, _TABLES)}")
    parts = {
        key: resolve_part(kind, _part_table(table.get(key, {}), key), key, default)
        for key, (kind, default) in _DEFAULT_PARTS.items()
        if not (key == "task" and own_task)
    }
    if own_task:
        parts["task"] = {"use": "own", "content": own_task}
    world = dict(_part_table(table.get("world", {}), "world"))
    named = {**_WORLD_PARTS, **_WORLD_OPTIONAL}
    scalars = {k: v for k, v in world.items() if k not in named}
    resolved_world = check_table(world_settings, scalars, "world", also=tuple(named))
    if len(resolved_world["split"]) != 3 or resolved_world["split"][0] < 1:
        raise BadInput(
            f"world.split: {resolved_world['split']} must be three numbers, train : valid : test, such as [6, 2, 2]"
        )
    for key, (kind, default) in _WORLD_PARTS.items():
        resolved_world[key] = resolve_part(
            kind, _part_table(world.get(key, {}), f"world.{key}"), f"world.{key}", default
        )
    for key, kind in _WORLD_OPTIONAL.items():
        if key in world:
            resolved_world[key] = resolve_part(kind, _part_table(world[key], f"world.{key}"), f"world.{key}")
    edge = resolve_part("edges", _part_table(table["edge"], "edge"), "edge") if "edge" in table else None
    if edge and "users" not in resolved_world:
        raise BadInput('edge: an edge needs devices of its own; group them with world.users = { use = "households" }')
    overrides = table.get("override", [])
    if not isinstance(overrides, list):
        raise BadInput("override must be a list of tables: write [[override]], with two brackets")
    return Spec(
        name=name,
        seed=check_value(Annotated[int, Ge(0)], table.get("seed", 0), "seed"),
        **parts,
        edge=edge,
        world=resolved_world,
        stop=check_table(Stop, _part_table(table.get("stop", {}), "stop"), "stop"),
        run=check_table(run_settings, _part_table(table.get("run", {}), "run"), "run"),
        override=[_override(o, i, parts["algorithm"]) for i, o in enumerate(overrides)],
    )


def _override(table: Any, i: int, algorithm: Table) -> Table:
    where = f"override[{i}]"
    got = check_table(override_settings, _part_table(table, where), where)
    if not got["clients"] and not got["kinds"]:
        raise BadInput(f"{where} says neither clients nor kinds; say whom it concerns")
    if "use" in got["algorithm"]:
        raise BadInput(f"{where}.algorithm.use: clients can differ in settings, not in the algorithm itself")
    if not got["algorithm"]:
        raise BadInput(f"{where} changes nothing; give it settings such as algorithm.lr = 0.01")
    resolve_part("algorithms", {**algorithm, **got["algorithm"]}, f"{where}.algorithm", algorithm["use"])
    return got


def _part_table(value: Any, where: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {"use": value}
    if not isinstance(value, Mapping):
        raise BadInput(f"{where}: {value!r} is not a table; write {where} = {{ use = .. }}")
    return value


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value
