"""Who to ask, and how long to wait: six selectors under five pacing policies on mild and severe fleets, in one table.

    python -m studies.selection --scale quick                (digits, two embedded fleets, 3 seeds: under 15 minutes on 2 cores)
    python -m studies.selection --scale full --out DIR       (four fleets, two tasks, 5 seeds; real data: needs $FEDFLEET_DATA)

All runs of a fleet have the same virtual hours, the same local work and the same seeds; a seed makes the fleet, the data and the
first model. Every run lies in DIR/runs under the digest of its spec, so that a second call goes on where the first ended (results
belong to the code that made them: after a change of the code, take another folder). The table is DIR/table.md, all figures are
DIR/table.csv. How it is computed and what came out: studies/selection.md.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from studies.comparing import Cell, Outcome, cell_of, comma_separated, markdown

CLIENTS, COHORT, DEADLINE, SPARE = 100, 10, 120.0, 3
VIT = 343_200_776  # bytes of ViT-B/16
HOUR = 3600.0
DATA = Path(os.environ.get("FEDFLEET_DATA", Path(__file__).parents[2] / "shared" / "data"))


def _traces(devices: int, states: int) -> dict[str, Any]:
    """FLHetBench's cases: devices from mild (1) to severe (4), states from severe (1) to mild (4)."""
    base = DATA / "flhetbench"
    timers = f"{base}/state/cached_timers.json#{base}/state/state_case{states}.json"
    return {
        "devices": {"use": "device_file", "path": f"flhetbench:{base}/device/case{devices}.json"},
        "states": {"use": "state_file", "path": f"flhetbench:{timers}"},
    }


@dataclass(frozen=True, slots=True)
class Fleet:
    """Where a study runs: devices and states, how unlike the data are, bytes of the model that travels, virtual hours."""

    world: dict[str, Any]
    alpha: float
    model_bytes: int
    hours: float


FLEETS: dict[str, Fleet] = {
    "embedded, mild": Fleet({"devices": {"use": "dpgmm", "sigma": 0.1, "mean_mbps": 60.0}, "states": {"use": "always_on"}}, 10.0, VIT, 2.0),
    "embedded, severe": Fleet({"devices": {"use": "dpgmm", "sigma": 1.4, "mean_mbps": 60.0}, "states": {"use": "dpcsm", "alpha": 100.0, "start_rank": 150}}, 0.1, VIT, 12.0),
    "traces, mild": Fleet(_traces(1, 4), 10.0, VIT // 8, 2.0),  # devices of the traces are slower: a model that they can move in time
    "traces, severe": Fleet(_traces(4, 1), 0.1, VIT // 8, 12.0),
}  # fmt: skip
TASKS: dict[str, dict[str, Any]] = {
    "digits": {"task": {"use": "digits_mlp"}, "local": {"lr": 0.2, "epochs": 3}, "target": 0.8, "every": 1},
    "wisdm": {
        "task": {"use": "wisdm_cnn", "hidden": 32, "samples": 2500},
        "local": {"lr": 0.1, "epochs": 2, "batch": 16},
        "target": 0.5,
        "every": 3,
    },
}
SELECTORS: dict[str, dict[str, Any]] = {
    "uniform": {"use": "uniform"},
    "oort": {"use": "oort"},
    "pyramidfl": {"use": "pyramidfl"},
    "flame": {"use": "flame", "seconds": DEADLINE},
    "tifl": {"use": "tifl", "tiers": 5},
    "power_of_choice": {"use": "power_of_choice", "d": 2 * COHORT, "probe_seconds": DEADLINE},
}
_ROUNDS = {"if_few": "wait"}  # a fleet that sleeps is waited for; without that the night burns a round every 20 seconds
# By name: the policy, the method that suits it, and after how many commits a model is tried.
POLICIES: dict[str, tuple[dict[str, Any], str, int]] = {
    "readiness": ({"use": "readiness", "cohort": COHORT, **_ROUNDS}, "fedavg", 1),
    "deadline": ({"use": "deadline", "cohort": COHORT, "seconds": DEADLINE, **_ROUNDS}, "fedavg", 1),
    "timeout": ({"use": "timeout", "cohort": 3 * COHORT // 2, "goal": COHORT, "seconds": DEADLINE / 2, **_ROUNDS}, "fedavg", 1),
    "buffered": ({"use": "buffered", "k": COHORT, "concurrency": SPARE * COHORT}, "fedbuff", 3),
    "semi_async": ({"use": "semi_async", "period": DEADLINE, "concurrency": SPARE * COHORT}, "fedbuff", 3),
}  # fmt: skip
SCALES: dict[str, tuple[Sequence[str], Sequence[str], int]] = {
    "quick": (("digits",), ("embedded, mild", "embedded, severe"), 3),
    "full": (tuple(TASKS), tuple(FLEETS), 5),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the study."""

    task: str
    fleet: str
    selector: str
    policy: str
    seed: int

    @property
    def pair(self) -> tuple[str, str, str, str]:
        """What the seeds are averaged over."""
        return self.task, self.fleet, self.selector, self.policy

    @property
    def horizon(self) -> float:
        """The virtual seconds that it has."""
        return FLEETS[self.fleet].hours * HOUR


def grid(scale: str) -> list[Case]:
    """All runs of a scale, seed by seed: whoever stops it early has all pairs with fewer seeds."""
    tasks, fleets, seeds = SCALES[scale]
    return [Case(t, f, c, p, s) for s, t, f, p, c in itertools.product(range(seeds), tasks, fleets, POLICIES, SELECTORS)]


def spec_of(case: Case) -> dict[str, Any]:
    """The spec of a run."""
    fleet, task = FLEETS[case.fleet], TASKS[case.task]
    pace, method, every = POLICIES[case.policy]
    return {
        "seed": case.seed,
        "task": task["task"],
        "world": {"clients": CLIENTS, "model_bytes": fleet.model_bytes, **fleet.world, "data": {"use": "dirichlet", "alpha": fleet.alpha}},
        "algorithm": {"use": method, **task["local"]},
        "choose": _choose(case.selector, pace),
        "pace": pace,
        "stop": {"rounds": 1_000_000, "virtual_seconds": case.horizon, "evaluate_every": every * task["every"]},
        "run": {"execute": "stacked", "checkpoint_every": 1_000_000},
    }  # fmt: skip


def _choose(selector: str, pace: dict[str, Any]) -> dict[str, Any]:
    """The selector's table; PyramidFL, which fills slack with work, is told of a deadline."""
    table = SELECTORS[selector]
    return {**table, "seconds": DEADLINE} if selector == "pyramidfl" and pace["use"] == "deadline" else table


def outcome_of(case: Case, out: Path) -> Outcome:
    """Run a case, or read what it gave; a pair that does not fit says why."""
    from fedfleet.app.runs import perform, read_finished_run
    from fedfleet.app.spec import resolve
    from fedfleet.core.errors import BadInput, FedFleetError
    from fedfleet.measure.accuracy import final_accuracy, time_to_accuracy
    from fedfleet.store.seals import SEAL

    start = time.perf_counter()
    try:
        spec = resolve(spec_of(case))
        folder = out / "runs" / spec.digest[:20]
        cached = (folder / SEAL).is_file()
        if not cached and folder.exists():
            shutil.rmtree(folder)  # it was interrupted, and is shorter than a checkpoint is worth
        with (
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stderr(nowhere),
        ):  # doubts about fleets that are meant so
            done = read_finished_run(folder) if cached else perform(spec, folder)
    except BadInput as wrong:
        return Outcome(refused=str(wrong))
    except FedFleetError as wrong:
        return Outcome(failed=str(wrong))
    events = done.events
    took = 0.0 if cached else time.perf_counter() - start
    return Outcome(final_accuracy(events), time_to_accuracy(events, TASKS[case.task]["target"]), done.metrics["commits"], took)


def outcomes(cases: Sequence[Case], out: Path, workers: int) -> Iterator[tuple[Case, Outcome]]:
    """All runs, as they end; with one worker in this process."""
    if workers == 1:
        yield from ((case, outcome_of(case, out)) for case in cases)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from zip(cases, pool.map(outcome_of, cases, itertools.repeat(out)), strict=True)


def stated(cases: Sequence[Case], out: Path, workers: int) -> str:
    """What the study will cost, by one run of each task on each fleet that is carried out now; say it before the rest begins."""
    seen: dict[tuple[str, str], Case] = {}
    for case in cases:
        if case.selector == "uniform" and case.policy == "deadline":
            seen.setdefault((case.task, case.fleet), case)
    from fedfleet.app.assemble import assemble
    from fedfleet.app.spec import resolve

    assemble(resolve(spec_of(next(iter(seen.values())))))  # what is loaded once is not the cost of a run
    samples = {key: outcome_of(case, out) for key, case in seen.items()}
    timed = [key for key, got in samples.items() if got.seconds > 0]
    if not timed:
        return f"{len(cases)} runs, the first of which are there already"
    mean = sum(samples[key].seconds for key in timed) / len(timed)
    total = sum(samples[c.task, c.fleet].seconds or mean for c in cases)
    return (
        f"{len(cases)} runs; samples took {min(samples[k].seconds for k in timed):.1f} to {max(samples[k].seconds for k in timed):.1f} s, "
        f"so all take about {total / workers / 60:,.0f} minutes with {workers} workers, less what is there already"
    )  # fmt: skip


def summed_up(found: Sequence[tuple[Case, Outcome]]) -> list[Cell]:
    """A cell for each pair on each fleet, in the order of the grid."""
    by_pair: dict[tuple[str, str, str, str], list[tuple[Case, Outcome]]] = {}
    for case, got in found:
        by_pair.setdefault(case.pair, []).append((case, got))
    return [
        cell_of(pair, [got for _, got in mine], target=TASKS[pair[0]]["target"], horizon=mine[0][0].horizon)
        for pair, mine in by_pair.items()
    ]


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="quick")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/selection"))
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead of the table")
    asked = parser.parse_args(words)
    cases, start = grid(asked.scale), time.perf_counter()
    asked.out.mkdir(parents=True, exist_ok=True)
    print(stated(cases, asked.out, asked.workers), file=sys.stderr, flush=True)
    found: list[tuple[Case, Outcome]] = []
    for case, got in outcomes(cases, asked.out, asked.workers):
        found.append((case, got))
        said = got.refused or got.failed or f"accuracy {got.accuracy}"
        print(f"{len(found)}/{len(cases)} {', '.join(case.pair)}, seed {case.seed}: {said}", file=sys.stderr, flush=True)
    cells = summed_up(found)
    text = markdown(cells, seeds=SCALES[asked.scale][2], seconds=time.perf_counter() - start)
    (asked.out / "table.md").write_text(text)
    (asked.out / "table.csv").write_text(comma_separated(cells))
    runs, cached = (sum(1 for _, g in found if not g.refused and not g.failed and (g.seconds == 0) is old) for old in (False, True))
    print(json.dumps({"runs": runs, "cached": cached, "cells": len(cells), "out": str(asked.out)}) if asked.json else text)
    return 1 if any(got.failed for _, got in found) else 0


if __name__ == "__main__":
    sys.exit(main())
