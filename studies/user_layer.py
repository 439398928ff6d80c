"""Does it pay to let one user's devices exchange samples? ShuffleFL against FedAvg, HierFL and FedGS, in virtual time.

    python -m studies.user_layer --task digits --seeds 3
    python -m studies.user_layer --task wisdm --seeds 3      (real data: needs $FEDFLEET_DATA)

The setting is the paper's where it says it: 2 to 5 devices a user, Dirichlet(0.5) inside a user, a fifth of the users each
round, five local epochs (of Adam on digits, of plain SGD on the others, which is quicker here), speeds that differ 13-fold in computing and 200-fold in bandwidth and change from
trip to trip. Everything is charged: planning (our solver's formula), exchange of samples, all transfers of the model. All
methods see the same fleet (FedGS in ten groups of its own, all of which take part). FedAvg asks as many devices as the others'
users have; HierFL and FedGS take about as many local steps a round as the others' epochs come to. The target is the lowest final accuracy of the methods compared,
by seed. Add --ladder for the paper's objectives I to IV, its ablations and its gateways.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TASKS: dict[str, dict[str, Any]] = {
    "digits": {"task": {"use": "digits_mlp"}, "clients": 70, "data": {"use": "dirichlet", "alpha": 1.0}, "local": {"optimiser": "adam", "lr": 0.003}, "rounds": 60, "fedgs": (2, 4)},
    "wisdm": {"task": {"use": "wisdm_cnn"}, "clients": 100, "data": {"use": "by_owner"}, "local": {"lr": 0.05}, "rounds": 40, "fedgs": (3, 4)},
    "speech": {"task": {"use": "kws_cnn"}, "clients": 240, "data": {"use": "by_owner"}, "local": {"lr": 0.05}, "rounds": 60, "fedgs": (4, 6)},
}  # fmt: skip
DEVICES = {
    "use": "mobile",
    "devices": {"use": "spread", "mbps": 20.0, "seconds_per_sample": 0.04, "link": 1.33, "compute": 0.64},
}
USERS = {"use": "households", "devices": [2, 5], "mu": 0.5}
EPOCHS, BATCH = 5, 32
MAIN: dict[str, dict[str, Any] | None] = {
    "fedavg": None,
    "hierfl": {"use": "hierfl", "kappa1": 2, "kappa2": 3},
    "fedgs": {"use": "fedgs", "random": 1, "batch": BATCH},
    "shufflefl": {"use": "shufflefl"},
}
LADDER: dict[str, dict[str, Any]] = {
    "I: no exchange": {"solver": "none"},
    "II: max SL, max DI": {"time_balance": False, "adaptive": False},
    "III: with deviation": {"adaptive": False},
    "IV: with own alpha": {},
    "IV without time balance": {"time_balance": False},
    "IV, Eq. 8 as printed": {"printed_eq8": True},
    "IV, exact plans": {"solver": "exact"},
    "shares by speed": {"solver": "proportional"},
    "IV, the paper's gateways": {"gateway": "mixed"},
}


def spec_of(name: str, edge: dict[str, Any] | None, asked: argparse.Namespace, seed: int) -> dict[str, Any]:
    """The spec of one run; a flat one asks devices, the others users."""
    task = TASKS[asked.task]
    users = round(task["clients"] / 3.5)
    cohort = max(2, round(0.2 * users))
    grouping = {"use": "groups", "count": 10, "mu": 0.5} if name == "fedgs" else USERS
    table = {
        "seed": seed,
        "task": task["task"],
        "world": {"clients": task["clients"], "devices": DEVICES, "data": task["data"], "users": grouping, "min_samples": 3},
        "algorithm": {"use": "fedavg", **task["local"], "epochs": EPOCHS, "batch": BATCH},
        "pace": {"use": "readiness", "cohort": round(3.5 * cohort) if edge is None else 10 if name == "fedgs" else cohort},
        "stop": {"rounds": asked.rounds or task["rounds"]},
        "run": {"execute": "stacked", "threads": 2},
    }  # fmt: skip
    if name == "fedgs" and edge:
        edge = {**edge, "per_sync": task["fedgs"][0], "syncs": task["fedgs"][1]}
    return table | ({"edge": edge} if edge else {})


def curve_of(spec: dict[str, Any], folder: Path) -> list[tuple[float, float]]:
    """(virtual seconds, accuracy) at every evaluation."""
    from fedfleet.app.runs import perform
    from fedfleet.app.spec import resolve
    from fedfleet.core.events import Evaluated

    done = perform(resolve(spec), folder)
    return [(e.time, e.correct / e.total) for e in done.events if isinstance(e, Evaluated)]


def final(curve: list[tuple[float, float]]) -> float:
    """Where a curve ends: the mean of its last five evaluations."""
    return statistics.mean(accuracy for _, accuracy in curve[-5:])


def reached(curve: list[tuple[float, float]], target: float) -> float:
    """The first time at which the accuracy is there."""
    return next((when for when, accuracy in curve if accuracy >= target), float("inf"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=tuple(TASKS), default="digits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--ladder", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    methods = {n: {"use": "shufflefl", **e} for n, e in LADDER.items()} if asked.ladder else MAIN
    curves: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in methods}
    with TemporaryDirectory() as folder:
        for seed in range(asked.seeds):
            for name, edge in methods.items():
                start = time.perf_counter()
                curves[name].append(
                    curve_of(spec_of(name, edge, asked, seed), Path(folder) / f"{len(curves[name])}-{name}")
                )
                print(f"{name}, seed {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    targets = [min(final(curves[name][s]) for name in methods) for s in range(asked.seeds)]
    rows = [row_of(name, curves, targets) for name in methods]
    print(json.dumps({"targets": targets, "rows": rows}) if asked.json else told(rows, targets))


def row_of(name: str, curves: dict[str, list[list[tuple[float, float]]]], targets: list[float]) -> dict[str, Any]:
    """One method over all seeds; speed-ups are against the first method, seed by seed."""
    mine, first = curves[name], curves[next(iter(curves))]
    times = [reached(c, t) for c, t in zip(mine, targets, strict=True)]
    faster = [reached(c, t) / own for c, t, own in zip(first, targets, times, strict=True)]
    ends = [final(c) for c in mine]
    rounds = [c[-1][0] / max(len(c) - 1, 1) for c in mine]
    return {"name": name, "final": ends, "seconds_to_target": times, "speedup": faster, "round_seconds": rounds}


def told(rows: list[dict[str, Any]], targets: list[float]) -> str:
    """The table for people: means, with the smallest and largest seed."""

    def span(values: list[float], form: str) -> str:
        return f"{statistics.mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"

    lines = [
        f"targets: {', '.join(f'{t:.3f}' for t in targets)}",
        "| method | final accuracy | seconds a round | seconds to target | against the first |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r['name']} | {span(r['final'], '.3f')} | {span(r['round_seconds'], ',.1f')} | {span(r['seconds_to_target'], ',.0f')} | {span(r['speedup'], '.2f')}x |"
        for r in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
