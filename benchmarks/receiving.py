"""How long a device waits for its receipt, while models are made at once and while each takes a second.

    python -m benchmarks.receiving [--devices 32] [--seconds 20] [--slow 1.0]

A real server with two transmitters and devices without torch, all on this machine; every report is made safe before it is
acknowledged, so that the group commit is in the figure. The last column is what a slow aggregation adds.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.network.crowd import crowd
from tests.network.harness import ground
from tests.network.toys import Toy


def waited(devices: int, seconds: float, slow: float) -> tuple[np.ndarray, int]:
    """Seconds from handing in to the receipt, of all reports, and how many models were made meanwhile."""
    toy = Toy(clients=devices, buffer=max(1, devices // 4), rounds=10**9, width=25_000, slow_seconds=slow)
    with tempfile.TemporaryDirectory() as folder, ground(Path(folder), toy) as place:
        place.serve(patience=20.0)
        place.await_listening()
        with crowd(toy, place.address, pause=lambda client, task: 0.1 + 0.2 * (client * 7919 % 101) / 101) as people:
            time.sleep(2.0)  # until everybody has enrolled
            first = len(people.seconds)
            time.sleep(seconds)
            found = np.array(people.seconds[first:])
        assert place.server is not None
        models = len(place.models())
        place.server.send_signal(signal.SIGTERM)
        place.ended(30)
    return found, models


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--slow", type=float, default=1.0)
    asked = parser.parse_args()
    print(f"{'making a model':<16} {'reports':>8} {'models':>7} {'median':>9} {'p99':>9} {'longest':>9}")
    for slow in (0.0, asked.slow):
        found, models = waited(asked.devices, asked.seconds, slow)
        median, late, worst = np.percentile(found, [50, 99, 100]) * 1000
        print(f"{slow:>14g} s {len(found):>8} {models:>7} {median:>6.1f} ms {late:>6.1f} ms {worst:>6.1f} ms")


if __name__ == "__main__":
    main()
