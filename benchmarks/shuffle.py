"""Speed and quality of the shuffle solver against the paper's SLSQP, in one run on one thread.

    python -m benchmarks.shuffle [--peers-seconds 120] [--only relaxed,restarts,whole,many,fresh]

relaxed: objective and seconds of Eq. (7) without integrality, against SLSQP with numerical and analytic gradients (one random
start each, capped). restarts: SLSQP with numerical gradients restarted until within 1 % of ours or capped, the ratio of
times. whole: integer plans against the relaxed optimum and the integer bound. many: 10,000 users. fresh: a new process.
Users are random: p log-uniform 10-130 ms, links log-uniform 0.5-100 Mb/s, 5 epochs, classes split by Dirichlet(0.5), alpha "auto".
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # one core, ours and theirs; must precede numpy

import numpy as np  # noqa: E402

from fedfleet.shuffle import (  # noqa: E402
    Problem,
    identity,
    problem_from,
    proportional,
    score,
    solve,
    solve_many,
    solve_relaxed,
    solve_slsqp,
)  # fmt: skip

RELAXED = [
    (5, 3, 300), (5, 5, 300), (5, 7, 500), (10, 3, 400), (10, 5, 400), (10, 7, 500), (35, 3, 128), (62, 3, 345),
    (35, 5, 160), (62, 5, 345), (35, 7, 200), (80, 3, 600), (62, 6, 400), (80, 5, 900), (62, 7, 500),
]  # fmt: skip
WHOLE = [
    (5, 3, 300), (5, 7, 500), (10, 5, 400), (10, 7, 560), (35, 3, 128), (62, 3, 345), (35, 7, 200), (62, 5, 345),
    (62, 7, 500), (8, 7, 4778), (80, 5, 3113),
]  # fmt: skip


def instance(seed: int, classes: int, devices: int, samples: int, *, bits: float = 2e5, alpha: float = 1.0) -> Problem:
    """A random user; `alpha` is times the automatic value."""
    rng = np.random.default_rng(seed)

    def between(low: float, high: float):
        return np.exp(rng.uniform(np.log(low), np.log(high), devices))

    totals = rng.multinomial(samples, rng.dirichlet(np.full(classes, 5.0)))
    counts = np.stack([rng.multinomial(n, rng.dirichlet(np.full(devices, 0.5))) for n in totals], 1)
    made = problem_from(
        {
            "counts": counts, "seconds_per_sample": between(0.01, 0.13), "up_bps": between(0.5e6, 100e6),
            "down_bps": between(0.5e6, 100e6), "bits_per_sample": bits, "epochs": 5, "alpha": "auto",
        }
    )  # fmt: skip
    return replace(made, alpha=made.alpha * alpha)


T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result and its wall seconds."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def relaxed(cap: float) -> None:
    print(
        "c  V  N     no shuffle  proport.  SLSQP numerical / s   SLSQP analytic / s    ours / s (with bound)   bound gap  worst excess"
    )
    generator = np.random.default_rng(0)
    for row, (c, v, n) in enumerate(RELAXED):
        alpha, bits = (
            (1.0, 2e5) if row % 3 == 0 else (generator.choice([0.03, 0.1, 0.3, 1.0, 3.0]), generator.choice([2e4, 2e5, 2e6]))
        )
        problem = instance(row + 1, c, v, n, bits=float(bits), alpha=float(alpha))
        solve_relaxed(problem, certificate=False)
        _, bare = timed(lambda problem=problem: solve_relaxed(problem, certificate=False))
        ours, full = timed(lambda problem=problem: solve_relaxed(problem))
        simple = [score(problem, p).objective for p in (identity(problem), proportional(problem))]
        peers = []
        for analytic in (False, True):
            end = time.perf_counter() + cap
            peers.append(timed(lambda problem=problem, analytic=analytic, end=end, seed=row: solve_slsqp(
                problem, analytic=analytic, seed=seed, time_up=lambda best: time.perf_counter() > end)))  # fmt: skip
        assert ours.bound is not None
        best = min(*simple, *(r.objective for r, _ in peers))
        said = "   ".join(f"{r.objective:9.3f} / {s:6.1f}" for r, s in peers)
        print(f"{c:<2} {v}  {n:<5} {simple[0]:9.2f} {simple[1]:9.2f}  {said}   {ours.objective:9.3f} / {bare:.3f} ({full:.3f})  "
              f"{1 - ours.bound / ours.objective:9.1e}  {ours.objective / best - 1:9.1e}  alpha x{alpha:g} bits {bits:g}", flush=True)  # fmt: skip


def restarts(cap: float) -> None:
    print("SLSQP, numerical gradients, random starts until within 1 % of ours or capped")
    ratios, bare_ratios = [], []
    for seed, (v, n) in enumerate(((5, 345), (6, 400), (7, 500), (6, 400), (5, 345)), 1):
        problem = instance(seed, 62, v, n)
        solve_relaxed(problem, certificate=False)
        _, bare = timed(lambda problem=problem: solve_relaxed(problem, certificate=False))
        ours, full = timed(lambda problem=problem: solve_relaxed(problem))
        end, goal = time.perf_counter() + cap, 1.01 * ours.objective
        theirs, seconds = timed(lambda problem=problem, end=end, goal=goal: solve_slsqp(
            problem, starts=10**6, time_up=lambda best: best <= goal or time.perf_counter() > end))  # fmt: skip
        ratios.append(seconds / full)
        bare_ratios.append(seconds / bare)
        print(f"62 x {v}, seed {seed}: SLSQP {seconds:6.1f} s, {theirs.starts} starts, excess {theirs.objective / ours.objective - 1:.1e}; "
              f"ours {bare:.3f} s, with bound {full:.3f} s: {seconds / bare:.0f}x, {seconds / full:.0f}x", flush=True)  # fmt: skip
    print(
        f"median of {len(ratios)}: {statistics.median(bare_ratios):.0f}x, with bound {statistics.median(ratios):.0f}x",
        flush=True,
    )


def whole() -> None:
    print("c  V  N     relaxed   quick (s)            full (s)             full over relaxed   integer bound gap   empty devices")
    for c, v, n in WHOLE:
        for seed in (1, 2, 3):
            problem = instance(seed, c, v, n)
            fast, short = timed(lambda problem=problem: solve(problem, quick=True))
            full, long = timed(lambda problem=problem: solve(problem))
            value = full.score.objective
            assert full.integer_bound is not None
            print(f"{c:<2} {v}  {n:<5} {full.relaxed:9.3f}  {fast.score.objective:9.3f} ({short:.2f})  {value:9.3f} ({long:.2f})  "
                  f"{100 * (value / full.relaxed - 1):8.2f} %  {100 * (value / full.integer_bound - 1):8.2f} %  "
                  f"{int((full.plan.sum((0, 1)) == 0).sum())}", flush=True)  # fmt: skip


def many() -> None:
    for users in (1000, 10_000):
        problems = [instance(seed, 10, 4, 300) for seed in range(users)]
        cpu = time.process_time()
        found, seconds = timed(lambda problems=problems: solve_many(problems))
        excess = np.mean([s.score.objective / s.relaxed - 1 for s in found])
        print(f"{users:,} users x 4 devices x 10 classes, quick: {seconds:.1f} s wall, {time.process_time() - cpu:.1f} s CPU, "
              f"mean excess over the relaxed optimum {100 * excess:.2f} %", flush=True)  # fmt: skip


def fresh() -> None:
    code = (
        "from benchmarks.shuffle import instance; from fedfleet.shuffle import solve; "
        "print(solve(instance(1, 62, 6, 400)).score.objective)"
    )
    _, seconds = timed(lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True))
    print(f"first full solve (62 classes x 6 devices, with bounds) in a fresh process: {seconds:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-seconds", type=float, default=120.0, help="cap for each SLSQP run")
    parser.add_argument("--only", default="relaxed,restarts,whole,many,fresh")
    asked = parser.parse_args()
    parts = {
        "relaxed": lambda: relaxed(asked.peers_seconds), "restarts": lambda: restarts(asked.peers_seconds),
        "whole": whole, "many": many, "fresh": fresh,
    }  # fmt: skip
    for name in asked.only.split(","):
        parts[name]()


if __name__ == "__main__":
    main()
