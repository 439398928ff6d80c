"""How long the commands of the gallery take: real time and processor time of each, with the processes that it starts.

    python -m benchmarks.commands [--demo]

Kernels are compiled and reference runs are cached before the first figure; a line says so of commands that differ without. The load of
the machine before and after is printed, since real time means little on a busy one.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from docs.take_pictures import COMPARED, HURRIED, PATIENT, PICTURES, PREDICTED, ROOT, program

REPORTED = "fedfleet report runs/hurried"
MEASURED = "fedfleet measure examples/first.toml"
EXPLAINED = "fedfleet explain runs/patient"
REPLAYED = "fedfleet replay runs/hurried"
OTHERS = [command for name in ("explain", "study", "tune", "fleet") for command in PICTURES[f"{name}.png"].commands[-1:]]


def timed(command: str, at: Path) -> tuple[float, float]:
    """Real and processor seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(program(command), cwd=at, check=True, capture_output=True)
    real, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return real, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'real':>8} {'processor':>10}")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        shutil.copytree(ROOT / "examples", at / "examples")
        for command in (HURRIED, MEASURED, PREDICTED):
            timed(command.replace("runs/", "warm/"), at)
        demo = ["fedfleet demo --out demo"] if "--demo" in sys.argv else []
        for command in (HURRIED, PATIENT, COMPARED, REPORTED, EXPLAINED, REPLAYED, MEASURED, PREDICTED, *OTHERS, *demo):
            real, processor = timed(command, at)
            print(f"{real:6.1f} s {processor:8.1f} s  {command}", flush=True)
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
