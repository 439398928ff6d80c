"""Processor seconds of a round of pfl-research and of ours with the exact fold, in turn: what a machine that others use can still tell.

    python -m benchmarks.peers.processor_time --repeats 3 femnist_cnn char_lstm

Both are started anew for each repetition, with the clock of each side replaced by that of its own process. pfl's two processes each
train half of the cohort: a round takes twice what the first of them worked, waiting for the other not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.peers.making import make_work
from benchmarks.peers.systems import ROOT, peer_environment
from benchmarks.peers.work import Work, read_result

COHORTS = {
    "logreg": (50, 5),
    "mlp": (50, 5),
    "har_cnn": (50, 5),
    "femnist_cnn": (10, 3),
    "cifar_cnn": (10, 3),
    "char_lstm": (10, 3),
}
_SIDE = """import runpy, sys, time
time.perf_counter = time.process_time
runpy.run_module({module!r}, run_name="__main__")
"""


def processor_seconds(side: str, folder: Path, out: Path, python: str, limit: float) -> float:
    """The median round of one start of one side."""
    script = out / "side.py"
    script.write_text(_SIDE.format(module=f"benchmarks.peers.{side}"))
    if side == "ours_side":
        command, asked, shares = [sys.executable], {"way": "run", "form": "merged", "threads": 2}, 1
    else:
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        asked, shares = {"threads": 1}, 2
    subprocess.run(
        [*command, str(script), str(folder), str(out), json.dumps(asked)],
        cwd=ROOT, env=peer_environment(), check=True, timeout=limit, capture_output=True,
    )  # fmt: skip
    return shares * median(read_result(out)[0]["seconds"])


def main() -> None:
    """One line for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(COHORTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-python", default=str(ROOT / ".venv-peers/bin/python"), help="the peers' Python")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that one start may take")
    asked = parser.parse_args()
    for task in asked.tasks:
        cohort, steps = COHORTS[task]
        seconds: dict[str, list[float]] = {"ours_side": [], "pfl_side": []}
        with tempfile.TemporaryDirectory() as kept:
            make_work(Path(kept), Work(task, cohort, steps, 10, 0.1, 1, 3, "cpu", False))
            for _ in range(asked.repeats):
                for side, found in seconds.items():
                    with tempfile.TemporaryDirectory() as out:
                        found.append(processor_seconds(side, Path(kept), Path(out), asked.peer_python, asked.limit))
        ours, pfl = (median(found) for found in seconds.values())
        spread = {side: " ".join(f"{v:.4f}" for v in found) for side, found in seconds.items()}
        print(f"{task:<12} ours {ours:.4f} ({spread['ours_side']})  pfl {pfl:.4f} ({spread['pfl_side']})  {pfl / ours:.2f}x  load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
