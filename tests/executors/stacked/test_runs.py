"""The stacked executor inside runs: repeatable, resumable, replayable, close to inline, and honest about falling back."""

import sqlite3

import numpy as np
import pytest

import fedfleet
from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from fedfleet.simulation.checkpoints import checkpoint_files

pytestmark = pytest.mark.slow

SPEC = {
    "seed": 3,
    "task": "digits_mlp",
    "world": {"clients": 20, "data": {"use": "dirichlet"}},
    "pace": {"cohort": 6},
    "stop": {"rounds": 12},
    "run": {"execute": "stacked", "checkpoint_every": 4},
}


def test_a_stacked_run_repeats_resumes_and_replays(tmp_path):
    first = perform(resolve(SPEC), tmp_path / "a")
    (tmp_path / "b").mkdir()
    for name in ("executor.json", "spec.toml"):
        (tmp_path / "b" / name).write_text((tmp_path / "a" / name).read_text())
    for path in checkpoint_files(tmp_path / "a"):
        (tmp_path / "b" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "b" / "run.db").write_bytes((tmp_path / "a" / "run.db").read_bytes())
    again = perform(resolve(SPEC), tmp_path / "b", resume=True)
    assert again.metrics["digest"] == first.metrics["digest"]
    assert replay_run(tmp_path / "a")["ok"]


def test_stacked_learns_what_inline_learns():
    together, alone = fedfleet.run(SPEC), fedfleet.run(SPEC, "run.execute=inline")
    assert together.metrics["spec_digest"] == alone.metrics["spec_digest"]
    assert abs(together.metrics["accuracy"] - alone.metrics["accuracy"]) <= 0.02
    for name, value in alone.params.items():
        assert np.allclose(value, together.params[name], atol=1e-3)


def test_a_model_that_falls_back_leaves_a_remark_in_the_journal(tmp_path, capsys):
    fedfleet.register("tasks", "odd_task", "tests.executors.stacked.test_runs:odd_task")
    done = perform(resolve({**SPEC, "task": "odd_task", "stop": {"rounds": 2}}), tmp_path / "out")
    remarks = sqlite3.connect(tmp_path / "out/run.db").execute("SELECT note FROM events WHERE kind = 99").fetchall()
    assert done.metrics["rounds"] == 2
    kept = (tmp_path / "out/executor.json").read_text()
    if '"form": "merged"' in kept:
        assert len(remarks) == 1
        assert "cannot be stacked" in remarks[0][0]


def odd_task():
    """Digits by a model that has no stacked form."""
    from fedfleet.tasks.digits import digits
    from fedfleet.tasks.task import make_task
    from tests.executors.cohorts import Odd

    class Digits(Odd):
        def __init__(self):
            super().__init__()
            from torch import nn

            self.head = nn.Linear(64, 10)

    return make_task("odd_task", digits, Digits)
