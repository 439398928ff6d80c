"""What a fifth of all clients that flip the sign of their updates, four times as long, does to each fold.

    python -m benchmarks.robustness                      # digits and phone_watch, 3 seeds
    python -m benchmarks.robustness --tasks digits --seeds 1 --folds mean krum

Everyone takes part in every round, and reports weigh one, so that exactly a fifth of each round is bad. Accuracy is that of the last model.
phone_watch is GeoTecINIT's sensor windows (`$FEDFLEET_DATA`), each summed up in 66 numbers (level, spread and
spectrum of each channel), with a logistic regression on them.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import warnings
from functools import cache
from typing import Any

import numpy as np

import fedfleet as ff

CLIENTS, BAD, WEIGH = 10, 2, "one"
FOLDS: dict[str, Any] = {
    "mean": "mean",
    "median": "median",
    "trimmed_mean": "trimmed_mean",
    "norm_bound": "norm_bound",
    "krum": {"use": "krum", "f": BAD},
    "multi_krum": {"use": "multi_krum", "f": BAD},
}
DATA: dict[str, Any] = {"iid": "iid", "dirichlet(1)": {"use": "dirichlet", "alpha": 1.0}}
# Few clients with much data each: Krum has only what a single one of them sends.
TASKS: dict[str, Any] = {
    "digits": {"rounds": 60, "algorithm": {"lr": 0.2, "epochs": 2, "batch": 16}, "limit": 0.3},
    "phone_watch": {"rounds": 40, "algorithm": {"lr": 0.3, "epochs": 1, "batch": 64}, "limit": 0.2},
}


@cache
def windows() -> tuple[np.ndarray, np.ndarray]:
    """The windows of phone and watch as features, and their activities."""
    from fedfleet.core.registry import builder

    found = builder("tasks", "phone_watch_cnn")()(0).dataset
    x = np.asarray(found.x, np.float64)
    spectrum = np.abs(np.fft.rfft(x - x.mean(2, keepdims=True), axis=2))[:, :, 1:9]
    steps = np.abs(np.diff(x, axis=2)).mean(2)
    features = np.concatenate([x.mean(2), x.std(2), steps, np.log1p(spectrum).reshape(len(x), -1)], axis=1)
    features = (features - features.mean(0)) / (features.std(0) + 1e-9)
    return features.astype(np.float32), found.y


def given(task: str) -> dict[str, Any]:
    """Model and data, where they are of one's own."""
    if task != "phone_watch":
        return {}
    import torch

    x, y = windows()
    torch.manual_seed(0)
    return {"model": torch.nn.Linear(x.shape[1], 5), "data": (x, y)}


def accuracy(task: str, fold: str, data: str, seed: int, *, attack: bool) -> float:
    """The accuracy of one run."""
    setting = TASKS[task]
    chosen = {"use": fold, "limit": setting["limit"]} if fold == "norm_bound" else FOLDS[fold]
    algorithm = {"use": "fedavg", "weigh": WEIGH, **setting["algorithm"], "fold": chosen}
    if attack:
        algorithm["attack"] = {"use": "sign_flip", "share": BAD / CLIENTS, "factor": 4.0}
    spec = {
        "seed": seed,
        "algorithm": algorithm,
        "world": {"clients": CLIENTS, "data": DATA[data], "split": [8, 1, 1]},
        "pace": {"use": "readiness", "cohort": CLIENTS},
        "stop": {"rounds": setting["rounds"]},
        "run": {"execute": "stacked"},
    }
    own = given(task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an attacked mean learns nothing is the point
        return ff.run(spec if own else {**spec, "task": "digits_mlp"}, **own).metrics["accuracy"]


def main() -> None:
    """Print one table per task."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--folds", nargs="*", default=list(FOLDS), choices=list(FOLDS))
    asked.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    chosen = asked.parse_args()
    for task, data in itertools.product(chosen.tasks, chosen.data):
        print(f"{task}, {data}: {CLIENTS} clients, {BAD} flip their sign x4, mean of {chosen.seeds} seeds")
        print(f"{'fold':<14}{'clean':>8}{'attacked':>10}{'kept':>8}")
        for fold in chosen.folds:
            clean, hit = (
                statistics.fmean(accuracy(task, fold, data, s, attack=a) for s in range(chosen.seeds)) for a in (False, True)
            )
            print(f"{fold:<14}{100 * clean:>7.1f}%{100 * hit:>9.1f}%{100 * hit / clean:>7.1f}%", flush=True)


if __name__ == "__main__":
    main()
