"""What codecs cost in accuracy: the same fleet, data and seeds with and without them, on one real dataset.

    python -m benchmarks.codec_accuracy [--task fashion_cnn] [--rounds 60] [--seeds 5] [--device cuda] [--json FILE]
    python -m benchmarks.codec_accuracy --task digits_cnn --rounds 60 --epochs 5 --lr 0.1               # the embedded digits: minutes on two cores

100 clients with Dirichlet(0.5) shards, 20 a round. Seeds are paired: each seed's difference from FP32 has the same clients, shards, first
model and batches; the interval is Student's over those differences. Fashion-MNIST has 14,000 central test samples (a seeded fifth of
70,000). Accuracy is the mean over the last five evaluations, which are one for each commit.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import fedfleet

ARMS: dict[str, dict[str, Any]] = {
    "FP32": {},
    "INT8 both ways": {"up": ["int8"], "down": ["int8"]},
    "INT4 with feedback up, INT8 down": {"up": ["int4"], "down": ["int8"], "feedback": True},
}
LAST = 5  # evaluations that are averaged
_T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def spec_of(asked: argparse.Namespace, arm: dict[str, Any], seed: int) -> dict[str, Any]:
    """One run of one arm."""
    return {
        "seed": seed,
        "task": {"use": asked.task},
        "world": {"clients": asked.clients, "data": {"use": "dirichlet", "alpha": 0.5}, "devices": "spread"},
        "algorithm": {"use": "fedavg", "lr": asked.lr, "epochs": asked.epochs, "batch": 16, **arm},
        "pace": {"use": "readiness", "cohort": asked.cohort},
        "stop": {"rounds": asked.rounds},
        "run": {"execute": "stacked", "device": asked.device},
    }


def measured(asked: argparse.Namespace, arm: dict[str, Any], seed: int) -> tuple[float, float, float]:
    """Accuracy, bytes in both directions, virtual seconds."""
    result = fedfleet.run(spec_of(asked, arm, seed))
    curve = [float(v) for v in result.rounds["accuracy"] if not math.isnan(float(v))]
    m = result.metrics
    return float(np.mean(curve[-LAST:])), m["bytes_up"] + m["bytes_down"], m["virtual_seconds"]


def interval(differences: list[float]) -> tuple[float, float]:
    """The mean of paired differences, and half the width of its 95 % interval."""
    n = len(differences)
    half = _T95[n - 1] * float(np.std(differences, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return float(np.mean(differences)), half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="fashion_cnn")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--cohort", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ARMS}
    for seed in range(asked.seeds):
        for name, arm in ARMS.items():
            found[name].append(measured(asked, arm, seed))
            accuracy, moved, seconds = found[name][-1]
            print(
                f"seed {seed} {name:<34} accuracy {accuracy:.4f}, {moved / 1e6:,.1f} MB, {seconds:,.0f} virtual s",
                flush=True,
            )
    plain = found["FP32"]
    answer: dict[str, Any] = {}
    for name, runs in found.items():
        off, half = interval([100 * (a[0] - b[0]) for a, b in zip(runs, plain, strict=True)])
        ratio = sum(b[1] for b in plain) / sum(a[1] for a in runs)
        answer[name] = {
            "accuracy": float(np.mean([r[0] for r in runs])),
            "points_from_fp32": off,
            "ci95": half,
            "fewer_bytes": ratio,
        }
        print(f"{name:<34} accuracy {answer[name]['accuracy']:.4f}, {off:+.2f} +- {half:.2f} points, {ratio:.2f}x fewer bytes")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"asked": {k: str(v) for k, v in vars(asked).items()}, "arms": answer}, indent=1))


if __name__ == "__main__":
    main()
