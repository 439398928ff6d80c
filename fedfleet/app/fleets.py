"""`fedfleet sample` and `fedfleet measure`: make a fleet, and learn how hard it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.app.assemble import score_states
from fedfleet.core.errors import BadInput, nearest
from fedfleet.core.fleet import DeviceTable, StateTable, availability, mean_kbps, take_devices, take_states
from fedfleet.core.records import Floats
from fedfleet.core.rng import client_keys, stream
from fedfleet.measure.distances import js_distance, ks_distance, standard_deviation
from fedfleet.measure.montecarlo.metrics import NAMES, available, measure, per_state, state_scores
from fedfleet.measure.montecarlo.settings import Semantics, Settings
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.canonical import write_devices, write_states
from fedfleet.world.samplers.dpcsm import sample_dpcsm
from fedfleet.world.samplers.dpgmm import sample_dpgmm
from fedfleet.world.samplers.pool72 import Distribution, allocate, configurations

DEVICE_SAMPLERS = ("dpgmm", "pool72", "uniform")
STATE_SAMPLERS = ("dpcsm", "uniform")


def sample_devices(
    sampler: str,
    base: str,
    clients: int,
    *,
    seed: int,
    semantics: Semantics,
    kinds: int,
    sigma: float,
    mean_mbps: float,
    alpha: float | None,
    distribution: Distribution,
) -> DeviceTable:
    """The devices of a fleet by a sampler's name."""
    match sampler:
        case "dpgmm":
            return sample_dpgmm(
                load_devices(base), clients, kinds=kinds, sigma=sigma, mean_kbps_wanted=mean_mbps * 1000.0,
                alpha=1000.0 if alpha is None else alpha, semantics=semantics, seed=seed,
            )  # fmt: skip
        case "pool72":
            return take_devices(configurations(), allocate(distribution, client_keys(clients), seed))
        case "uniform":
            table = load_devices(base)
            return take_devices(table, stream(seed, "sample").integers(len(table), size=clients))
        case other:
            raise BadInput(f"no sampler of devices is called {other!r}{nearest(other, DEVICE_SAMPLERS)}")


def sample_states(
    sampler: str,
    base: str,
    clients: int,
    *,
    seed: int | None,
    semantics: Semantics,
    alpha: float | None,
    start_rank: int,
    deadline: float,
    k: int,
    rounds: int,
    scores: Path | None,
) -> StateTable:
    """The states of a fleet by a sampler's name."""
    table = load_states(base)
    match sampler:
        case "dpcsm":
            given = (
                score_states(table, deadline, k, rounds, semantics) if scores is None else _read_scores(scores, table)
            )
            return sample_dpcsm(
                table, clients, given, alpha=4.0 if alpha is None else alpha, start_rank=start_rank, semantics=semantics, seed=seed
            )  # fmt: skip
        case "uniform":
            return take_states(table, stream(seed or 0, "sample").integers(len(table), size=clients))
        case other:
            raise BadInput(f"no sampler of states is called {other!r}{nearest(other, STATE_SAMPLERS)}")


def _read_scores(path: Path, table: StateTable) -> Floats:
    """Scores from a JSON object id -> score."""
    try:
        loaded = json.loads(path.read_text())
    except (OSError, ValueError) as wrong:
        raise BadInput(f"the scores {path} cannot be read: {wrong}") from None
    if not isinstance(loaded, dict):
        raise BadInput(f"the scores {path} must be a JSON object of id -> score")
    missing = [i for i in table.ids.tolist() if not isinstance(loaded.get(i), int | float)]
    if missing:
        raise BadInput(f"the scores {path} have no number for state {missing[0]}")
    return np.array([float(loaded[i]) for i in table.ids.tolist()])


def save_devices(table: DeviceTable, out: Path | None) -> dict[str, Any]:
    """Write a sampled device fleet and say what it is like."""
    if out is not None:
        write_devices(str(out), table)
    speeds = mean_kbps(table)
    return {
        "clients": len(table), "distinct": len(np.unique(table.ids)), "mean_kbps": float(speeds.mean()),
        "std_kbps": standard_deviation(speeds), "out": None if out is None else str(out),
    }  # fmt: skip


def save_states(table: StateTable, out: Path | None) -> dict[str, Any]:
    """Write a sampled state fleet and say what it is like."""
    if out is not None:
        write_states(str(out), table)
    share = availability(table)
    return {
        "clients": len(table), "distinct": len(np.unique(table.ids)), "mean_availability": float(share.mean()),
        "std_availability": standard_deviation(share), "out": None if out is None else str(out),
    }  # fmt: skip


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
    """The metrics of a fleet in files or bases, by the contract of `fedfleet measure`."""
    for name in only:
        if name not in NAMES:
            raise BadInput(f"--only: there is no metric {name!r}{nearest(name, NAMES)}")
    d = load_devices(devices) if devices else None
    s = load_states(states) if states else None
    settings.clients(d, s)
    there = available(d, s)
    answer: dict[str, Any] = {}
    for name in only or there:
        got = measure(name, settings, d, s, seeds=seeds, until_se=until_se)
        answer[name] = {"value": got.value, "sd": got.sd, "seconds": got.seconds, "seeds": len(got.values)}
    if s is not None and (not only or "StatMC-R" in only):
        answer["per_state"] = per_state(s, state_scores(settings, s, seeds=min(seeds, 3)))
    if against is not None:
        answer["against"] = _compared(d, s, against)
    return answer


def _compared(devices: DeviceTable | None, states: StateTable | None, other: str) -> dict[str, float]:
    """How far a fleet lies from another by the classical measures: of mean speeds, or of availability without devices."""
    if devices is not None:
        a, b = mean_kbps(devices), mean_kbps(load_devices(other))
    elif states is not None:
        a, b = availability(states), availability(load_states(other))
    else:
        raise BadInput("--against needs --devices or --states to compare")
    return {
        "std": standard_deviation(a),
        "std_other": standard_deviation(b),
        "ks": ks_distance(a, b),
        "js": js_distance(a, b),
    }


def parse_t_cost(text: str) -> float | Literal["uniform", "deadline"]:
    """uniform, deadline, or a number of seconds."""
    if text == "uniform" or text == "deadline":
        return text
    try:
        seconds = float(text)
    except ValueError:
        raise BadInput(f"--t-cost {text!r}: say uniform, deadline, or a number of seconds") from None
    if not 0 <= seconds < np.inf:
        raise BadInput(f"--t-cost {text}: seconds must be finite and not negative")
    return seconds
