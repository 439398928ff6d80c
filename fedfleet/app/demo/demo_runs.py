"""The demo's runs: three fleets from mild to severe, six ways to train on each, over several seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CLIENTS, COHORT, DEADLINE, HOURS, ROUNDS, TARGET = 100, 10, 120.0, 3, 100, 0.8
SEEDS = (7, 8, 9)  # each draws another fleet, other data and other choices
MODEL_BYTES = 343_200_776  # the size of ViT-B/16
_MOST = 10_000  # rounds: the hours end first

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


@dataclass(frozen=True, slots=True)
class Way:
    """A way to train: what it does in one sentence, and what its spec says beside the fleet. `folder` names its runs."""

    folder: str
    does: str
    table: Mapping[str, Any]


_LOCAL: dict[str, Any] = {"lr": 0.2, "epochs": 3}
_FEDAVG: dict[str, Any] = {"algorithm": {"use": "fedavg", **_LOCAL}}
_IN_TIME: dict[str, Any] = {"pace": {"use": "deadline", "cohort": COHORT, "seconds": DEADLINE}}
_HOURS: dict[str, Any] = {"rounds": _MOST, "virtual_seconds": HOURS * 3600.0}
WAITING, WITH_DEADLINE = "FedAvg, waiting", "FedAvg, deadline"
WAYS: dict[str, Way] = {
    WAITING: Way(
        "waiting",
        "The mean of what ten people's phones learnt; a round ends when all ten have reported, however long that takes.",
        {**_FEDAVG, "pace": {"use": "readiness", "cohort": COHORT}, "stop": {"rounds": ROUNDS}},
    ),
    WITH_DEADLINE: Way(
        "deadline",
        f"The same, but a round ends after {DEADLINE:.0f} s; whoever is late is left out.",
        {**_FEDAVG, **_IN_TIME, "stop": {**_HOURS, "evaluate_every": 2}},
    ),
    "FedProx": Way(
        "fedprox",
        f"With the deadline of {DEADLINE:.0f} s; phones stay near the model that they were given.",
        {"algorithm": {"use": "fedprox", "mu": 0.1, **_LOCAL}, **_IN_TIME, "stop": {**_HOURS, "evaluate_every": 2}},
    ),
    "Oort": Way(
        "oort",
        f"With the deadline of {DEADLINE:.0f} s; asks those first whose data teach much and whose phones are fast.",
        {**_FEDAVG, "choose": {"use": "oort"}, **_IN_TIME, "stop": {**_HOURS, "evaluate_every": 2}},
    ),
    "FedBuff": Way(
        "fedbuff",
        "Nobody waits: a new model is made of every ten reports, whenever they come, and old ones count less.",
        {
            "algorithm": {"use": "fedbuff", **_LOCAL},
            "pace": {"use": "buffered", "k": COHORT, "concurrency": 3 * COHORT},
            "stop": {**_HOURS, "evaluate_every": 5},
        },
    ),
    "BiasPrompt+": Way(
        "biasprompt",
        "A backbone that was trained on other pictures stays frozen; only biases, prompts and the last layer are learnt and sent.",
        {
            "task": {"use": "digits_vit"},
            "algorithm": {"use": "biasprompt_plus", "epochs": 1, "prompt_length": 4, "server_lr": 0.3},
            "pace": {**_IN_TIME["pace"], "max_staleness": 5},
            "stop": {**_HOURS, "evaluate_every": 10},
        },
    ),
}


def fleet_spec(fleet: str, way: str, seed: int) -> dict[str, Any]:
    """The spec of one of the runs."""
    return {
        "seed": seed,
        "task": {"use": "digits_mlp"},
        "world": {"clients": CLIENTS, "model_bytes": MODEL_BYTES, **FLEETS[fleet][1]},
        "run": {"execute": "stacked"},
        **WAYS[way].table,
    }
