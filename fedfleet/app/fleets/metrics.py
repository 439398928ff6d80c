"""Measuring a fleet: what it is like in numbers, and how hard it is to train on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.app.terminal.value_checks import not_negative, one_of, positive, positive_int, share
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.fleet import DeviceTable, StateTable, availability, mean_kbps
from fedfleet.measure.distances import js_distance, ks_distance
from fedfleet.measure.montecarlo.metric_notes import notes
from fedfleet.measure.montecarlo.metrics import NAMES, available_metrics, measure, per_state, state_scores
from fedfleet.measure.montecarlo.published_values import fair_work
from fedfleet.measure.montecarlo.settings import VIT_KB, Settings
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical_files import write_devices, write_states

_DEFAULTS: dict[str, Any] = {
    "clients_k": 20, "rounds": 3000, "trips": 10000, "deadline": 120.0, "ready_share": 0.8, "t_cost": "uniform",
    "semantics": "paper", "model_bytes": None, "samples": 1.0, "t_break": 20.0,
}  # fmt: skip


def save_devices(table: DeviceTable, out: Path | None) -> dict[str, Any]:
    """Write sampled devices to a file if one is named, and summarise them."""
    if out is not None:
        write_devices(str(out), table)
    speeds = mean_kbps(table)
    return {
        "clients": len(table), "distinct": len(np.unique(table.ids)), "mean_kbps": float(speeds.mean()),
        "std_kbps": float(speeds.std()), "out": None if out is None else str(out),
    }  # fmt: skip


def save_states(table: StateTable, out: Path | None) -> dict[str, Any]:
    """Write sampled states to a file if one is named, and summarise them."""
    if out is not None:
        write_states(str(out), table)
    share = availability(table)
    return {
        "clients": len(table), "distinct": len(np.unique(table.ids)), "mean_availability": float(share.mean()),
        "std_availability": float(share.std()), "out": None if out is None else str(out),
    }  # fmt: skip


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Under what a fleet is measured: what is not asked for is as in the paper. The keys are the options of `fedfleet measure`."""
    values = {**_DEFAULTS, **options}
    size = values["model_bytes"]
    return Settings(
        k=positive_int("--clients-k", values["clients_k"]),
        rounds=positive_int("--rounds", values["rounds"]),
        trips=positive_int("--trips", values["trips"]),
        deadline=positive("--deadline", values["deadline"]),
        ready_share=share("--ready-share", values["ready_share"]),
        t_cost=parse_t_cost(values["t_cost"]),
        semantics=one_of("--semantics", values["semantics"], ("paper", "released")),
        size_kb=VIT_KB if size is None else positive("--model-bytes", size) / 1000.0,
        samples=not_negative("--samples", values["samples"]),
        t_break_asked=positive("--t-break", values["t_break"]),
    )


def measure_fleet(
    devices: str | None,
    states: str | None,
    settings: Settings,
    *,
    seeds: int,
    until_se: float | None = None,
    only: Sequence[str] = (),
    against: str | None = None,
) -> dict[str, Any]:
    """The metrics of a fleet that is given as files or bases; the answer of `fedfleet measure`."""
    if until_se is not None:
        positive("--until-se", until_se)
    for name in only:
        if name not in NAMES:
            raise BadInput(f"--only: there is no metric {name!r}{suggest_name(name, NAMES)}")
    d = load_devices(devices) if devices else None
    s = load_states(states) if states else None
    settings.clients(d, s)
    names = available_metrics(d, s)
    answer: dict[str, Any] = {}
    for name in only or names:
        answer[name] = measure_metric(name, settings, d, s, seeds=seeds, until_se=until_se)
    if s is not None and (not only or "StatMC-R" in only):
        answer["per_state"] = per_state(s, state_scores(settings, s, seeds=min(seeds, 3)))
    if against is not None:
        answer["against"] = _distances(d, s, against)
    return answer


def measure_metric(
    name: str,
    settings: Settings,
    devices: DeviceTable | None,
    states: StateTable | None,
    *,
    seeds: int = 3,
    until_se: float | None = None,
) -> dict[str, Any]:
    """A metric over seeds with its 95 % interval (null for one seed), what it comes to, and notes on what decides it.

    An R metric comes to a share of fair work, a T metric to the seconds of a round.
    """
    statistics = measure(name, settings, devices, states, seeds=seeds, until_se=until_se)

    def in_units(value: float) -> float:
        if name.endswith("-R"):
            return fair_work(min(value, 1.0), float(settings.k * settings.rounds))
        return value * settings.t_break_asked

    return {
        "fair_work" if name.endswith("-R") else "round_seconds": in_units(statistics.value),
        "value": statistics.value, "sd": statistics.sd, "seconds": statistics.seconds, "seeds": len(statistics.values),
        "ci95": None if statistics.ci95 is None else list(statistics.ci95),
        "comes_to_ci95": None if statistics.ci95 is None else [in_units(end) for end in statistics.ci95],
        "notes": notes(name, settings, devices, states, statistics),
    }  # fmt: skip


def _distances(devices: DeviceTable | None, states: StateTable | None, other: str) -> dict[str, float]:
    """The classical distances to another fleet: of mean speeds, or of availability where no devices are given."""
    if devices is not None:
        a, b = mean_kbps(devices), mean_kbps(load_devices(other))
    elif states is not None:
        a, b = availability(states), availability(load_states(other))
    else:
        raise BadInput("--against needs a fleet to compare with; give --devices or --states")
    return {"std": float(a.std()), "std_other": float(b.std()), "ks": ks_distance(a, b), "js": js_distance(a, b)}


def parse_t_cost(value: str | float) -> float | Literal["uniform", "deadline"]:
    """uniform, deadline, or a number of seconds."""
    if value == "uniform" or value == "deadline":
        return value
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise BadInput(f"--t-cost {value!r} is not known; give uniform, deadline or a number of seconds") from None
    if not 0 <= seconds < np.inf:
        raise BadInput(f"--t-cost {value} must be finite and not negative")
    return seconds
