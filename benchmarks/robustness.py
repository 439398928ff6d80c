"""What a fifth of all clients that flip the sign of their updates, four times as long, does to each fold.

    python -m benchmarks.robustness                      # digits and phone_watch, 3 seeds, about ten minutes on two cores
    python -m benchmarks.robustness --tasks digits --seeds 1

Everyone takes part in every round, so that exactly a fifth of the reports of each round is bad. Accuracy is that of the last model.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import warnings
from typing import Any

import fedfleet as ff

CLIENTS, BAD = 10, 2
FOLDS: dict[str, Any] = {
    "mean": "mean",
    "median": "median",
    "trimmed_mean": {"use": "trimmed_mean", "share": 0.25},
    "norm_bound": "norm_bound",
    "krum": {"use": "krum", "f": BAD},
    "multi_krum": {"use": "multi_krum", "f": BAD},
}
DATA: dict[str, Any] = {"iid": "iid", "dirichlet(1)": {"use": "dirichlet", "alpha": 1.0}}
# Few clients with much data each: Krum has only what a single one of them sends.
TASKS: dict[str, Any] = {
    "digits": {"task": "digits_mlp", "rounds": 60, "algorithm": {"lr": 0.2, "epochs": 2, "batch": 16}, "limit": 0.3},
    "phone_watch": {
        "task": {"use": "phone_watch_cnn", "hidden": 32, "samples": 3000},
        "rounds": 30,
        "algorithm": {"lr": 0.05, "epochs": 2, "batch": 16},
        "limit": 0.3,
    },
}


def accuracy(setting: dict[str, Any], fold: str, data: str, seed: int, *, attack: bool) -> float:
    """The accuracy of one run."""
    chosen = {"use": "norm_bound", "limit": setting["limit"]} if fold == "norm_bound" else FOLDS[fold]
    algorithm = {"use": "fedavg", **setting["algorithm"], "fold": chosen}
    spec = {
        "seed": seed,
        "task": setting["task"],
        "algorithm": {**algorithm, **({"attack": {"use": "sign_flip", "share": BAD / CLIENTS}} if attack else {})},
        "world": {"clients": CLIENTS, "data": DATA[data], "split": [8, 1, 1]},
        "pace": {"use": "readiness", "cohort": CLIENTS},
        "stop": {"rounds": setting["rounds"]},
        "run": {"execute": "stacked"},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an attacked mean learns nothing is the point
        return ff.run(spec).metrics["accuracy"]


def main() -> None:
    """Print one table per task."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--folds", nargs="*", default=list(FOLDS), choices=list(FOLDS))
    asked.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    given = asked.parse_args()
    for task, data in itertools.product(given.tasks, given.data):
        print(f"{task}, {data}: {CLIENTS} clients, {BAD} flip their sign x4, mean of {given.seeds} seeds")
        print(f"{'fold':<14}{'clean':>8}{'attacked':>10}{'kept':>8}")
        for fold in given.folds:
            clean, hit = (
                statistics.fmean(accuracy(TASKS[task], fold, data, s, attack=a) for s in range(given.seeds))
                for a in (False, True)
            )
            print(f"{fold:<14}{100 * clean:>7.1f}%{100 * hit:>9.1f}%{100 * hit / clean:>7.1f}%", flush=True)


if __name__ == "__main__":
    main()
