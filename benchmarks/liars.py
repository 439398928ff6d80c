"""In how many rounds a client is picked that lies about its statistics, with and without bounds around the selector.

    python -m benchmarks.liars [--only oort] [--rounds 60] [--json]

A fleet of 30 clients with unlike devices and data trains the digits, 5 clients a round. One client at a time reports a loss and an
update norm that are a thousand times too high; the run is a simulation, so that the same client when honest is the reference. Three
clients play the liar in turn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.app.assemble import assemble, open_executor
from fedfleet.app.spec import resolve
from fedfleet.choose.report_bounds import bounded
from fedfleet.core.events import Evaluated, ModelCommitted, TasksSent
from fedfleet.core.parts import Executor, Job
from fedfleet.core.records import Report
from fedfleet.simulation.simulator import simulate

SELECTORS: dict[str, dict[str, Any]] = {
    "oort": {"use": "oort"},
    "pyramidfl": {"use": "pyramidfl"},
    "power_of_choice": {"use": "power_of_choice", "losses": "stale", "d": 12},
    "flame": {"use": "flame"},
    "tifl": {"use": "tifl", "mode": "adaptive", "every": 5},
}
LIARS = (3, 11, 27)
LIE = 1e3


def spec_of(choose: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The spec of a run."""
    return {
        "seed": 1,
        "task": {"use": "digits_mlp"},
        "world": {
            "clients": 30,
            "devices": {"use": "pool72", "distribution": "near_normal"},
            "data": {"use": "dirichlet", "alpha": 0.5},
        },
        "choose": choose,
        "pace": {"use": "readiness", "cohort": 5},
        "stop": {"rounds": rounds, "evaluate_every": rounds},
    }


def lying(execute: Executor, liar: int | None) -> Executor:
    """The executor in which one client's statistics are lies."""
    if liar is None:
        return execute

    def spoil(report: Report) -> Report:
        if report.client != liar:
            return report
        times = {"loss": LIE, "squared_loss": LIE**2, "update_norm": LIE}
        return replace(report, stats={n: v * times.get(n, 1.0) for n, v in report.stats.items()})

    def train(jobs: Sequence[Job]) -> list[Report]:
        return [spoil(report) for report in execute.train(jobs)]

    return replace(execute, train=train, fold=None)


def measure(choose: dict[str, Any], *, bounds: bool, liar: int | None, rounds: int) -> dict[str, Any]:
    """One run: the share of its rounds in which each client was picked, its accuracy and its virtual seconds."""
    setup = assemble(resolve(spec_of(choose, rounds)))
    plan = replace(setup.plan, choose=bounded(setup.plan.choose)) if bounds else setup.plan
    events: list[Any] = []
    with open_executor(setup) as execute:
        simulate(plan, setup.world, lying(execute, liar), watch=events.extend)
    picked = np.bincount(np.concatenate([e.clients for e in events if isinstance(e, TasksSent)]), minlength=plan.clients)
    last = [e for e in events if isinstance(e, Evaluated)][-1]
    commits = [e.time for e in events if isinstance(e, ModelCommitted)]
    return {"share": picked / rounds, "accuracy": last.correct / last.total, "seconds": commits[-1]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=SELECTORS)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, choose in SELECTORS.items():
        if args.only not in (None, name):
            continue
        for bounds in (False, True):
            honest = measure(choose, bounds=bounds, liar=None, rounds=args.rounds)
            lies = [measure(choose, bounds=bounds, liar=liar, rounds=args.rounds) for liar in LIARS]
            rows.append({
                "selector": name,
                "bounded": bounds,
                "liars": [round(float(run["share"][liar]), 3) for run, liar in zip(lies, LIARS, strict=True)],
                "same_clients_honest": [round(float(honest["share"][liar]), 3) for liar in LIARS],
                "most_of_any_honest": round(float(honest["share"].max()), 3),
                "accuracy_honest": round(honest["accuracy"], 3),
                "accuracy_with_liar": [round(run["accuracy"], 3) for run in lies],
                "virtual_seconds_honest": round(honest["seconds"]),
            })  # fmt: skip
            print(json.dumps(rows[-1]) if args.json else rows[-1], flush=True)


if __name__ == "__main__":
    main()
