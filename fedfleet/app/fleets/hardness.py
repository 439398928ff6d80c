"""How hard a spec's fleet is under the spec's own pacing: the six metrics in units that people use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedfleet.app.assemble.world import devices_for
from fedfleet.app.fleets.fleet_samples import SAMPLERS, sample_devices, sample_states
from fedfleet.app.spec import Spec
from fedfleet.core.errors import FedFleetError
from fedfleet.core.fleet import DeviceTable, StateTable, device_table, take_devices, take_states
from fedfleet.core.records import Cost, Floats
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import stages_of
from fedfleet.measure.montecarlo.metric_notes import notes, trip_seconds
from fedfleet.measure.montecarlo.metrics import NAMES, available_metrics, measure
from fedfleet.measure.montecarlo.references import fair_work, ideal_fair_work
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.states import daily_traces

MOST = 20_000  # clients of a fleet that is measured for a page
_DRAWS, _BYTES = 16, 1e7
_PACES = ("deadline", "readiness")


# Shares of fair work from which on a fleet is called so; and up to how many times an undisturbed round one takes.
_SHARES = ((0.8, "easy"), (0.5, "tight"), (0.25, "hard"), (0.0, "very hard"))
_TIMES = ((2.0, "easy"), (5.0, "tight"), (20.0, "hard"), (math.inf, "very hard"))


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric: its raw value, and what it comes to (R: the share of fair work that arrives in time; T: seconds of a round).

    `range95` is the 95 % interval of what it comes to, None for one seed; `notes` say what decides it alone.
    """

    raw: float
    sd: float
    plain: float
    range95: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hardness:
    """The metrics that mean something for a run, by name (DevMC-R ..), with what they were measured under. `why_not` says what is
    missing, and why; `trip` is how long a usual client is busy with a task that nothing interrupts, in seconds; `ideal` the share
    of fair work that an ideal fleet would have in as many rounds, by which words go: in few rounds chance alone is unfair."""

    measures: Mapping[str, Measure]
    settings: Settings
    missing_reason: str = ""
    trip: float = 0.0
    ideal: float = 1.0

    def relative(self, share: float) -> float:
        """A share of fair work, as a share of what an ideal fleet would have."""
        return min(share / self.ideal, 1.0)


def share_word(share: float) -> str:
    """A share of fair work, in a word.

    >>> share_word(0.9), share_word(0.1)
    ('easy', 'very hard')
    """
    return next((word for least, word in _SHARES if share >= least), _SHARES[-1][1])


def wait_word(times: float) -> str:
    """How many times an undisturbed round one takes, in a word.

    >>> wait_word(1.0), wait_word(100.0)
    ('easy', 'very hard')
    """
    return next((word for most, word in _TIMES if times <= most), _TIMES[-1][1])


def hardness(
    spec: Spec,
    samples: float,
    rounds: int,
    *,
    seeds: int = 3,
    model_bytes: float | None = None,
    most: int = MOST,
    waiting_too: bool = False,
) -> Hardness:
    """Measure the fleet of this spec with its pace, its cohort, its model and its work of so many `samples` a task, over as many
    rounds. R metrics belong to deadlines, T metrics to waiting; `waiting_too`: a deadline's fleet is also measured as if each round
    waited for all instead. Nothing else is measured, and that is said."""
    settings = _settings(spec, samples, rounds, model_bytes)
    refusal = _refusal(spec, settings, most)
    if refusal:
        return Hardness({}, settings, refusal)
    try:
        devices, states, missing = tables_of(spec)
        trip = float(np.median(trip_seconds(settings, devices)))
        by_deadline = spec.pace["use"] == "deadline"
        # Reachability alone: with the cost of a usual trip of this very run, not averaged over all that could be.
        usual = replace(settings, t_cost=min(trip, settings.deadline) if by_deadline else trip)
        kinds = ("-R", "-T") if by_deadline and waiting_too else ("-R",) if by_deadline else ("-T",)
        measures = dict[str, Measure]()
        for name in (n for n in NAMES if n in available_metrics(devices, states) and n[-2:] in kinds):
            metric_settings = usual if not name.endswith("-T") else replace(usual, t_cost=trip)
            measures[name] = _measure_metric(name, metric_settings, devices, states, seeds, with_notes=waiting_too)
    except FedFleetError as error:
        return Hardness({}, settings, str(error))
    return Hardness(measures, usual, missing, trip, ideal_fair_work(settings.k, settings.rounds, len(devices)))


def _settings(spec: Spec, samples: float, rounds: int, model_bytes: float | None) -> Settings:
    pace = spec.pace
    k, size = int(pace.get("cohort") or 0), spec.world["model_bytes"] if model_bytes is None else model_bytes
    return Settings(
        k=max(k, 1), rounds=max(rounds, 1), trips=max(k, 1) * max(rounds, 1), deadline=float(pace.get("seconds") or 120.0),
        ready_share=float(pace.get("ready_share") or 1.0), size_kb=float(size or 0.0) / 1000.0, samples=samples,
        t_break_asked=float(pace.get("t_break") or 20.0), t_cost="uniform",
    )  # fmt: skip


def _refusal(spec: Spec, settings: Settings, most: int) -> str:
    if spec.pace["use"] not in _PACES or not spec.pace.get("cohort"):
        use = spec.pace["use"]
        return f"the six metrics describe rounds with a deadline or rounds that wait for all, and this run is paced by {use}"
    if "users" in spec.world or spec.edge is not None:
        return "the six metrics describe devices that stand alone, and here they belong to users"
    if spec.world["clients"] > most:
        return f"fleets of more than {most:,} are not measured for a page; fedfleet measure SPEC does it"
    if not settings.size_kb:
        return "the six metrics need the size of the model that travels: name it with world.model_bytes"
    return ""


def _measure_metric(
    name: str, settings: Settings, devices: DeviceTable, states: StateTable | None, seeds: int, *, with_notes: bool
) -> Measure:
    statistics = measure(name, settings, devices, states, seeds=seeds)

    def in_units(value: float) -> float:
        if name.endswith("T"):
            return value * settings.t_break_asked
        return fair_work(min(value, 1.0), float(settings.k * settings.rounds))

    texts = tuple(notes(name, settings, devices, states, statistics)) if with_notes else ()
    range95 = None if statistics.ci95 is None else (in_units(statistics.ci95[0]), in_units(statistics.ci95[1]))
    return Measure(statistics.value, statistics.sd, in_units(statistics.value), range95, texts)


def tables_of(spec: Spec) -> tuple[DeviceTable, StateTable | None, str]:
    """The fleet of a spec as tables, and a sentence on what has none: devices by their sampler, file, or draws; states likewise."""
    world, n, seed = spec.world, int(spec.world["clients"]), spec.fleet_seed
    keys = client_keys(n)
    heterogeneity = world["heterogeneity"]
    devices = None if heterogeneity in ("states", "none") else _devices(world["devices"], n, seed)
    if devices is None:
        devices = table_from_draws(devices_for(world, keys, seed), n)
    always = heterogeneity in ("devices", "none") or world["states"]["use"] == "always_on"
    states = None if always else _states(world["states"], n, seed)
    missing = "" if states is not None or always else (
        f"reachability by {world['states']['use']} cannot be put into a table, so only devices are measured"
    )  # fmt: skip
    return devices, states, missing


def _devices(table: Mapping[str, Any], n: int, seed: int) -> DeviceTable | None:
    if table["use"] in SAMPLERS["devices"]:
        settings = {k: v for k, v in table.items() if k not in SAMPLERS["devices"][table["use"]].without}
        return sample_devices(settings, n, seed)
    return take_devices(load_devices(table["path"]), np.arange(n)) if table["use"] == "device_file" else None


def _states(table: Mapping[str, Any], n: int, seed: int) -> StateTable | None:
    if table["use"] in SAMPLERS["states"]:
        return sample_states(table, n, seed)
    if table["use"] == "daily":
        settings = {key: value for key, value in table.items() if key != "use"}
        return StateTable(np.arange(n).astype(np.str_), daily_traces(client_keys(n), seed, **settings))
    return take_states(load_states(table["path"]), np.arange(n)) if table["use"] == "state_file" else None


def table_from_draws(source: DeviceSource, n: int) -> DeviceTable:
    """A table of a device source that has none, from some draws of each client's link, and its time for a sample."""
    clients, none = np.arange(n), np.zeros(n)
    size = np.full(n, _BYTES)
    down, up = list[Floats](), list[Floats]()
    for draw in range(_DRAWS):
        stages = stages_of(source, clients, Cost(none, size, size), 0.0, np.full(n, draw))
        down.append(_kbps(stages.get("download", none)))
        up.append(_kbps(stages.get("upload", none)))
    sample_seconds = stages_of(source, clients, Cost(np.ones(n), none, none), 0.0, np.zeros(n, np.int64)).get(
        "compute", none
    )
    rows = [[float(v[c]) for v in down] for c in range(n)]
    ups = [[float(v[c]) for v in up] for c in range(n)]
    return device_table([str(c) for c in range(n)], rows, np.asarray(sample_seconds) / 3.0, ups)


def _kbps(seconds: Floats) -> Floats:
    return 8e-3 * _BYTES / np.maximum(seconds, 1e-9)
