"""The third study: six methods on one and the same fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedfleet.app.demo.running import trained
from fedfleet.app.demo.study import CLIENTS, COHORT, DEADLINE, FLEETS, MODEL_BYTES, SEED
from fedfleet.app.runs import Finished
from fedfleet.measure.learning import time_to_accuracy

FLEET, TARGET, HOURS = "middle", 0.8, 4
_MOST = 10_000  # rounds: the hours end first
_DEADLINE: dict[str, Any] = {"use": "deadline", "cohort": COHORT, "seconds": DEADLINE}
_LOCAL: dict[str, Any] = {"lr": 0.2, "epochs": 3}
# By name: what it does, and what its spec says beside the fleet.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "FedAvg": ("The mean of what clients learnt.", {"algorithm": {"use": "fedavg", **_LOCAL}}),
    "FedProx": ("Clients stay near the model that they were given.", {"algorithm": {"use": "fedprox", "mu": 0.1, **_LOCAL}}),
    "FedAdam": ("The server takes larger steps where updates are small.", {"algorithm": {"use": "fedadam", **_LOCAL}}),
    "FedAvg, INT4": (
        "What goes up has four bits a number, and clients remember what rounding took; what goes down has eight.",
        {"algorithm": {"use": "fedavg", "up": ["int4"], "feedback": True, "down": ["int8"], **_LOCAL}},
    ),
    "FedBuff": (
        "Nobody waits: a new model is made of every ten reports, whenever they come, and late ones count less.",
        {"algorithm": {"use": "fedbuff", **_LOCAL}, "pace": {"use": "buffered", "k": COHORT, "concurrency": 3 * COHORT}},
    ),
    "BiasPrompt+": (
        "A backbone that was trained on other pictures stays frozen; only biases, prompts and the last layer are learnt and sent.",
        {
            "task": {"use": "digits_vit"},
            "algorithm": {"use": "biasprompt_plus", "epochs": 1, "prompt_length": 4, "server_lr": 0.3},
            "pace": {**_DEADLINE, "max_staleness": 5},
        },
    ),
}  # fmt: skip


def methods_spec(name: str) -> dict[str, Any]:
    """The spec of one of the runs."""
    return {
        "seed": SEED,
        "task": {"use": "digits_mlp"},
        "world": {"clients": CLIENTS, "model_bytes": MODEL_BYTES, **FLEETS[FLEET][1]},
        "pace": _DEADLINE,
        "stop": {"rounds": _MOST, "virtual_seconds": HOURS * 3600.0, "evaluate_every": 5},
        "run": {"execute": "stacked"},
        **METHODS[name][1],
    }


def run_methods(out: Path, *, quiet: bool = False) -> dict[str, Finished]:
    """Train by each method, each run in a folder under `out`/runs."""
    return {
        name: trained(out, _folder(name), methods_spec(name), label=f"methods, {name}", quiet=quiet) for name in METHODS
    }


def _folder(name: str) -> str:
    return "method-" + "".join(c for c in name.lower() if c.isalnum())


def result_row(name: str, done: Finished) -> dict[str, Any]:
    """One run in the answer of `fedfleet demo`."""
    m = done.metrics
    return {
        "method": name, "accuracy": m["accuracy"], "seconds_to_target": time_to_accuracy(done.events, TARGET),
        "commits": m["commits"], "bytes_up": m["bytes_up"], "bytes_down": m["bytes_down"],
        "wasted_share": m["wasted"]["share"], "utilisation": m["utilisation"]["mean"], "digest": m["digest"],
    }  # fmt: skip
