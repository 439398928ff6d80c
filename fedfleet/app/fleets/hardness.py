"""How hard a spec's fleet is under the spec's own pacing: the six metrics in units that people use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedfleet.app.assemble.world import devices_for, states_for
from fedfleet.app.spec import Spec
from fedfleet.app.spec.table_checks import build_part
from fedfleet.core.errors import FedFleetError
from fedfleet.core.fleet import DeviceTable, StateTable, device_table
from fedfleet.core.parts import Policy
from fedfleet.core.records import Cost, Floats
from fedfleet.core.rng import client_keys
from fedfleet.core.round_rules import RoundRules
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import declared_table, stages_of
from fedfleet.measure.montecarlo.metric_notes import notes, trip_seconds
from fedfleet.measure.montecarlo.metrics import NAMES, available_metrics, measure
from fedfleet.measure.montecarlo.published_values import fair_work, ideal_fair_work
from fedfleet.measure.montecarlo.settings import Settings

MOST = 20_000  # clients of a fleet that is measured for a page
_DRAWS, _BYTES = 16, 1e7
_NO_DEADLINE = 120.0  # where rounds wait for reports, which nothing reads

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
    of fair work that an ideal fleet would have in as many rounds, by which words go: in few rounds chance alone is unfair.
    `rules` are those of the rounds that were measured, None where the policy declares none."""

    measures: Mapping[str, Measure]
    settings: Settings
    missing_reason: str = ""
    trip: float = 0.0
    ideal: float = 1.0
    rules: RoundRules | None = None

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
    pace: Policy = build_part("policies", spec.pace)
    rules = pace.round_rules
    settings = _settings(spec, pace, samples, rounds, model_bytes)
    refusal = _refusal(spec, pace, settings, most)
    if refusal or rules is None:
        return Hardness({}, settings, refusal, rules=rules)
    try:
        devices, states, missing = tables_of(spec)
        trip = float(np.median(trip_seconds(settings, devices)))
        # Reachability alone: with the cost of a usual trip of this very run, not averaged over all that could be.
        usual = replace(settings, t_cost=min(trip, settings.deadline) if rules.by_deadline else trip)
        kinds = ("-T",) if not rules.by_deadline else ("-R", "-T") if waiting_too else ("-R",)
        measures = dict[str, Measure]()
        for name in (n for n in NAMES if n in available_metrics(devices, states) and n[-2:] in kinds):
            metric_settings = usual if not name.endswith("-T") else replace(usual, t_cost=trip)
            measures[name] = _measure_metric(name, metric_settings, devices, states, seeds, with_notes=waiting_too)
    except FedFleetError as error:
        return Hardness({}, settings, str(error), rules=rules)
    return Hardness(measures, usual, missing, trip, ideal_fair_work(settings.k, settings.rounds, len(devices)), rules)


def rules_of(pace: Mapping[str, Any]) -> RoundRules | None:
    """The round rules of a spec's pace; None where its policy declares none, or is not known here."""
    try:
        policy: Policy = build_part("policies", pace)
    except (FedFleetError, KeyError, TypeError):
        return None
    return policy.round_rules


def _settings(spec: Spec, pace: Policy, samples: float, rounds: int, model_bytes: float | None) -> Settings:
    rules = pace.round_rules or RoundRules(pace.cohort)
    rounds, size = max(rounds, 1), spec.world["model_bytes"] if model_bytes is None else model_bytes
    return Settings(
        k=rules.cohort,
        rounds=rounds,
        trips=rules.cohort * rounds,
        deadline=_NO_DEADLINE if rules.seconds is None else rules.seconds,
        ready_share=rules.ready_share,
        size_kb=float(size or 0.0) / 1000.0,
        samples=samples,
        t_break_asked=rules.t_break,
        t_cost="uniform",
    )


def _refusal(spec: Spec, pace: Policy, settings: Settings, most: int) -> str:
    if pace.round_rules is None:
        return (
            "the six metrics describe rounds with a deadline or rounds that wait for all, and this run is paced by "
            f"{spec.pace['use']}, which declares no such rounds"
        )
    if "users" in spec.world or spec.edge is not None:
        return "the six metrics describe independent devices, and here devices belong to users"
    if spec.world["clients"] > most:
        return f"fleets of more than {most:,} clients are not measured for a page; run fedfleet measure SPEC"
    if not settings.size_kb:
        return "the six metrics need the size of the model that travels; set world.model_bytes"
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
    """The fleet of a spec as tables, and a sentence on what has none: of devices without a table some trips are drawn."""
    n, seed = int(spec.world["clients"]), spec.fleet_seed
    keys = client_keys(n)
    device_source, states = devices_for(spec.world, keys, seed), states_for(spec.world, keys, seed)
    devices = declared_table(device_source) or table_from_draws(device_source, n)
    if states.always:
        return devices, None, ""
    if states.table is not None:
        return devices, states.table(), ""
    missing = (
        f"reachability by {spec.world['states']['use']} has no table of ready intervals (StateSource.table), so only devices "
        "are measured"
    )
    return devices, None, missing


def table_from_draws(source: DeviceSource, n: int) -> DeviceTable:
    """A table of a device source that has none, from some draws of each client's link, and its time for a sample."""
    clients, none = np.arange(n), np.zeros(n)
    size = np.full(n, _BYTES)
    down, up = list[Floats](), list[Floats]()
    for draw in range(_DRAWS):
        stages = stages_of(source, clients, Cost(none, size, size), 0.0, np.full(n, draw))
        down.append(_kbps(stages.get("download", none)))
        up.append(_kbps(stages.get("upload", none)))
    sample_seconds = stages_of(source, clients, Cost(np.ones(n), none, none), 0.0, np.zeros(n, np.int64)).get("compute", none)
    rows = [[float(v[c]) for v in down] for c in range(n)]
    ups = [[float(v[c]) for v in up] for c in range(n)]
    return device_table([str(c) for c in range(n)], rows, np.asarray(sample_seconds) / 3.0, ups)


def _kbps(seconds: Floats) -> Floats:
    return 8e-3 * _BYTES / np.maximum(seconds, 1e-9)
