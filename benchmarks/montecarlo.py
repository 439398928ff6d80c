"""Speed of the Monte-Carlo metrics, against our literal version in one run and against published CPU seconds.

    python -m benchmarks.montecarlo [--large]

One thread, warm. The CPU seconds of FLHetBench's released program are those of one call on the four case pairs with
k = 20, rounds = 3000, trips = 10000 (measured elsewhere, see docs/explanation/metrics.md). Needs $FEDFLEET_DATA.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

DATA = Path(os.environ.get("FEDFLEET_DATA", "../shared/data")) / "flhetbench"
RELEASED_SECONDS = {
    "DevMC-R": (0.8, 0.8, 0.8, 0.8), "DevMC-T": (0.17, 0.17, 0.17, 0.17), "StatMC-R": (3.6, 4.8, 12.7, 30.4),
    "StatMC-T": (10.0, 10.0, 10.0, 10.0), "InterMC-R": (0.27, 0.37, 0.9, 3.5), "InterMC-T": (0.5, 0.5, 0.5, 0.5),
}  # fmt: skip


def cases() -> None:
    from fedfleet.measure.montecarlo import reference_simulation
    from fedfleet.measure.montecarlo.metrics import NAMES, measure, parts_of, simulate
    from fedfleet.measure.montecarlo.settings import Settings
    from fedfleet.world.bases import load_devices, load_states

    asked = Settings(semantics="released")
    for case in (1, 2, 3, 4):
        devices = load_devices(f"flhetbench:{DATA}/device/case{case}.json")
        states = load_states(f"flhetbench:{DATA}/state/cached_timers.json#{DATA}/state/state_case{case}.json")
        for name in NAMES:
            measure(name, asked, devices, states, seeds=1, threads=1)
            got = measure(name, asked, devices, states, seeds=5, threads=1)
            each = got.seconds / 5
            print(f"case {case} {name:<10} {got.value:9.4f}  {1000 * each:8.2f} ms  "
                  f"{RELEASED_SECONDS[name][case - 1] / each:7.0f}x the released program's CPU seconds")  # fmt: skip
    short = Settings(semantics="released", rounds=300, trips=1000)
    for name in ("DevMC-R", "StatMC-R", "InterMC-T"):
        parts, by_deadline = parts_of(name, devices, states), name.endswith("-R")
        start = time.perf_counter()
        reference_simulation.simulate(short, *parts, seed=0, t_cost=60.0, by_deadline=by_deadline)
        slow = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(10):
            simulate(short, *parts, seed=0, t_cost=60.0, by_deadline=by_deadline)
        fast = (time.perf_counter() - start) / 10
        print(f"one simulation of {name}, case 4, 300 rounds: literal {slow:.3f} s, fast {1e3 * fast:.2f} ms, {slow / fast:.0f}x")


def large(clients: int) -> None:
    import numpy as np

    from fedfleet.core.fleet import take_devices, take_states
    from fedfleet.measure.montecarlo.metrics import ratio, simulate, warm_up
    from fedfleet.measure.montecarlo.settings import Settings
    from fedfleet.world.bases import load_devices, load_states

    rng = np.random.default_rng(0)
    base, states = (
        load_devices(f"flhetbench:{DATA}/device/case4.json"),
        load_states(f"flhetbench:{DATA}/state/cached_timers.json"),
    )
    d, s = (
        take_devices(base, rng.integers(0, len(base), clients)),
        take_states(states, rng.integers(0, len(states), clients)),
    )
    asked = Settings(k=1000, semantics="released")
    warm_up(asked, d, s)
    start = time.perf_counter()
    successes, _ = simulate(asked, d, s, seed=0, t_cost=0.0, by_deadline=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{clients:,} clients, k = 1000, InterMC-R {ratio(asked, successes):.4f}: kernel {seconds:.2f} s, peak {peak:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also 100,000 and 1,000,000 clients, each in its own process")
    parser.add_argument("--one", type=int)
    asked = parser.parse_args()
    if not DATA.is_dir():
        sys.exit(f"the traces are not in {DATA}; set FEDFLEET_DATA")
    if asked.one:
        large(asked.one)
        return
    cases()
    start = time.perf_counter()
    words = [
        str(Path(sys.executable).with_name("fedfleet")),
        "measure",
        "--devices",
        f"flhetbench:{DATA}/device/case1.json",
        "--only",
        "DevMC-R",
    ]
    subprocess.run(words, check=True, capture_output=True)
    print(f"`fedfleet measure` in a fresh process with a warm kernel cache: {time.perf_counter() - start:.2f} s")
    for clients in (100_000, 1_000_000) if asked.large else ():
        subprocess.run([sys.executable, "-m", "benchmarks.montecarlo", "--one", str(clients)], check=True)


if __name__ == "__main__":
    main()
