"""Speed of the engine: events per second with the journal and its digest, on a task that trains nothing.

    python -m benchmarks.engine [--rounds 200] [--world spread|builtin|tenfold|trickle] [--choose NAME] [--reports] [--json]
    python -m benchmarks.engine --one 1000000 1000 --rounds 1000        (a million tasks)

Nothing is trained, and no reports are made; with `--reports` there is an empty one for every task. One journal row per task sent and per task ended; interval states; each size in a process of its own, for its memory.
`--world builtin` runs a million clients whose devices and states are drawn from the built-in base, 100 rounds of 1,000 of whom
1,300 are asked and a deadline is kept; `tenfold` ten million, 10 rounds; `trickle` a million clients under asynchronous pacing,
1,000 at work at any time, until 100,000 reports are in. Only selecting differs between selectors: nothing is trained.
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedfleet.core.parts import Policy
    from fedfleet.core.sources import World

# (clients, cohort) of each setting, and its rounds unless told otherwise
SIZES = {
    "spread": (((100_000, 1_000), (100_000, 10_000), (1_000_000, 1_000)), 200),
    "builtin": (((1_000_000, 1_000),), 100),
    "tenfold": (((10_000_000, 1_000),), 10),
    "trickle": (((1_000_000, 1_000),), 1_000),
}


def spread_world(clients: int) -> World:
    """Every client has a device and a day of its own."""
    from fedfleet.core.rng import client_keys
    from fedfleet.core.sources import World
    from fedfleet.testing.toys import no_data
    from fedfleet.world.devices import spread
    from fedfleet.world.states import daily

    keys = client_keys(clients)
    return World(keys, spread()(keys, 0), daily(sessions=6)(keys, 0), no_data(clients))


def builtin_world(clients: int) -> World:
    """Clients whose devices and states are drawn evenly from the built-in base, as `fedfleet sample` draws them."""
    from fedfleet.core.fleet import take_devices, take_states
    from fedfleet.core.rng import client_keys, stream
    from fedfleet.core.sources import World
    from fedfleet.testing.toys import no_data
    from fedfleet.world.bases import load_devices, load_states
    from fedfleet.world.devices import table_devices
    from fedfleet.world.states import interval_states

    keys = client_keys(clients)
    base = load_devices("builtin")
    devices = take_devices(base, stream(0, "sample").integers(len(base), size=clients))
    states = load_states("builtin")
    states = take_states(states, stream(1, "sample").integers(len(states), size=clients))
    return World(keys, table_devices(devices, keys, 0), interval_states(states.traces), no_data(clients))


def pace_of(setting: str, cohort: int) -> Policy:
    """How rounds are paced in this setting."""
    from fedfleet.pace.asynchronous import buffered
    from fedfleet.pace.combinators import overcommit
    from fedfleet.pace.rounds import deadline

    if setting == "trickle":
        return buffered(k=cohort // 10, concurrency=cohort, batch=cohort // 20)
    return deadline(cohort, seconds=120) if setting == "spread" else overcommit(deadline(cohort, seconds=120), factor=1.3)


def measure(setting: str, clients: int, cohort: int, rounds: int, choose: str, *, reports: bool = False) -> dict[str, float]:
    """Build a fleet and run it; the clock starts with the first event."""
    from fedfleet.core.parts import Plan
    from fedfleet.core.records import Stop
    from fedfleet.core.registry import builder
    from fedfleet.simulation.simulator import simulate
    from fedfleet.store import journal as journals
    from fedfleet.testing.toys import idle, idle_executor, opaque_executor

    world = (spread_world if setting == "spread" else builtin_world)(clients)
    built = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    stop = Stop(rounds=rounds, evaluate_every=10**9)
    plan = Plan(0, idle(), builder("selectors", choose)(), pace_of(setting, cohort), stop, {}, clients)
    with tempfile.TemporaryDirectory() as folder:
        journal = journals.create(Path(folder) / "run.db")
        start, worked = time.perf_counter(), time.process_time()
        simulate(plan, world, opaque_executor() if reports else idle_executor(), journal=journal)
        journal.close()
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"clients": clients, "cohort": cohort, "events": journal.position, "seconds": seconds, "cpu_seconds": worked,
            "events_per_second": journal.position / seconds, "built_mb": built, "peak_mb": peak}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--world", choices=sorted(SIZES), default="spread")
    parser.add_argument("--choose", default="uniform")
    parser.add_argument("--one", type=int, nargs=2, metavar=("CLIENTS", "COHORT"))
    parser.add_argument("--reports", action="store_true", help="make an empty report for every task")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    sizes, usual_rounds = SIZES[asked.world]
    rounds = usual_rounds if asked.rounds is None else asked.rounds
    if asked.one:
        print(json.dumps(measure(asked.world, asked.one[0], asked.one[1], rounds, asked.choose, reports=asked.reports)))
        return
    for clients, cohort in sizes:
        words = [sys.executable, "-m", "benchmarks.engine", "--world", asked.world, "--rounds", str(rounds)]
        words += ["--choose", asked.choose, "--one", str(clients), str(cohort), *(["--reports"] if asked.reports else [])]
        got = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        if asked.json:
            print(json.dumps(got))
        else:
            print(f"{clients:>9,} clients, cohort {cohort:>6,}: {got['events_per_second']:>9,.0f} events/s, "
                  f"{got['events']:,.0f} events in {got['seconds']:.2f} s, {got['cpu_seconds']:.2f} of them at work, "
                  f"peak {got['peak_mb']:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
