"""How hard a spec's fleet is under the spec's own pacing: the six metrics in units that people use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedfleet.app.assemble.world import devices_for
from fedfleet.app.fleets.sampling import SAMPLERS, sample_devices, sample_states
from fedfleet.app.spec import Spec
from fedfleet.core.errors import FedFleetError
from fedfleet.core.fleet import DeviceTable, StateTable, device_table, take_devices, take_states
from fedfleet.core.records import Cost, Floats
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DeviceSource
from fedfleet.core.spending import stages_of
from fedfleet.measure.montecarlo.deciding import trip_seconds
from fedfleet.measure.montecarlo.metrics import NAMES, available, measure
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices, load_states

MOST = 20_000  # clients of a fleet that is measured for a page
_DRAWS, _BYTES = 16, 1e7
_PACES = ("deadline", "readiness")


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric: its raw value, and what it comes to (R: the share of fair work that arrives in time; T: seconds of a round)."""

    raw: float
    sd: float
    plain: float


@dataclass(frozen=True, slots=True)
class Hardness:
    """The metrics that mean something for a run, by name (DevMC-R ..), with what they were measured under. `why_not` says what is
    missing, and why."""

    measures: Mapping[str, Measure]
    settings: Settings
    why_not: str = ""


def hardness(spec: Spec, samples: float, rounds: int, *, seeds: int = 3) -> Hardness:
    """Measure the fleet of this spec with its pace, its cohort, its model and its work of so many `samples` a task, over as many
    rounds. R metrics belong to deadlines, T metrics to waiting; nothing else is measured, and that is said."""
    pace, world = spec.pace, spec.world
    k = int(pace.get("cohort") or 0)
    settings = Settings(
        k=max(k, 1), rounds=max(rounds, 1), trips=max(k, 1) * max(rounds, 1), deadline=float(pace.get("seconds") or 120.0),
        ready_share=1.0, size_kb=float(world["model_bytes"] or 0.0) / 1000.0, samples=samples,
        t_break_asked=float(pace.get("t_break") or 0.0), t_cost="uniform",
    )  # fmt: skip
    why = _refusal(spec, k)
    if why:
        return Hardness({}, settings, why)
    try:
        devices, states, missing = tables_of(spec)
        by_deadline = pace["use"] == "deadline"
        if devices is not None and not by_deadline:
            # Waiting for reachability alone: with the cost of a usual trip of this very run, not averaged over all that could be.
            settings = replace(settings, t_cost=float(np.median(trip_seconds(settings, devices))))
        wanted = [n for n in NAMES if n in available(devices, states) and n.endswith("-R" if by_deadline else "-T")]
        found = {name: _measured(name, settings, devices, states, seeds) for name in wanted}
    except FedFleetError as wrong:
        return Hardness({}, settings, str(wrong))
    return Hardness(found, settings, missing)


def _refusal(spec: Spec, k: int) -> str:
    if spec.pace["use"] not in _PACES or k < 1:
        use = spec.pace["use"]
        return f"the six metrics describe rounds with a deadline or rounds that wait for all, and this run is paced by {use}"
    if "users" in spec.world or spec.edge is not None:
        return "the six metrics describe devices that stand alone, and here they belong to users"
    if spec.world["clients"] > MOST:
        return f"fleets of more than {MOST:,} are not measured for a page; fedfleet measure does it"
    if spec.world["model_bytes"] is None:
        return "the six metrics need the size of the model that travels: name it with world.model_bytes"
    if spec.pace.get("t_break", 0.0) <= 0 and spec.pace["use"] == "readiness":
        return "the metrics of waiting are measured in pauses between rounds (pace.t_break), and this run has none"
    return ""


def _measured(
    name: str, settings: Settings, devices: DeviceTable | None, states: StateTable | None, seeds: int
) -> Measure:
    got = measure(name, settings, devices, states, seeds=seeds)
    if name.endswith("T"):
        return Measure(got.value, got.sd, got.value * settings.t_break_asked)
    return Measure(got.value, got.sd, fair_work(got.value, float(settings.k * settings.rounds)))


def fair_work(metric: float, ideal: float) -> float:
    """The share of fair work behind an R metric, ((1 + ideal)^M - 1) / ideal: reports in time, none counted beyond an equal share
    each, over as many as there would be if everybody were always in time.

    >>> round(fair_work(1.0, 1000.0), 3), round(fair_work(0.925, 1000.0), 2)
    (1.0, 0.6)
    """
    return ((1.0 + ideal) ** metric - 1.0) / ideal


def tables_of(spec: Spec) -> tuple[DeviceTable | None, StateTable | None, str]:
    """The fleet of a spec as tables, and a sentence on what has none: devices by their sampler, file, or draws; states likewise."""
    world, n, seed = spec.world, int(spec.world["clients"]), spec.fleet_seed
    keys = client_keys(n)
    alike = world["heterogeneity"]
    devices = None if alike in ("states", "none") else _devices(world["devices"], n, seed)
    if devices is None:
        devices = drawn(devices_for(world, keys, seed), n)
    always = alike in ("devices", "none") or world["states"]["use"] == "always_on"
    states = None if always else _states(world["states"], n, seed)
    missing = "" if states is not None or always else (
        f"reachability by {world['states']['use']} cannot be put into a table, so only devices are measured"
    )  # fmt: skip
    return devices, states, missing


def _devices(table: Mapping[str, Any], n: int, seed: int) -> DeviceTable | None:
    if table["use"] in SAMPLERS["devices"]:
        known = {k: v for k, v in table.items() if k not in SAMPLERS["devices"][table["use"]].without}
        return sample_devices(known, n, seed)
    return take_devices(load_devices(table["path"]), np.arange(n)) if table["use"] == "device_file" else None


def _states(table: Mapping[str, Any], n: int, seed: int) -> StateTable | None:
    if table["use"] in SAMPLERS["states"]:
        return sample_states(table, n, seed)
    return take_states(load_states(table["path"]), np.arange(n)) if table["use"] == "state_file" else None


def drawn(source: DeviceSource, n: int) -> DeviceTable:
    """A table of a device source that has none, from some draws of each client's link, and its time for a sample."""
    clients, none = np.arange(n), np.zeros(n)
    size = np.full(n, _BYTES)
    down, up = list[Floats](), list[Floats]()
    for draw in range(_DRAWS):
        stages = stages_of(source, clients, Cost(none, size, size), 0.0, np.full(n, draw))
        down.append(_kbps(stages.get("download", none)))
        up.append(_kbps(stages.get("upload", none)))
    once = stages_of(source, clients, Cost(np.ones(n), none, none), 0.0, np.zeros(n, np.int64)).get("compute", none)
    rows = [[float(v[c]) for v in down] for c in range(n)]
    ups = [[float(v[c]) for v in up] for c in range(n)]
    return device_table([str(c) for c in range(n)], rows, np.asarray(once) / 3.0, ups)


def _kbps(seconds: Floats) -> Floats:
    return 8e-3 * _BYTES / np.maximum(seconds, 1e-9)
