"""Seconds per round of pfl-research, Flower, the literal loop and this package, on the same work, one after the other.

    make peers
    python -m benchmarks.peers --tasks mlp femnist_cnn --cohort 50 --steps 5 --batch 10 --device cpu --json

Each system runs in processes of its own and in every configuration that could suit it; the table shows its fastest, by the
median of the timed rounds. `apart` is how far its model lies from the literal loop's after two rounds, as a share of the way
that the loop's went: all train the same clients on the same batches from the same start, so that only rounding is left (one
client of 20 left out of one round would be 0.05). `fedfleet` is the stacked executor and a plain mean, as the others have it;
`fedfleet-exact` does what a run of ours does besides: every report checked, the mean exact.

Where nothing can be installed, unpack pfl and its pure Python parts in a folder on PYTHONPATH:

    PYTHONPATH=.carry:. python3 -m benchmarks.peers --device cuda --peer-python python3 --without flower
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.peers.making import make_work
from benchmarks.peers.systems import (
    EXACT,
    OURS,
    REFERENCE,
    ROOT,
    SYSTEMS,
    Entry,
    Outcome,
    carry_out,
    entries,
    exactly,
)
from benchmarks.peers.work import Work, cores, read_work

TASKS = ("femnist_cnn", "cifar_cnn", "mlp", "logreg", "har_cnn", "char_lstm")


def main() -> None:
    """Parse, run, print."""
    asked = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exit like any other: what runs is ended first
    rows: list[dict[str, Any]] = []
    for task in asked.tasks:
        work = Work(task, asked.cohort, asked.steps, asked.batch, asked.lr, asked.warm, asked.rounds, asked.device, asked.tf32)
        found = one_task(work, asked)
        rows += found
        if not asked.json:
            print_table(found)
    if asked.json:
        machine = {"cores": cores(), "machine": platform.machine(), "python": platform.python_version()}
        print(json.dumps({"settings": vars(asked), "machine": machine, "rows": rows}, indent=1))


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), metavar="TASK")
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--warm", type=int, default=2, help="rounds before the clock counts, at least 1")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds, at least 3")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", help="TF32 for everybody")
    parser.add_argument("--without", nargs="*", default=[], choices=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--peer-python", default=str(ROOT / ".venv-peers/bin/python"), help="the peers' Python")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one configuration may take")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output, and nothing else there")
    asked = parser.parse_args()
    if asked.warm < 1 or asked.rounds < 3:
        parser.error("--warm must be at least 1 and --rounds at least 3")
    return asked


def one_task(work: Work, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Every entry on one task; the fastest configuration of each system is marked."""
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        make_work(folder, work)
        start = {n: v.numpy() for n, v in read_work(folder)[1].state_dict().items()}

        def one(entry: Entry) -> Outcome:
            python = sys.executable if entry.side == "ours_side" else asked.peer_python
            outcome = carry_out(entry, folder, python, asked.limit)
            said = outcome.failed or f"{median(outcome.seconds):.4f} s"
            print(f"{work.task}: {entry.system}, {entry.configuration}: {said}", file=sys.stderr, flush=True)
            return outcome

        done = [one(entry) for entry in entries(work.device, work.cohort) if entry.system not in asked.without]
        trained = [o for o in done if o.entry.system == OURS and o.seconds]
        if trained and EXACT not in asked.without:
            done.append(one(exactly(min(trained, key=lambda o: median(o.seconds)).entry)))
    best = {s: min([median(o.seconds) for o in done if o.entry.system == s and o.seconds], default=0.0) for s in SYSTEMS}
    reference = next((o.model for o in done if o.entry.system == REFERENCE and o.seconds), {})
    return [described(work, outcome, best, reference, start) for outcome in done]


def described(work: Work, outcome: Outcome, best: dict[str, float], reference: Any, start: Any) -> dict[str, Any]:
    """One row of the results."""
    entry = outcome.entry
    row: dict[str, Any] = {"task": work.task, "system": entry.system, "configuration": entry.configuration}
    if not outcome.seconds:
        return {**row, "failed": outcome.failed, "fastest": False}
    seconds = median(outcome.seconds)
    return {
        **row, "seconds_per_round": seconds, "seconds": outcome.seconds, "fastest": seconds == best[entry.system],
        "ratio_to_ours": seconds / best[OURS] if best[OURS] else None,
        "apart": apart(outcome.model, reference, start), "versions": outcome.versions,
    }  # fmt: skip


def apart(model: dict[str, np.ndarray], reference: dict[str, np.ndarray], start: dict[str, np.ndarray]) -> float | None:
    """||model - reference|| / ||reference - start|| over all leaves."""
    if not reference:
        return None
    gap = sum(float(np.sum((model[n] - v).astype(np.float64) ** 2)) for n, v in reference.items())
    way = sum(float(np.sum((v - start[n]).astype(np.float64) ** 2)) for n, v in reference.items())
    return float(np.sqrt(gap / way))


def print_table(rows: list[dict[str, Any]]) -> None:
    """The fastest configuration of each system, and what failed."""
    print(f"\n{'task':<12} {'system':<21} {'configuration':<24} {'s/round':>9} {'x ours':>7} {'apart':>8}")
    for row in sorted(rows, key=lambda r: r.get("seconds_per_round", 1e9)):
        head = f"{row['task']:<12} {row['system']:<21} {row['configuration']:<24}"
        if "failed" in row:
            print(f"{head} {row['failed']}")
        elif row["fastest"]:
            ratio = "" if row["ratio_to_ours"] is None else f"{row['ratio_to_ours']:.2f}"
            gap = "" if row["apart"] is None else f"{row['apart']:.1e}"
            print(f"{head} {row['seconds_per_round']:>9.4f} {ratio:>7} {gap:>8}", flush=True)


if __name__ == "__main__":
    main()
