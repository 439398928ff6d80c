"""What joining runs brings: the same runs inline, stacked and joined, one after the other and on several processes.

    python -m benchmarks.joining --runs 24 --rounds 60 --epochs 1

Digests of stacked runs must be equal in every arm. Processor seconds are said beside wall seconds: on a machine that others use
only the former compare. Processes are warm before the clock starts.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

Ran = tuple[list[str], float]  # digests, processor seconds


def table(seed: int, asked: argparse.Namespace, execute: str) -> dict[str, Any]:
    """One run of the comparison: digits_mlp on a hundred clients with unlike data, twenty at a time."""
    return {
        "seed": seed,
        "task": {"use": "digits_mlp"},
        "world": {"clients": 100, "data": {"use": "dirichlet", "alpha": 0.5}, "devices": {"use": "spread"}},
        "algorithm": {"use": "fedavg", "lr": 0.1, "epochs": asked.epochs},
        "pace": {"use": "deadline", "cohort": asked.cohort, "seconds": 120},
        "stop": {"rounds": asked.rounds},
        "run": {"execute": execute},
    }


def performed(tables: list[dict[str, Any]], folder: str, *, together: bool) -> Ran:
    """These runs in this process, at one meeting or one after the other."""
    from fedfleet.app.runs import FinishedRun, perform
    from fedfleet.app.runs.execution import Kernel
    from fedfleet.app.spec import resolve
    from fedfleet.app.studies.grid.joint_jobs import joint_groups, perform_together
    from fedfleet.executors.stacked.form_choice import Form

    begun, form = time.process_time(), Form("merged", 1)
    specs = [resolve(one, "joining") for one in tables]
    outs = [Path(folder) / str(spec.seed) for spec in specs]
    if together:
        lots = [([specs[i] for i in lot], [outs[i] for i in lot]) for lot in joint_groups(specs)]
        found = [one for lot in lots for one in perform_together(*lot, form=form)]
        found.sort(key=lambda one: one.spec.seed if isinstance(one, FinishedRun) else -1)
    else:
        found = [perform(spec, out, kernel=Kernel(form=form)) for spec, out in zip(specs, outs, strict=True)]
    wrong = next((one for one in found if isinstance(one, Exception)), None)
    if wrong is not None:
        raise wrong
    return [one.metrics["digest"] for one in found if isinstance(one, FinishedRun)], time.process_time() - begun


def here(tables: list[dict[str, Any]], folder: str, *, together: bool) -> tuple[Ran, float]:
    """In this process: what came of it, and wall seconds."""
    begun = time.perf_counter()
    return performed(tables, folder, together=together), time.perf_counter() - begun


def side_by_side(tables: list[dict[str, Any]], folder: str, *, together: bool, workers: int) -> tuple[Ran, float]:
    """On so many processes, each with its share of the runs."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(_warm, [tables[0]] * workers, [f"{folder}/warm{k}" for k in range(workers)]))
        begun = time.perf_counter()
        shares = [tables[k::workers] for k in range(workers)]
        ran = list(pool.map(_performed, shares, [folder] * workers, [together] * workers))
        wall = time.perf_counter() - begun
    digests = {t["seed"]: d for share, (found, _) in zip(shares, ran, strict=True) for t, d in zip(share, found, strict=True)}
    return ([digests[t["seed"]] for t in tables], sum(cpu for _, cpu in ran)), wall


def _performed(tables: list[dict[str, Any]], folder: str, together: bool) -> Ran:
    return performed(tables, folder, together=together)


def _warm(one: dict[str, Any], folder: str) -> None:
    performed([{**one, "stop": {"rounds": 1}}], folder, together=False)
    time.sleep(1.0)  # so that every process gets one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--cohort", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    inline, stacked = ([table(seed, asked, how) for seed in range(asked.runs)] for how in ("inline", "stacked"))
    w = asked.workers
    arms: dict[str, Callable[[str], tuple[Ran, float]]] = {
        "inline, one after the other": lambda out: here(inline, out, together=False),
        "stacked, one after the other": lambda out: here(stacked, out, together=False),
        "joined, one process": lambda out: here(stacked, out, together=True),
        f"stacked, {w} processes": lambda out: side_by_side(stacked, out, together=False, workers=w),
        f"joined, {w} processes": lambda out: side_by_side(stacked, out, together=True, workers=w),
    }
    _warm(stacked[0], tempfile.mkdtemp())
    seen: dict[str, tuple[list[str], float, float]] = {}
    for name, arm in arms.items():
        folder = tempfile.mkdtemp()
        (digests, cpu), wall = arm(folder)
        shutil.rmtree(folder)
        seen[name] = digests, cpu, wall
        base = [seen[first] for first in list(arms)[:2] if first in seen]
        ratios = ", ".join(f"{b[1] / cpu:.2f}x / {b[2] / wall:.2f}x of {n.split(',')[0]}" for n, b in zip(arms, base, strict=False))
        print(f"{name:<30} processor {cpu:7.2f} s  wall {wall:7.2f} s   (processor / wall: {ratios})", flush=True)
    alike = {tuple(digests) for name, (digests, _, _) in seen.items() if not name.startswith("inline")}
    print(f"digests of {asked.runs} stacked runs equal in every arm: {len(alike) == 1}")


if __name__ == "__main__":
    main()
