"""Having the demo's runs done, side by side in processes: the longest first, so that none is left over at the end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedfleet.app.demo import demo_runs, demo_users
from fedfleet.app.spec import resolve
from fedfleet.app.studies.compare.records import ComparedRun
from fedfleet.app.studies.compare.run_data import read_run
from fedfleet.app.studies.grid.expansion import Cell
from fedfleet.app.studies.grid.study_jobs import LOG, WorkerSettings, carry_out_runs
from fedfleet.app.studies.grid.study_progress import board, show_board
from fedfleet.core.errors import RunFailed

USERS = "users"  # in place of a fleet: devices that belong to people
_LONGEST = ("BiasPrompt+", "ShuffleFL", "FedBuff")


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of the demo: on which fleet, by which way, with which seed, and where it will lie."""

    fleet: str
    way: str
    seed: int
    out: Path
    table: dict[str, Any]


RunsByWay = dict[tuple[str, str], list[ComparedRun]]  # by fleet and way, in the order of the seeds


def all_runs(out: Path) -> list[DemoRun]:
    """All runs of the demo, those that take longest first."""
    runs = [
        DemoRun(
            fleet, way, seed,
            out / "runs" / f"{fleet}-{demo_runs.WAYS[way].folder}-{seed}", demo_runs.fleet_spec(fleet, way, seed),
        )
        for fleet in demo_runs.FLEETS
        for way in demo_runs.WAYS
        for seed in demo_runs.SEEDS
    ]  # fmt: skip
    runs += [
        DemoRun(USERS, way, seed, out / "runs" / f"{USERS}-{way.lower()}-{seed}", demo_users.users_spec(way, seed))
        for way in demo_users.METHODS
        for seed in demo_runs.SEEDS
    ]
    order = {way: i for i, way in enumerate(_LONGEST)}
    return sorted(runs, key=lambda run: order.get(run.way, len(order)))


def run_demo(out: Path, *, quiet: bool = False) -> RunsByWay:
    """Train all of them, a process for each processor; what cannot be done is told with its reason."""
    plan = all_runs(out)
    cells = [Cell(f"{run.fleet}, {run.way}", run.seed, resolve(run.table, run.out.name)) for run in plan]
    with show_board(board(cells, []), quiet=quiet) as hear:
        failures = carry_out_runs(
            cells, [run.out for run in plan], WorkerSettings(workers()), log=out / LOG, on_news=hear
        )
    for run, failure in zip(plan, failures, strict=True):
        if failure:
            raise RunFailed(f"the demo's run {run.out.name} could not be finished: {failure}")
    return read_demo(out)


def read_demo(out: Path) -> RunsByWay:
    """The runs of a demo that has been carried out."""
    result: RunsByWay = {(run.fleet, run.way): [] for run in runs_in_order(out)}
    for run in runs_in_order(out):
        result[run.fleet, run.way].append(read_run(run.out, run.out.name))
    return result


def runs_in_order(out: Path) -> list[DemoRun]:
    """All runs in the order in which they are told of: fleets, ways, seeds."""
    places = [(f, w) for f in demo_runs.FLEETS for w in demo_runs.WAYS] + [(USERS, w) for w in demo_users.METHODS]
    return sorted(all_runs(out), key=lambda run: (places.index((run.fleet, run.way)), run.seed))


def workers() -> int:
    """One process for each processor that we may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
