"""The template of devices loads and trains in one thread, with PyTorch or without, so that it can become any number of devices."""

import json
import os
import subprocess
import sys

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.spec import resolve
from fedfleet.core.tensor_format import pack_tree
from fedfleet.network.pool.processes import MARK

SPECS = {
    "fedavg": {"task": {"use": "digits_cnn"}, "algorithm": {"use": "fedavg"}},
    "a model that comes in a code": {"algorithm": {"use": "fedavg", "up": ["int8"], "down": ["int8"]}},
    "memory of clients": {"algorithm": {"use": "scaffold"}},
    "layers of its own": {"task": {"use": "digits_mlp"}, "algorithm": {"use": "fedrep"}},
}


@pytest.mark.soak  # make test has one in the tiny pool of tests/app/runs/test_pool_run.py
@pytest.mark.parametrize("name", SPECS)
def test_the_template_is_ready_with_one_thread(name, tmp_path):
    table = {"task": {"use": "digits_logreg"}, "world": {"clients": 3}, "pace": {"use": "readiness", "cohort": 3}} | SPECS[name]
    setup = assemble(resolve(table))
    first = {"config": client_config_for(setup, 0, local=True).decode(), "frozen": str(tmp_path / "frozen")}
    if setup.task.frozen:
        (tmp_path / "frozen").write_bytes(pack_tree(setup.task.frozen))
    done = subprocess.run(
        [sys.executable, "-m", "fedfleet.app.assemble.device_template"],
        input=json.dumps(first) + "\n",
        env={**os.environ, MARK: f"{os.getpid()}-test"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["event"] == "template"
