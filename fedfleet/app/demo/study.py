"""The first study: FedAvg under two pacing policies on three fleets, from mild to severe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.demo.running import trained
from fedfleet.app.fleets.measuring import measured
from fedfleet.app.fleets.sampling import sample_devices, sample_states
from fedfleet.app.runs import Finished
from fedfleet.app.spec import resolve
from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.core.intervals import traces
from fedfleet.measure.learning import time_to_accuracy
from fedfleet.measure.montecarlo.metrics import NAMES
from fedfleet.measure.montecarlo.settings import Settings

CLIENTS, COHORT, ROUNDS, DEADLINE, TARGET, SEED = 100, 10, 100, 120.0, 0.8, 7
MODEL_BYTES = 343_200_776  # the size of ViT-B/16

FLEETS: dict[str, tuple[str, dict[str, Any]]] = {
    "mild": (
        "Similar phones on similar links, always reachable; everyone has a similar mixture of digits.",
        {
            "devices": {"use": "dpgmm", "sigma": 0.1, "mean_mbps": 60.0},
            "states": {"use": "always_on"},
            "data": {"use": "dirichlet", "alpha": 10.0},
        },
    ),
    "middle": (
        "Link speeds differ severalfold, phones are reachable a quarter of the day, and data differ clearly.",
        {
            "devices": {"use": "dpgmm", "sigma": 0.7, "mean_mbps": 60.0},
            "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 0},
            "data": {"use": "dirichlet", "alpha": 0.5},
        },
    ),
    "severe": (
        "Some links are hardly usable, phones are reachable a tenth of the day, and most hold only a few different digits.",
        {
            "devices": {"use": "dpgmm", "sigma": 1.4, "mean_mbps": 60.0},
            "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 150},
            "data": {"use": "dirichlet", "alpha": 0.1},
        },
    ),
}
PACES: dict[str, dict[str, Any]] = {
    "readiness": {"use": "readiness", "cohort": COHORT},
    "deadline": {"use": "deadline", "cohort": COHORT, "seconds": DEADLINE},
}
Runs = Mapping[tuple[str, str], Finished]  # by fleet and pace


def demo_spec(fleet: str, pace: str) -> dict[str, Any]:
    """The spec of one of the runs."""
    return {
        "seed": SEED,
        "task": {"use": "digits_mlp"},
        "world": {"clients": CLIENTS, "model_bytes": MODEL_BYTES, **FLEETS[fleet][1]},
        "algorithm": {"use": "fedavg", "lr": 0.2, "epochs": 3},
        "pace": PACES[pace],
        "stop": {"rounds": ROUNDS},
    }


def run_fleets(out: Path, *, quiet: bool = False) -> dict[tuple[str, str], Finished]:
    """Train on every fleet under every policy, each run in a folder under `out`/runs."""
    return {
        (fleet, pace): trained(
            out, f"{fleet}-{pace}", demo_spec(fleet, pace), label=f"{fleet} fleet, {pace}", quiet=quiet
        )
        for fleet in FLEETS
        for pace in PACES
    }


def fleet_tables(fleet: str) -> tuple[DeviceTable, StateTable]:
    """The same devices and states that the runs use, as tables."""
    world = resolve(demo_spec(fleet, "deadline")).world
    devices = sample_devices(world["devices"], CLIENTS, SEED)
    if world["states"]["use"] == "always_on":
        return devices, always_ready(CLIENTS)
    return devices, sample_states(world["states"], CLIENTS, SEED)


def always_ready(clients: int) -> StateTable:
    """States that are ready all day."""
    day, n = np.full(clients, 86400.0), np.arange(clients + 1)
    return StateTable(np.array(["always"] * clients), traces(np.zeros(clients), day, n, np.zeros(clients), day))


def fleet_metrics(fleet: str) -> dict[str, dict[str, Any]]:
    """The six metrics of a fleet, with the demo's cohort, deadline and readiness; each as `fedfleet measure` answers it."""
    asked = Settings(k=COHORT, rounds=1000, trips=2000, deadline=DEADLINE, ready_share=1.0)
    tables = fleet_tables(fleet)
    return {name: measured(name, asked, *tables) for name in NAMES}


def result_row(fleet: str, pace: str, done: Finished) -> dict[str, Any]:
    """One run in the answer of `fedfleet demo`."""
    m = done.metrics
    return {
        "fleet": fleet, "pace": pace, "accuracy": m["accuracy"], "accuracy_bottom10": m["accuracy_bottom10"],
        "accuracy_worst10_mean": m["accuracy_worst10_mean"],
        "seconds_to_target": time_to_accuracy(done.events, TARGET), "virtual_seconds": m["virtual_seconds"],
        "rounds_failed": m["rounds_failed"], "never": m["participation"]["never"], "wasted_share": m["wasted"]["share"],
        "bytes": m["bytes_down"] + m["bytes_up"], "digest": m["digest"],
    }  # fmt: skip
