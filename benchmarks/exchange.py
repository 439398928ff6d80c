"""How long a full exchange takes and how far the quick one falls behind, on fuzzed users of every scale, on one thread.

    python -m benchmarks.exchange [--fuzz 60] [--first 0] [--slowest 5]

A fuzzed user has 2 to 7 devices, 1 to 90 classes and 1 to 5,000 samples. Half are of an ordinary scale (the paper's speeds and
links); for the others speeds, links, bits per sample and alpha range over decades, some devices are empty, and either flag of
the objective may be turned. Every row says seconds of both solvers, quick over full, and the two gaps of the certificate.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, replace

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # one core; must precede numpy

import numpy as np  # noqa: E402

from fedfleet.shuffle import Problem, problem_from, solve  # noqa: E402

SECONDS, LARGE_SECONDS = 3.0, 8.0  # what a full solve may take, and beyond 3,000 samples or at 7 devices
LARGE_SAMPLES, LARGE_DEVICES = 3000, 7
RATIO = 1.1  # quick over full, at most


def fuzzed(seed: int, *, most_samples: int = 5000) -> Problem:
    """A user drawn by its seed; odd seeds are of extreme scale."""
    rng = np.random.default_rng([seed, 20240509])
    wild = seed % 2 == 1
    devices = int(rng.integers(2, 8))
    classes = int(np.exp(rng.uniform(0.0, np.log(90.0))))
    samples = int(np.exp(rng.uniform(0.0 if wild else np.log(20.0), np.log(most_samples))))

    def between(low: float, high: float) -> np.ndarray:
        return np.exp(rng.uniform(np.log(low), np.log(high), devices))

    totals = rng.multinomial(samples, rng.dirichlet(np.full(classes, rng.choice([0.5, 5.0]))))
    inside = rng.choice([0.05, 0.5, 5.0]) if wild else 0.5
    counts = np.stack([rng.multinomial(n, rng.dirichlet(np.full(devices, inside))) for n in totals], 1)
    if wild and rng.random() < 0.3:  # one device starts empty, its samples on the next
        counts[1] += counts[0]
        counts[0] = 0
    seconds, up, down = (
        (between(1e-5, 10.0), between(1e3, 1e10), between(1e3, 1e10))
        if wild
        else (between(0.01, 0.13), between(0.5e6, 100e6), between(0.5e6, 100e6))
    )
    made = problem_from({
        "counts": counts, "seconds_per_sample": seconds, "up_bps": up, "down_bps": down,
        "bits_per_sample": float(rng.choice([1e2, 1e4, 1e6, 1e8] if wild else [2e4, 2e5, 2e6])), "epochs": 5,
        "alpha": "auto", "time_balance": not wild or bool(rng.random() < 0.7), "js_root": wild and bool(rng.random() < 0.4),
    })  # fmt: skip
    times = rng.choice([0.0, 1e-3, 1e-1, 1.0, 10.0, 1e3] if wild else [0.03, 0.3, 1.0, 3.0])
    return replace(made, alpha=made.alpha * float(times))


def allowed(problem: Problem) -> float:
    """Seconds that a full solve of this user may take."""
    large = problem.counts.sum() > LARGE_SAMPLES or len(problem.counts) >= LARGE_DEVICES
    return LARGE_SECONDS if large else SECONDS


@dataclass(frozen=True, slots=True)
class Row:
    """One user, solved twice; `over` is seconds over what is allowed."""

    seed: int
    size: str
    full_seconds: float
    quick_seconds: float
    objective: float
    ratio: float
    relaxed_gap: float
    whole_gap: float
    over: float

    def __str__(self) -> str:
        return (
            f"{self.seed:>5} {self.size:<24} full {self.full_seconds:6.2f} s  quick {self.quick_seconds:6.3f} s  "
            f"objective {self.objective:<12.6g} quick/full {self.ratio:6.3f}  "
            f"bound gap {self.relaxed_gap:7.2%}  whole gap {self.whole_gap:7.2%}"
            + (f"  OVER {self.over:.1f}x" if self.over > 1.0 else "")
        )


def solved(seed: int) -> Row:
    """A fuzzed user by both solvers."""
    problem = fuzzed(seed)
    began = time.process_time()
    full = solve(problem)
    middle = time.process_time()
    quick = solve(problem, quick=True)
    ended = time.process_time()
    value = max(full.score.objective, 1e-300)
    devices, classes = problem.counts.shape
    flags = ("" if problem.time_balance else " max") + (" root" if problem.js_root else "")
    return Row(
        seed, f"{classes}x{devices} N {problem.counts.sum()}{flags}", middle - began, ended - middle, value,
        quick.score.objective / value, 1.0 - (full.bound or 0.0) / max(full.relaxed, 1e-300),
        1.0 - (full.integer_bound or 0.0) / value, (middle - began) / allowed(problem),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fuzz", type=int, default=60, help="how many users")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--slowest", type=int, default=5, help="how many of the slowest are shown again")
    asked = parser.parse_args()
    rows: list[Row] = []
    for seed in range(asked.first, asked.first + asked.fuzz):
        rows.append(solved(seed))
        print(rows[-1], flush=True)
    print(f"\nslowest against what is allowed ({SECONDS:g} s, {LARGE_SECONDS:g} s if large):")
    for row in sorted(rows, key=lambda r: -r.over)[: asked.slowest]:
        print(row)
    full, quick = sum(r.full_seconds for r in rows), sum(r.quick_seconds for r in rows)
    print(
        f"\n{len(rows)} users: {sum(r.over > 1.0 for r in rows)} over time, slowest {max(r.full_seconds for r in rows):.2f} s;"
        f" quick/full at most {max(r.ratio for r in rows):.4f}, {sum(r.ratio > RATIO for r in rows)} over {RATIO};"
        f" quick takes {quick / full:.1%} of the time; largest bound gap {max(r.relaxed_gap for r in rows):.2%}"
    )


if __name__ == "__main__":
    main()
