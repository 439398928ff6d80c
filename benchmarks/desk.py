"""Speed and memory of the desk's rules: claims judged a second, bytes of an open task, of a peer, of a check-in interval.

python -m benchmarks.desk [--tasks 1000000] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from fedfleet.network.rules.checkins import Intervals, encode_block
from fedfleet.network.rules.peer_limits import Limits, PeerLimiter
from fedfleet.network.rules.task_table import Claim, TaskTable
from fedfleet.network.server.candidates import Presence

CLAIMS, PEERS = 100_000, 50_000


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--tasks", type=int, default=1_000_000)
    asked.add_argument("--json", action="store_true")
    said = asked.parse_args()
    found = of_tasks(said.tasks) | of_others(said.tasks)
    print(json.dumps(found) if said.json else "\n".join(f"{name:32} {value:14,.2f}" for name, value in found.items()))


def of_tasks(tasks: int) -> dict[str, float]:
    """The table of tasks, all of them open at first."""
    tracemalloc.start()
    made, found = TaskTable(), {}
    made.send(0, np.arange(tasks), np.full(tasks, 10.0), 100.0)
    found["bytes of an open task"] = tracemalloc.get_traced_memory()[0] / tasks
    tracemalloc.stop()
    count = min(CLAIMS, tasks)
    claims = [Claim(i, i, i, 100, 5.0, frontend=i % 2) for i in range(count)]
    found["claims granted a second"] = count / seconds(lambda: [made.decide(claim, 1.0) for claim in claims])
    found["ms to make them safe"] = 1e3 * seconds(lambda: made.mark_safe(range(count)))
    found["claims repeated a second"] = count / seconds(lambda: [made.decide(claim, 1.0) for claim in claims])
    found["ms to release a half"] = 1e3 * seconds(lambda: made.release(1, ()))
    found["ms to settle them"] = 1e3 * seconds(lambda: made.settle(range(count), True))
    found["ms to end all leases"] = 1e3 * seconds(lambda: made.expire(100.0))
    return found


def of_others(clients: int) -> dict[str, float]:
    """Peers, presence, check-ins."""
    tracemalloc.start()
    door = PeerLimiter(Limits(peers=PEERS))
    for peer in range(PEERS):
        door.admit_call(peer, 0.0)
    found = {"bytes of a peer": tracemalloc.get_traced_memory()[0] / PEERS}
    tracemalloc.stop()
    found["calls let in a second"] = CLAIMS / seconds(lambda: [door.admit_call(i % PEERS, 1.0 + i) for i in range(CLAIMS)])
    there, rng = Presence(clients), np.random.default_rng(0)
    found["ms to see who is present"] = 1e3 * seconds(lambda: there.present(1.0))
    starts = rng.uniform(0, 3600, clients)
    stays = Intervals(np.arange(clients), starts, starts + rng.exponential(900, clients))
    found["bytes of a check-in interval"] = len(encode_block(stays)) / clients
    return found


def seconds(act: Callable[[], object]) -> float:
    """How long something takes."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
