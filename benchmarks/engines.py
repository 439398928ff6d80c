"""What an engine takes on a device: seconds for a training step and memory, each engine in a process of its own, one thread.

    python -m benchmarks.engines [--tasks digits_cnn har_cnn] [--batch 16] [--json]

Every process trains as a device does, from the configuration that a server sends, on samples of its own. The idle figure is a device
that waits for work.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from fedfleet.core.trees import Tree

TASKS = ("digits_mlp", "digits_cnn", "har_cnn", "femnist_cnn", "cifar_cnn", "char_lstm")
ENGINES = ("torch", "numpy", "mnn")
_CHILD = """
import pickle, sys, time
from pathlib import Path
config, data, model, engine = pickle.loads(Path(sys.argv[1]).read_bytes())
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
import fedfleet.network.device.client_loop
import fedfleet.network.device.device_process
idle = peak()
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.network.device.client_runtime import Assignment, train_task
runtime = build_client_runtime(config, Path(data), engine=engine)
train_task(runtime, Assignment(1, steps=1), model, {})
times = []
for task in range(2, 7):
    began = time.process_time()
    result = train_task(runtime, Assignment(task, steps=10), model, {})
    times.append((time.process_time() - began) / 10)
print(pickle.dumps((min(times) * 1e3, idle, peak(), result.payload)).hex())
"""


def measure(task: str, batch: int) -> list[dict[str, float | str]]:
    """One row for each engine."""
    from fedfleet.core.tensor_format import unpack_tree

    rows, updates = [], []
    with tempfile.TemporaryDirectory() as folder:
        for engine, work in device_works(task, batch, Path(folder)).items():
            step, idle, peak, payload = time_device([sys.executable], work)
            updates.append(unpack_tree(payload))
            rows.append({"task": task, "engine": engine, "step_ms": step, "idle_mb": idle, "peak_mb": peak})
    return [{**row, "apart": _largest_gap(updates[0], update)} for row, update in zip(rows, updates, strict=True)]


def device_works(task: str, batch: int, folder: Path) -> dict[str, Path]:
    """By engine, the file from which a process trains: the configuration of a device that brings samples, and a model."""
    from fedfleet.app.assemble import assemble
    from fedfleet.app.assemble.client_config import client_config_for
    from fedfleet.app.spec import resolve
    from fedfleet.core.registry import builder, parameters
    from fedfleet.network.protocol.frames import offer_to_bytes

    entry = {"use": task, **({"synthetic": True, "samples": 400} if "synthetic" in parameters(builder("tasks", task)) else {})}
    spec = {"task": entry, "algorithm": {"batch": batch, "lr": 0.01}, "world": {"clients": 2, "data": "iid"}, "pace": {"cohort": 2}}
    setup = assemble(resolve(spec))
    plan, samples = setup.plan, folder / "own.npz"
    np.savez(samples, x=setup.task.dataset.x[:200], y=setup.task.dataset.y[:200])
    offer = offer_to_bytes(plan.algorithm.offer(plan.algorithm.init(plan.params), 0, {}))
    config = client_config_for(setup, 0, brings_own=True)
    for engine in ENGINES:
        (folder / engine).write_bytes(pickle.dumps((config, str(samples), offer, engine)))
    return {engine: folder / engine for engine in ENGINES}


def time_device(python: list[str | Path], work: Path, **environment: str) -> tuple[float, float, float, bytes]:
    """Milliseconds of a step, MB while it waits and at most, and the update, of a device's process on one thread."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [*python, "-c", _CHILD, work],
        env={**os.environ, **one_thread, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return pickle.loads(bytes.fromhex(done.stdout.strip().splitlines()[-1]))


def _largest_gap(literal: Tree, update: Tree) -> float:
    """How far an update is from PyTorch's, against the largest number of each tensor."""
    return max(float(np.abs(literal[n] - v).max()) / max(float(np.abs(v).max()), 1e-9) for n, v in update.items())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [row for task in asked.tasks for row in measure(task, asked.batch)]
    if asked.json:
        print(json.dumps(rows))
        return
    print(f"{'task':14s} engine  step ms  idle MB  peak MB  apart after 10 steps")
    for row in rows:
        print(
            f"{row['task']:14s} {row['engine']:6s} {row['step_ms']:8.2f} {row['idle_mb']:8.0f} {row['peak_mb']:8.0f}  {row['apart']:.0e}"
        )


if __name__ == "__main__":
    main()
