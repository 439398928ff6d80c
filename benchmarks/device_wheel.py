"""What the wheel fedfleet-device takes on a device: bytes to load and on the disk, memory while it waits, seconds for a step.

    python -m benchmarks.device_wheel [--tasks digits_cnn har_cnn] [--batch 16]

The wheel is built and installed into an environment that has numpy and protobuf alone. Memory is measured over HTTP: before a first
task, with samples of its own and without.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.engines import device_works, time_device
from fedfleet.network.operations.process_memory import memory_of
from tests.app.runs.test_served_run import free_address
from tests.deploy.device_environment import DeviceEnvironment, environment, installed_bytes, make_environment

TASKS = ("digits_mlp", "digits_cnn", "har_cnn", "cifar_cnn")
_WAIT = 120.0


def idle_memory(device: DeviceEnvironment, folder: Path, data: Path | None) -> tuple[float, float]:
    """MB of a device that waits for its first task: its share of what it shares with others, and resident."""
    address, http = free_address(), free_address()
    (folder / "spec.toml").write_text('task.use = "digits_mlp"\nworld.clients = 3\npace.cohort = 3\n')
    words = ["--address", address, "--http", http, "--out", folder / f"run{data is None}", "--devices", "3", "--patience", "3600"]
    server = subprocess.Popen(
        [sys.executable, "-m", "fedfleet", "serve", folder / "spec.toml", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    own = [] if data is None else ["--data", data]
    said = folder / f"said{data is None}"
    with said.open("wb") as err:
        one = subprocess.Popen(
            [device.command, "--server", f"http://{http}", "--store", folder / f"store{data is None}", *own],
            stderr=err,
            env=environment(),
        )
    try:
        until = time.monotonic() + _WAIT
        while "waiting for work" not in said.read_text():
            if time.monotonic() > until or one.poll() is not None:
                raise SystemExit(said.read_text())
            time.sleep(0.2)
        used = memory_of(one.pid)
    finally:
        for process in (one, server):
            process.kill()
            process.wait()
    assert used is not None and used.proportional is not None
    return used.proportional / 1e6, used.resident / 1e6


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--batch", type=int, default=16)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as at:
        folder = Path(at)
        device = make_environment(folder, "numpy", "protobuf")
        needed = {name: installed_bytes((device.packages / name).resolve()) for name in ("google/protobuf", "google/_upb")}
        print(
            f"wheel {device.wheel.stat().st_size / 1e3:.0f} kB; installed {installed_bytes(device.installed) / 1e6:.1f} MB", end=""
        )
        print(f", protobuf {sum(needed.values()) / 1e6:.1f} MB, modules {len(list(device.installed.rglob('*.py')))}")
        works = {task: device_works(task, asked.batch, make_folder(folder / task))["numpy"] for task in asked.tasks}
        for name, data in (("no samples", None), ("own samples", folder / asked.tasks[0] / "own.npz")):
            share, resident = idle_memory(device, folder, data)
            print(f"idle, {name}: {share:.1f} MB (its share), {resident:.1f} MB resident")
        print(f"{'task':14s} step ms  peak MB")
        for task, work in works.items():
            step, _, peak, _ = time_device([device.python], work, PYTHONPATH=str(device.installed / "modules"))
            print(f"{task:14s} {step:7.2f} {peak:8.0f}")
    print(json.dumps({"python": sys.version.split()[0], "load": os.getloadavg()[0]}))


def make_folder(folder: Path) -> Path:
    """The folder, made."""
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
