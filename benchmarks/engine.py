"""Speed of the engine: events per second with the journal and its digest, on a task that trains nothing.

    python -m benchmarks.engine [--rounds 200] [--json]

One journal row per task sent and per task ended; interval states; each size in a process of its own, for its memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = ((100_000, 1_000), (100_000, 10_000), (1_000_000, 1_000))


def measure(clients: int, cohort: int, rounds: int) -> dict[str, float]:
    """Build a fleet and run it; the clock starts with the first event."""
    from fedfleet.choose.uniform import uniform
    from fedfleet.core.parts import Plan, World
    from fedfleet.core.records import Stop
    from fedfleet.core.rng import client_keys
    from fedfleet.pace.rounds import deadline
    from fedfleet.runtime import journal as journals
    from fedfleet.runtime.simulate import simulate
    from fedfleet.testing.toys import idle, no_data, opaque_executor
    from fedfleet.world.devices import spread
    from fedfleet.world.states import daily

    keys = client_keys(clients)
    world = World(keys, spread()(keys, 0), daily(sessions=6)(keys, 0), no_data(clients))
    plan = Plan(
        0, idle(), uniform(), deadline(cohort, seconds=120), Stop(rounds=rounds, evaluate_every=10**9), {}, clients
    )
    with tempfile.TemporaryDirectory() as folder:
        journal = journals.create(Path(folder) / "run.db")
        start = time.perf_counter()
        simulate(plan, world, opaque_executor(), journal=journal)
        journal.close()
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"clients": clients, "cohort": cohort, "events": journal.position, "seconds": seconds,
            "events_per_second": journal.position / seconds, "peak_mb": peak}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--one", type=int, nargs=2, metavar=("CLIENTS", "COHORT"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(*asked.one, asked.rounds)))
        return
    for clients, cohort in SIZES:
        words = [
            sys.executable,
            "-m",
            "benchmarks.engine",
            "--one",
            str(clients),
            str(cohort),
            "--rounds",
            str(asked.rounds),
        ]
        got = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        if asked.json:
            print(json.dumps(got))
        else:
            print(f"{clients:>9,} clients, cohort {cohort:>6,}: {got['events_per_second']:>9,.0f} events/s, "
                  f"{got['events']:,.0f} events in {got['seconds']:.2f} s, peak {got['peak_mb']:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
