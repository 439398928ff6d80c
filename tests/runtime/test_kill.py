"""A run killed at any moment resumes to the same digest and the same model bytes: with real processes, and SIGKILL."""

import multiprocessing
import time

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.runs import perform
from fedfleet.app.spec import resolve
from fedfleet.core.rng import stream
from fedfleet.runtime.journal import digest_of

SPEC = {
    "seed": 5,
    "task": {"use": "digits_logreg"},
    "world": {
        "clients": 20,
        "devices": {"use": "spread"},
        "states": {"use": "daily", "sessions": 24, "ready": 0.5},
        "data": {"use": "dirichlet"},
        "model_bytes": 1e8,
    },
    "pace": {"use": "overcommit", "policy": {"use": "deadline", "cohort": 5, "seconds": 60.0}},
    "stop": {"rounds": 40},
    "run": {"checkpoint_every": 3},
}


def begin(folder):
    """Start the run in a process of its own; forked, so that it begins at once."""
    process = multiprocessing.get_context("fork").Process(
        target=perform, args=(resolve(SPEC), folder), kwargs={"resume": True}
    )
    process.start()
    return process


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(tmp_path):
    assemble(resolve(SPEC)).executor()  # what is loaded here need not be loaded in each process
    for name in ("warm", "straight"):
        start = time.monotonic()
        straight = begin(tmp_path / name)
        straight.join()
        whole = time.monotonic() - start
        assert straight.exitcode == 0
    digest, model = digest_of(tmp_path / "straight/run.db"), (tmp_path / "straight/model.safetensors").read_bytes()
    died = 0
    for i in range(80):
        # A run that was faster than its killer does not count.
        moment = float(stream(1, "kill", i).random()) * whole
        folder = tmp_path / str(i)
        process = begin(folder)
        process.join(moment)
        process.kill()
        process.join()
        if process.exitcode == 0:
            continue
        again = begin(folder)
        again.join(60)
        assert again.exitcode == 0
        assert digest_of(folder / "run.db") == digest, f"killed after {moment:.3f} s"
        assert (folder / "model.safetensors").read_bytes() == model
        died += 1
        if died == 20:
            return
    raise AssertionError(f"only {died} of 80 runs could be killed while they ran")
