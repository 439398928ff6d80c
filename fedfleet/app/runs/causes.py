"""What makes a fleet hard, cause by cause: which a spec has, and the same spec without some of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fedfleet.app.assemble.world import devices_for
from fedfleet.app.spec import Spec, resolve
from fedfleet.app.spec.table_checks import Table, nested_kind
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.registry import builder, parameters
from fedfleet.core.rng import client_keys
from fedfleet.world.ideal_devices import COMPUTE, LINKS, differences

CAUSES = ("links", "computing", "reachability", "data", "faults")
NAMES = {
    "links": "unequal links", "computing": "unequal computing", "reachability": "absences", "data": "unlike data",
    "faults": "faults",
}  # fmt: skip
_ALWAYS, _IID = {"use": "always_on"}, {"use": "iid"}
# A Dirichlet draw so concentrated that a user's devices share each class evenly.
_EVEN = 1e6


def present_causes(spec: Spec) -> tuple[str, ...]:
    """The causes that this spec has, in the order of CAUSES; removing any other changes no event of its run."""
    world = spec.world
    keys = client_keys(world["clients"])
    differ = differences(devices_for(world, keys, spec.fleet_seed), keys)
    users = world.get("users", {})
    has_cause = {
        "links": LINKS in differ,
        "computing": COMPUTE in differ,
        "reachability": world["heterogeneity"] in ("both", "states") and world["states"] != _ALWAYS,
        "data": _even_partition(world["data"]) != world["data"] or users.get("mu", _EVEN) != _EVEN,
        "faults": "faults" in world,
    }
    return tuple(cause for cause in CAUSES if has_cause[cause])


def without_causes(spec: Spec, causes: Collection[str]) -> Spec:
    """The same spec with these causes removed; it can be run like any other.

    Without links or computing: everyone has the link or the processor of an ideal device, the fleet's fastest. Without
    reachability: everyone can always be reached. Without data: samples are dealt at random, to users and inside them. Without
    faults: nothing goes wrong. Seed and everything else stay, and so do all draws that are still made.
    """
    for cause in causes:
        if cause not in CAUSES:
            raise BadInput(f"there is no cause {cause!r}{suggest_name(cause, CAUSES)}")
    table = spec.table()
    world: dict[str, Any] = dict(table["world"])
    if {"links", "computing"} & {*causes} and world["heterogeneity"] in ("both", "devices"):
        equal_parts = {"links": "links" in causes, "compute": "computing" in causes}
        world["devices"] = {"use": "equalled", "devices": world["devices"], **equal_parts}
    if "reachability" in causes:
        world["states"] = _ALWAYS
    if "data" in causes:
        world["data"] = _even_partition(world["data"])
        if "mu" in world.get("users", {}):
            world["users"] = {**world["users"], "mu": _EVEN}
    if "faults" in causes:
        world.pop("faults", None)
    return resolve({**table, "world": world}, spec.name)


def _even_partition(table: Table) -> Table:
    """A partition's table with rows dealt at random; what is put around a partition, such as wrong labels, stays."""
    hints = parameters(builder("partitions", table["use"]))
    inner = [name for name, (hint, _) in hints.items() if nested_kind(hint) == "partitions"]
    return {**table, **{name: _even_partition(table[name]) for name in inner}} if inner else _IID
