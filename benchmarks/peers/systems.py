"""Who takes part, in which configurations, and how one of them is run: a process of its own, ended when it takes too long."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.work import cores, read_result

ROOT = Path(__file__).resolve().parents[2]
OURS, EXACT, REFERENCE = "fedfleet", "fedfleet-exact", "loop"
SYSTEMS = (OURS, EXACT, REFERENCE, "pfl", "flower")


@dataclass(frozen=True, slots=True)
class Entry:
    """One system in one configuration."""

    system: str
    configuration: str
    side: str
    asked: dict[str, Any]
    processes: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: seconds of each timed round and the model, or why there is nothing."""

    entry: Entry
    seconds: list[float]
    model: dict[str, np.ndarray]
    versions: dict[str, str]
    failed: str = ""


def entries(device: str, cohort: int) -> list[Entry]:
    """Every system with every configuration that could suit it here."""
    from fedfleet.executors.stacked.form_choice import candidates

    n = cores()
    threads = sorted({1, n}) if device == "cpu" else [1]
    share = max(k for k in range(1, n + 1) if cohort % k == 0)  # pfl deals users out to its processes in turn
    found = [Entry(REFERENCE, f"{t} threads", "ours_side", {"way": "loop", "threads": t}) for t in threads]
    for form, t in candidates(device, n):
        asked = {"form": form, "threads": t}
        found.append(Entry(OURS, f"{form} x{t}", "ours_side", {"way": "train", **asked}))
    found += [Entry("pfl", f"1 process, {t} threads", "pfl_side", {"threads": t}) for t in threads]
    if device == "cpu" and share > 1:  # on a GPU pfl takes one process per card
        found.append(Entry("pfl", f"{share} processes", "pfl_side", {"threads": 1}, share))
    return found + [Entry("flower", f"{a}, {n} actors", "flower_side", {"api": a, "actors": n}) for a in ("messages", "numpy")]  # fmt: skip


def exactly(fastest: Entry) -> Entry:
    """The same with all that a run does; a run, too, takes the form that trains fastest."""
    return Entry(EXACT, fastest.configuration, fastest.side, {**fastest.asked, "way": "run"})


def carry_out(entry: Entry, folder: Path, python: str, limit: float) -> Outcome:
    """Run one entry on the work in a folder."""
    with tempfile.TemporaryDirectory() as kept:
        out = Path(kept)
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={entry.processes}"]
        command = [python, *(launcher if entry.processes > 1 else []), "-m", f"benchmarks.peers.{entry.side}"]
        trouble = _run([*command, str(folder), str(out), json.dumps(entry.asked)], out / "log", limit)
        if trouble:
            return Outcome(entry, [], {}, {}, trouble)
        result, model = read_result(out)
    return Outcome(entry, result["seconds"], model, result["versions"])


def peer_environment() -> dict[str, str]:
    """The repository can be imported, nobody calls home, waiting threads sleep instead of spinning."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    return {**os.environ, **quiet, "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": os.pathsep.join(paths)}


def _run(command: list[str], log: Path, limit: float) -> str:
    """Run a command in a session of its own; says what went wrong, or nothing. Interrupted, we end it as well."""
    if shutil.which(command[0]) is None:
        return f"there is no {command[0]}: `make peers` sets it up"
    with log.open("wb") as written:
        started = subprocess.Popen(
            command, cwd=ROOT, env=peer_environment(), stdout=written, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = started.wait(limit)
        except subprocess.TimeoutExpired:
            return f"took more than {limit:g} s"
        finally:
            if started.poll() is None:  # too long, or we were interrupted: it ends with everything that it started
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
    if code == 0:
        return ""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    blamed = [line for line in lines if re.search(r"(Error|Exception|Interrupt)\b.*:", line)]
    return f"exit {code}: {(blamed or lines or ['it said nothing'])[-1]}"
