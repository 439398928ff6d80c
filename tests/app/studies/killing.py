"""A study whose whole process group is killed, again and again, and what it must end with all the same."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from fedfleet.app.studies.grid.run_study import load_study, study
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from fedfleet.app.studies.grid.study_tables import TABLES
from tests.processes import start

ROOT = Path(__file__).parents[3]
SPEC = """
[task]
use = "digits_logreg"
[world]
clients = 12
data = { use = "dirichlet", alpha = 0.5 }
devices = { use = "spread" }
[pace]
cohort = 4
[run]
checkpoint_every = 5
"""


def written(folder, *, lrs, seeds, rounds):
    """A study file of so many learning rates and seeds."""
    (folder / "spec.toml").write_text(SPEC)
    text = f"""
base = "spec.toml"
seeds = {seeds}
baseline = "algorithm.lr={lrs[0]}"
target = 0.6
[grid]
"algorithm.lr" = {lrs}
"stop.rounds" = [{rounds}]
[[analysis]]
kind = "pearson"
x = "algorithm.lr"
cluster = "seed"
[[analysis]]
kind = "time_to_accuracy"
"""
    path = folder / "study.toml"
    path.write_text(text.replace(f'"algorithm.lr={lrs[0]}"', f'"algorithm.lr={lrs[0]}, stop.rounds={rounds}"'))
    return path


def command(file, out):
    """The study in a process group of its own."""
    words = ["fedfleet.app.cli.main", "study", file, "--out", out, "--workers", 2, "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return start(*words, env=env, session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def sealed(out):
    return len(list(out.glob("runs/*/seal.json")))


def killed(file, out, *, after, delay):
    """Kill everything once so many more runs are finished, a moment later; how many were finished then."""
    aim = sealed(out) + after
    process = command(file, out)
    while process.poll() is None and (sealed(out) < aim or not list(out.glob("runs/*/run.db"))):
        time.sleep(0.02)
    time.sleep(delay)
    assert process.poll() is None, "it ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return sealed(out)


def proven(folder, *, lrs, seeds, rounds, kills, draws):
    """A study that is killed so often ends with every byte of one that nobody disturbed."""
    file, runs = written(folder, lrs=lrs, seeds=seeds, rounds=rounds), len(lrs) * seeds
    calm, rough = folder / "calm", folder / "rough"
    study(load_study(file), calm, worker_settings=WorkerSettings(1))
    random = np.random.default_rng(draws)
    for left in range(kills, 0, -1):
        most = (runs - sealed(rough)) // (left + 1)
        done = killed(file, rough, after=int(random.integers(0, max(1, most))), delay=float(random.uniform(0, 0.3)))
        assert done < runs
        assert not (rough / "results.csv").exists()
    process = command(file, rough)
    answer = json.loads(process.communicate()[0])
    assert (process.returncode, answer["runs"], answer["failed"]) == (0, runs, 0)
    assert answer["cached"] == done
    for name in TABLES:
        assert (rough / name).read_bytes() == (calm / name).read_bytes(), name
    assert (rough / "wall.csv").read_bytes() != (calm / "wall.csv").read_bytes()
