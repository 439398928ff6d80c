"""Every registered method with its defaults on three datasets: accuracy, traffic, virtual and wall time, over seeds.

    python -m benchmarks.zoo [--tasks digits_mlp chars74k_cnn wisdm_cnn] [--methods fedavg scaffold ..] [--seeds 3] [--workers 2] [--device cuda]
                             [--out FILE.json]

All methods of one dataset meet the same fleet, the same partition and the same number of tasks; methods that are
defined by another pacing or need another model say so in SPECIAL. A run whose model is not finite, or that ends at chance, counts
as diverged.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

# One thread a process: the processes are the parallelism.
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

FLEET: dict[str, Any] = {"devices": {"use": "spread", "mbps": 20.0, "link": 0.8, "compute": 0.5}}
TASKS: dict[str, dict[str, Any]] = {
    "digits_mlp": {"world": {"clients": 50, "data": {"use": "dirichlet", "alpha": 0.5}}, "cohort": 10},
    "chars74k_cnn": {"task": {"hidden": 128}, "world": {"clients": 55, "data": {"use": "by_owner"}}, "cohort": 10},
    "wisdm_cnn": {"world": {"clients": 51, "data": {"use": "by_owner"}}, "cohort": 10},
}
TRIPS = 600  # tasks that are handed out in every run, whatever the pacing
_VIT = {
    "digits_mlp": {"use": "digits_vit"},
    "chars74k_cnn": {"use": "chars74k_vit", "backbone": os.environ.get("BACKBONE", "")},
}
_LATE = {"use": "deadline", "cohort": 10, "seconds": 60.0, "max_staleness": 5}
# What a method needs beside its defaults: another pacing, whoever hands out parts of a model, another model (by task).
SPECIAL: dict[str, dict[str, Any]] = {
    "centralized": {"trips": 30},  # each is a pass over everybody's data
    "fedbuff": {"pace": {"use": "buffered", "k": 10, "concurrency": 20}},
    "fedasync": {"pace": {"use": "buffered", "k": 1, "concurrency": 20}, "evaluate_every": 50},
    "stale_fedavg": {"pace": _LATE},
    "fedavg_plus": {"pace": _LATE},
    "timelyfl": {"pace": {**_LATE, "max_staleness": 0}, "choose": {"use": "timely", "seconds": 60.0}},
    "fedbn": {"model": {"digits_mlp": {"use": "digits_cnn", "norm": "group"}}},
    "biasprompt": {"model": _VIT},
    "biasprompt_plus": {"model": _VIT, "pace": _LATE},
}


def spec_of(task: str, method: str, seed: int, device: str = "cpu") -> dict[str, Any]:
    """The spec of one run."""
    setting, special = TASKS[task], SPECIAL.get(method, {})
    return {
        "seed": seed,
        "task": special.get("model", {}).get(task) or {"use": task, **setting.get("task", {})},
        "world": {**FLEET, **setting["world"]},
        "algorithm": {"use": method},
        "pace": special.get("pace", {"use": "readiness", "cohort": setting["cohort"]}),
        "choose": special.get("choose", {"use": "uniform"}),
        "stop": {
            "rounds": 10 * TRIPS if "pace" in special else TRIPS // setting["cohort"],
            "updates": special.get("trips", TRIPS),
            "evaluate_every": special.get("evaluate_every", 5),
        },
        "run": {"execute": "stacked", "device": device},
    }


def one(task: str, method: str, seed: int, device: str) -> dict[str, Any]:
    """One run, as a row; a failure is a row too."""
    import warnings

    import torch

    import fedfleet

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    row: dict[str, Any] = {"task": task, "method": method, "seed": seed}
    start = time.perf_counter()
    try:
        m: Mapping[str, Any] = fedfleet.run(spec_of(task, method, seed, device)).metrics
    except Exception as wrong:
        return row | {"failed": f"{type(wrong).__name__}: {wrong}", "trace": traceback.format_exc()[-2000:]}
    names = (
        "accuracy",
        "accuracy_clients",
        "bytes_up",
        "bytes_down",
        "virtual_seconds",
        "commits",
        "utilisation",
        "warnings",
    )
    return row | {n: m[n] for n in names} | {"wall_seconds": time.perf_counter() - start}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table in Markdown, one line per task and method, means over seeds."""
    head = "| method | accuracy | on clients' data | MB up | MB down | virtual time | wall time |"
    lines: list[str] = []
    for task in dict.fromkeys(r["task"] for r in rows):
        lines += ["", f"### {task}", "", head, "| --- " * 7 + "|"]
        for method in dict.fromkeys(r["method"] for r in rows if r["task"] == task):
            mine = [r for r in rows if r["task"] == task and r["method"] == method]
            failed = [r["failed"] for r in mine if "failed" in r]
            lines.append(f"| {method} | failed: {failed[0]} | | | | | |" if failed else _line(method, mine))
    return "\n".join(lines)


def _line(method: str, mine: list[dict[str, Any]]) -> str:
    def of(name: str) -> float:
        return mean(r[name] for r in mine)

    spread = stdev(r["accuracy"] for r in mine) if len(mine) > 1 else 0.0
    own = [r["accuracy_clients"] for r in mine if r["accuracy_clients"] is not None]
    clients = f"{100 * mean(own):.1f} %" if own else ""
    return (
        f"| {method} | {100 * of('accuracy'):.1f} ± {100 * spread:.1f} % | {clients} | {of('bytes_up') / 1e6:.1f} | "
        f"{of('bytes_down') / 1e6:.1f} | {of('virtual_seconds') / 3600:.2f} h | {of('wall_seconds'):.1f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    from fedfleet.core.registry import names

    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")
    wanted = [
        (t, m, s, asked.device) for s in range(asked.seeds) for t in asked.tasks for m in asked.methods or names("algorithms")
    ]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(asked.workers, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(one, *case) for case in wanted]):
            rows.append(done.result())
            said = rows[-1].get("failed") or f"{100 * rows[-1]['accuracy']:.1f} % in {rows[-1]['wall_seconds']:.1f} s"
            print(
                f"{len(rows)}/{len(wanted)} {rows[-1]['task']} {rows[-1]['method']} {rows[-1]['seed']}: {said}",
                flush=True,
            )
            if asked.out:
                asked.out.write_text(json.dumps(rows, default=lambda x: None if isinstance(x, float) and math.isnan(x) else str(x)))
    rows.sort(key=lambda r: (asked.tasks.index(r["task"]), r["method"], r["seed"]))
    print(table(rows))


if __name__ == "__main__":
    main()
