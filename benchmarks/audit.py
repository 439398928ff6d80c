"""What trust costs: how long a run takes, its full replay, and a quick one; and how many bytes a journal row takes.

    python -m benchmarks.audit [--rounds 200] [--json]

Everything in one process after one warm-up run, so that loading libraries counts for nobody; `quick_command` is a fresh process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def measure(rounds: int) -> dict[str, Any]:
    """Run a spec, audit it in full and quickly, and time all three."""
    from fedfleet.app.runs import perform
    from fedfleet.app.runs.run_audit import replay_run
    from fedfleet.app.spec import resolve

    spec = {
        "task": "digits_mlp",
        "world": {"clients": 100, "devices": "spread", "data": {"use": "dirichlet"}},
        "pace": {"use": "deadline", "cohort": 10, "seconds": 300.0},
        "stop": {"rounds": rounds},
    }
    with tempfile.TemporaryDirectory() as folder:
        perform(resolve({**spec, "stop": {"rounds": 5}}), Path(folder) / "warm")
        out = Path(folder) / "run"
        start = time.perf_counter()
        perform(resolve(spec), out)
        trained = time.perf_counter()
        found = replay_run(out)
        replayed = time.perf_counter()
        replay_run(out, quick=True)
        quick = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "fedfleet.app.cli.main", "replay", str(out), "--quick"],
            check=True,
            capture_output=True,
        )
        command = time.perf_counter()
        return {
            "rows": found["rows"], "run_seconds": trained - start, "replay_seconds": replayed - trained,
            "ratio": (replayed - trained) / (trained - start), "quick_seconds": quick - replayed,
            "quick_command_seconds": command - quick, "journal_bytes_per_row": (out / "run.db").stat().st_size / found["rows"],
        }  # fmt: skip


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.rounds)
    print(json.dumps(found) if given.json else "\n".join(f"{name:<24} {value:,.3f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
