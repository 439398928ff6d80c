"""Speed of picking: one pick of 1,000 and one lesson of 1,000 ended tasks, for every registered selector, without a run around.

    python -m benchmarks.selecting [--only oort] [--json]

The selectors have seen reports of half the fleet (`--seen`), some of them late or lost; 10 % and 100 % of the clients are in
reach. Each size in a process of its own, for its memory. 10,000,000 clients for uniform and oort only. Who looks before it
picks is timed with its probe, answered at once; who cannot be built from its defaults is left out, and said so.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedfleet.core.parts import Selector, State
    from fedfleet.core.records import Ended, Roster

SIZES = (100_000, 1_000_000)
LARGE, LARGE_ONES = 10_000_000, ("uniform", "oort")
ONLINE = (0.1, 1.0)
COHORT, TRIES = 1000, 15


def roster_of(clients: int, share: float) -> Roster:
    """The clients in reach, with made-up columns for whoever wants to see any."""
    import numpy as np

    from fedfleet.core.records import Roster
    from fedfleet.core.rng import client_keys, uniforms
    from fedfleet.simulation.rosters import COLUMNS

    keys = client_keys(clients)
    there = np.flatnonzero(uniforms(1, "online", keys) < share)
    chance = uniforms(2, "column", keys[there])
    stats = dict.fromkeys(COLUMNS, 1.0 + 9.0 * chance) | {
        "user": np.floor(there / 3.0),
        "latency_seconds": 0.1 * chance,
    }
    return Roster(there, keys[there], (5 + 200 * chance).astype(np.int64), stats)


def lesson(clients: int, some: Any, first: int) -> Ended:
    """How tasks of these clients ended: most reported, some were dropped, some lost."""
    import numpy as np

    from fedfleet.core.records import DROPPED, FOLDED, LOST, Ended
    from fedfleet.core.rng import client_keys, uniforms

    chance = uniforms(3, "ended", client_keys(clients)[some])
    fate = np.where(chance < 0.8, FOLDED, np.where(chance < 0.9, DROPPED, LOST)).astype(np.int8)
    told = np.where(fate == FOLDED, chance, np.nan)
    stats = {
        "loss": told,
        "squared_loss": told * told,
        "samples": 100 * told,
        "steps": 10 + 0 * told,
        "update_norm": 3 * told,
    }
    return Ended(np.arange(first, first + len(some)), some, 20.0 + 100.0 * chance, fate, stats)


def taught(selector: Selector, clients: int, seen: float) -> State:
    """The selector's state when it has seen reports of this share of the fleet."""
    import numpy as np

    state = selector.initial(clients)
    if selector.learn is not None:
        for at in np.array_split(np.arange(0, clients, round(1.0 / seen)), 20):
            state = selector.learn(state, lesson(clients, at, int(at[0])), 0.0)
    return state


def picked(selector: Selector, state: State, roster: Roster, address: int) -> Any:
    """One pick, with the probe before it."""
    import numpy as np

    from fedfleet.core.parts import Draw
    from fedfleet.core.records import Roster

    draw = Draw(0, address, address * COHORT)
    if selector.probe is not None:
        clients, stat = selector.probe(state, roster, COHORT, draw)
        column = np.full(len(roster.clients), np.nan)
        column[np.searchsorted(roster.clients, clients)] = 1.0
        roster = Roster(roster.clients, roster.keys, roster.samples, {**roster.stats, stat: column})
    return selector.pick(state, roster, COHORT, draw)


def measure(name: str, clients: int, seen: float) -> dict[str, Any]:
    """Milliseconds of processor time (a busy machine changes little) of the fastest of a few tries, by how many are in reach; and
    the memory that the state takes."""
    import numpy as np

    from fedfleet.core.registry import builder

    selector = builder("selectors", name)()
    state = taught(selector, clients, seen)
    found: dict[str, Any] = {"selector": name, "clients": clients}
    for share in ONLINE:
        roster, took = roster_of(clients, share), []
        for address in range(TRIES):
            start = time.process_time()
            picked(selector, state, roster, address)
            took.append(time.process_time() - start)
        found[f"pick_{share:.0%}_ms"] = 1e3 * min(took)
    took, some = [0.0], np.arange(0, clients, clients // COHORT)
    if selector.learn is not None:
        took = []
        for turn in range(TRIES):
            ended = lesson(clients, some + turn, turn * COHORT)
            start = time.process_time()
            state = selector.learn(state, ended, 0.0)
            took.append(time.process_time() - start)
    found["learn_ms"] = 1e3 * sum(took) / len(took)
    found["state_mb"] = sum(column.nbytes for column in state.values()) / 2**20
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def one(name: str, clients: int, seen: float) -> None:
    """Measure in this process and print."""
    try:
        print(json.dumps(measure(name, clients, seen)))
    except TypeError as wrong:  # a builder that cannot do without something
        print(json.dumps({"selector": name, "clients": clients, "left_out": str(wrong)}))


def main() -> None:
    from fedfleet.core.registry import names

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=names("selectors"))
    parser.add_argument("--seen", type=float, default=0.5)
    parser.add_argument("--one", nargs=2, metavar=("SELECTOR", "CLIENTS"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.one:
        one(asked.one[0], int(asked.one[1]), asked.seen)
        return
    for name in asked.only:
        for clients in (*SIZES, *((LARGE,) if name in LARGE_ONES else ())):
            words = [
                sys.executable,
                "-m",
                "benchmarks.selecting",
                "--seen",
                str(asked.seen),
                "--one",
                name,
                str(clients),
            ]
            got = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            if asked.json:
                print(json.dumps(got))
            elif "left_out" in got:
                print(f"{name:>12}: left out ({got['left_out']})")
            else:
                print(f"{name:>12}, {clients:>10,} clients: pick {got['pick_10%_ms']:7.1f} ms at 10 % in reach, "
                      f"{got['pick_100%_ms']:7.1f} at 100 %; learn {got['learn_ms']:6.2f} ms; state {got['state_mb']:.0f} MB, "
                      f"peak {got['peak_mb']:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
