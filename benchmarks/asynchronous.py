"""Asynchronous runs: how many arrivals a second the engine carries, and what asynchrony does for the clients' time.

    python -m benchmarks.asynchronous [--clients 100000] [--k 10] [--concurrency 1000] [--arrivals 40000] [--refill 1] [--mb 100] [--reports] [--json]
    python -m benchmarks.asynchronous --utilisation

The first trains nothing, and makes no reports unless `--reports` asks for empty ones: every device and every day of its own, a
journal with its digest, a model every K arrivals. The second
lets the same work be done in FS-REAL's Near-normal pool by rounds and by a buffer, and counts contributions per client and hour.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.engine import spread_world


def speed(clients: int, k: int, concurrency: int, arrivals: int, refill: float, mb: float, *, reports: bool) -> dict[str, float]:
    """A run of so many arrivals; the clock starts with the first event."""
    from fedfleet.choose.uniform import uniform
    from fedfleet.core.parts import Plan
    from fedfleet.core.records import Stop
    from fedfleet.pace.asynchronous import buffered
    from fedfleet.simulation.simulator import simulate
    from fedfleet.store import journal as journals
    from fedfleet.testing.toys import idle, idle_executor, opaque_executor

    pace = buffered(k=k, concurrency=concurrency, refill=refill)
    stop = Stop(rounds=arrivals // k, evaluate_every=10**9)
    plan, world = Plan(0, idle(model_bytes=1e6 * mb), uniform(), pace, stop, {}, clients), spread_world(clients)
    with tempfile.TemporaryDirectory() as folder:
        journal = journals.create(Path(folder) / "run.db")
        start, worked = time.perf_counter(), time.process_time()
        end = simulate(plan, world, opaque_executor() if reports else idle_executor(), journal=journal)
        journal.close()
        seconds, worked = time.perf_counter() - start, time.process_time() - worked
    came = end.state.book.version * k
    return {"clients": clients, "k": k, "concurrency": concurrency, "refill": refill, "arrivals": came, "seconds": seconds,
            "arrivals_per_second": came / seconds, "cpu_seconds": worked, "versions": end.state.book.version, "tasks": end.state.next_task,
            "virtual_seconds": end.state.book.now}  # fmt: skip


def utilisation(clients: int = 225, concurrency: int = 45) -> dict[str, float]:
    """Contributions per client and hour, by rounds that wait for everyone and by a buffer with as many at work."""
    from fedfleet.choose.uniform import uniform
    from fedfleet.core.parts import Plan
    from fedfleet.core.records import Stop
    from fedfleet.core.rng import client_keys
    from fedfleet.core.sources import World
    from fedfleet.measure.participation import utilisation as used
    from fedfleet.measure.tasks import task_table
    from fedfleet.pace.asynchronous import buffered
    from fedfleet.pace.rounds import readiness
    from fedfleet.simulation.simulator import simulate
    from fedfleet.testing.toys import idle, no_data, opaque_executor
    from fedfleet.world.samplers.pool72 import pool72
    from fedfleet.world.states import always_on

    keys, found = client_keys(clients), {}
    world = World(keys, pool72(distribution="near_normal")(keys, 0), always_on()(keys, 0), no_data(clients))
    paces = {"rounds": readiness(concurrency, t_break=1.0), "buffer": buffered(k=10, concurrency=concurrency)}
    for name, pace in paces.items():
        events = []
        stop = Stop(rounds=10**6, updates=clients * 40, evaluate_every=10**9)
        plan = Plan(0, idle(samples=100.0, model_bytes=13.3e6), uniform(), pace, stop, {}, clients)
        end = simulate(plan, world, opaque_executor(), watch=events.extend)
        found[name] = used(task_table(events), clients, end.state.book.now).mean
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("clients", 100_000), ("k", 10), ("concurrency", 1_000), ("arrivals", 40_000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--refill", type=float, default=1.0)
    parser.add_argument("--mb", type=float, default=100.0, help="of a model: decides how long tasks take")
    parser.add_argument("--reports", action="store_true", help="make an empty report for every task")
    parser.add_argument("--utilisation", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.utilisation:
        got = utilisation()
        told = ", ".join(f"{name} {value:.1f}" for name, value in got.items())
        print(json.dumps(got) if asked.json else f"contributions per client and hour: {told}")
        return
    got = speed(asked.clients, asked.k, asked.concurrency, asked.arrivals, asked.refill, asked.mb, reports=asked.reports)
    if asked.json:
        print(json.dumps(got))
    else:
        print(f"{got['clients']:,.0f} clients, K = {got['k']:.0f}, {got['concurrency']:,.0f} at work, replaced every "
              f"{got['refill']:g} s: {got['arrivals_per_second']:,.0f} arrivals/s, {got['arrivals']:,.0f} in {got['seconds']:.2f} s, "
              f"{got['cpu_seconds']:.2f} of them at work "
              f"({got['versions']:,.0f} models in {got['virtual_seconds']:,.0f} virtual seconds)")  # fmt: skip


if __name__ == "__main__":
    main()
