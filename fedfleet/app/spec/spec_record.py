"""The record of a resolved spec."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedfleet.app.spec.table_checks import Table
from fedfleet.core.pins import identity_of
from fedfleet.core.registry import builder

TABLES = ("seed", "seeds", "task", "world", "algorithm", "edge", "choose", "pace", "stop", "run", "override")
# What only permits a number of clients, and changes nothing of what a run does.
PERMISSIONS = ("merge_owners", "split_owners")


@dataclass(frozen=True, slots=True)
class Spec:
    """A resolved spec: every table is complete, every default is filled in."""

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
    seeds: Table

    @property
    def fleet_seed(self) -> int:
        """What devices, states, users, faults and energy are drawn from."""
        return self._seed("fleet")

    @property
    def data_seed(self) -> int:
        """What the data themselves, the central test set and who holds what are drawn from."""
        return self._seed("data")

    @property
    def training_seed(self) -> int:
        """What first weights, orders of batches, picks, pacing, codes and noise are drawn from."""
        return self._seed("training")

    @property
    def has_custom_task(self) -> bool:
        """Are the model and the data the user's own objects, which are in no spec?"""
        return self.task["use"] == "own"

    def _seed(self, what: str) -> int:
        own = self.seeds[what]
        return self.seed if own is None else own

    def table(self) -> dict[str, Any]:
        """The spec as one nested table, without keys that are not set."""
        full_table = {name: getattr(self, name) for name in TABLES}
        settings = _without_none({k: v for k, v in full_table.items() if v != []})
        return {k: v for k, v in settings.items() if k != "seeds" or v}

    @property
    def digest(self) -> str:
        """SHA-256 of what was asked for; [run], which says how to run it, is left out."""
        return digest_of(self.table())

    def toml(self) -> str:
        """The resolved spec as TOML, which reads back to the same spec."""
        import tomli_w

        return tomli_w.dumps(self.table())


def digest_of(table: Mapping[str, Any]) -> str:
    """The digest of a resolved spec, by its table: without [run], and without what only permits a number of clients.

    >>> world = {"clients": 3, "data": {"use": "by_owner"}}
    >>> digest_of({"world": world}) == digest_of({"world": {**world, "data": {"use": "by_owner", "merge_owners": True}}})
    True
    """
    content: dict[str, Any] = _without_none({k: v for k, v in table.items() if k != "run"})
    task = content.get("task")
    if isinstance(task, Mapping) and "content" in task and task.get("use") != "own":
        # The content is what was asked for, wherever its file lies.
        content["task"] = identity_of(builder("tasks", task["use"]), task)
    world = content.get("world")
    if isinstance(world, Mapping) and isinstance(world.get("data"), Mapping):
        content["world"] = {**world, "data": _without_permissions(world["data"])}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _without_permissions(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _without_permissions(v) if isinstance(v, Mapping) else v for k, v in data.items() if k not in PERMISSIONS}


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return [_without_none(v) for v in value] if isinstance(value, list | tuple) else value
