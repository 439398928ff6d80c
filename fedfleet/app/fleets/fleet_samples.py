"""Drawing a fleet from a base. A sampler's parameters are those of the part of the same name, declared in its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.assemble import score_states
from fedfleet.app.spec.table_checks import Table, check_table, is_spec_type
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.fleet import DeviceTable, StateScorer, StateTable, take_devices, take_states
from fedfleet.core.json_text import parse_json
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.records import Floats
from fedfleet.core.registry import parameters
from fedfleet.core.rng import client_keys, stream
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.devices import dpgmm
from fedfleet.world.samplers.dpcsm import sample_dpcsm, warnings
from fedfleet.world.samplers.dpgmm import sample_dpgmm
from fedfleet.world.samplers.pool72 import allocate, configurations, pool72
from fedfleet.world.states import dpcsm

_CLIENT_BYTES = 100  # while it is drawn
Warn = Callable[[str], None]  # takes a warning for the caller


def _ignore(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True)
class Sampler:
    """How rows are drawn (parameters, clients, seed), and the function whose signature declares the parameters."""

    declared_by: Callable[..., Any]
    draw: Callable[..., Any]
    without: tuple[str, ...] = ()  # parameters of the part that mean nothing for rows of a file


def uniform(*, base: str = "builtin") -> None:
    """Rows of the base, each as likely as any other; only the signature is used."""


def _draw_dpgmm(p: Table, clients: int, seed: int) -> DeviceTable:
    dials = {k: v for k, v in p.items() if k not in ("base", "mean_mbps")}
    return sample_dpgmm(load_devices(p["base"]), clients, mean_kbps_wanted=1000.0 * p["mean_mbps"], seed=seed, **dials)


def _draw_pool72(p: Table, clients: int, seed: int) -> DeviceTable:
    rows = allocate(p["distribution"], client_keys(clients), seed)
    return take_devices(configurations(p["seconds_per_sample"]), rows)


def _draw_uniform_devices(p: Table, clients: int, seed: int) -> DeviceTable:
    table = load_devices(p["base"])
    return take_devices(table, stream(seed, "sample").integers(len(table), size=clients))


def _draw_dpcsm(p: Table, clients: int, seed: int | None, score: StateScorer, warn: Warn) -> StateTable:
    table = load_states(p["base"])
    for sentence in warnings(p["alpha"], states=len(table) - p["start_rank"], semantics=p["semantics"]):
        warn(sentence)
    scores = score(table, p["deadline"], p["clients_k"], p["rounds"], p["semantics"])
    return sample_dpcsm(table, clients, scores, alpha=p["alpha"], start_rank=p["start_rank"], semantics=p["semantics"], seed=seed)


def _draw_uniform_states(p: Table, clients: int, seed: int | None, score: StateScorer, warn: Warn) -> StateTable:
    del score, warn
    table = load_states(p["base"])
    return take_states(table, stream(seed or 0, "sample").integers(len(table), size=clients))


SAMPLERS: dict[str, dict[str, Sampler]] = {
    "devices": {
        "dpgmm": Sampler(dpgmm, _draw_dpgmm),
        # A row of a file is one device for good, and how much memory a task needs is not known yet.
        "pool72": Sampler(pool72, _draw_pool72, without=("reallocate", "peak_memory_mb")),
        "uniform": Sampler(uniform, _draw_uniform_devices),
    },
    "states": {"dpcsm": Sampler(dpcsm, _draw_dpcsm), "uniform": Sampler(uniform, _draw_uniform_states)},
}


def sampler_parameters(sampler: Sampler) -> dict[str, tuple[Any, inspect.Parameter]]:
    """The parameters of a sampler, with their types and defaults."""
    result = parameters(sampler.declared_by)
    return {name: p for name, p in result.items() if name not in sampler.without and is_spec_type(p[0])}


def find_sampler(kind: str, name: str) -> Sampler:
    """The sampler of devices or states that has this name."""
    samplers = SAMPLERS[kind]
    if name not in samplers:
        raise BadInput(f"no sampler of {kind} is called {name!r}{suggest_name(name, samplers)}")
    return samplers[name]


def sample_devices(table: Mapping[str, Any], clients: int, seed: int) -> DeviceTable:
    """The devices of a fleet; the table names a sampler with `use`, and its parameters, as in a spec."""
    sampler, settings = _sampler_and_settings("devices", table)
    check_memory(_CLIENT_BYTES * clients, f"--clients: a fleet of {clients:,} clients", "ask for fewer")
    return sampler.draw(settings, clients, seed)


def sample_states(
    table: Mapping[str, Any], clients: int, seed: int | None, score: StateScorer = score_states, warn: Warn = _ignore
) -> StateTable:
    """The states of a fleet, likewise. Without a seed, each sampler uses its own default; `warn` gets its warnings."""
    sampler, settings = _sampler_and_settings("states", table)
    check_memory(_CLIENT_BYTES * clients, f"--clients: a fleet of {clients:,} clients", "ask for fewer")
    return sampler.draw(settings, clients, seed, score, warn)


def _sampler_and_settings(kind: str, table: Mapping[str, Any]) -> tuple[Sampler, Table]:
    sampler = find_sampler(kind, table["use"])
    settings = {k: v for k, v in table.items() if k != "use"}
    return sampler, check_table(sampler.declared_by, settings, kind)


def read_scores(path: Path) -> StateScorer:
    """Scores from a JSON object id -> score, instead of computing them."""
    try:
        loaded = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read the scores in {path}: {error}") from None
    if not isinstance(loaded, dict):
        raise BadInput(f"the scores in {path} must be one JSON object that maps each state's id to a number")

    def scores(states: StateTable, *_: Any) -> Floats:
        missing = [i for i in states.ids.tolist() if not isinstance(loaded.get(i), int | float)]
        if missing:
            raise BadInput(f"the scores in {path} have no number for state {missing[0]}")
        return np.array([float(loaded[i]) for i in states.ids.tolist()])

    return scores
