"""The device of the protocol's page, which uses nothing of FedFleet's own device, takes part in a real run."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedfleet.tasks.digits import digits_logreg

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SPEC = """
seed = 7
task.use = "digits_logreg"
world.clients = 2
pace = { use = "readiness", cohort = 2, t_break = 0.1 }
stop.rounds = 5
"""


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@pytest.mark.slow
def test_a_device_that_follows_the_page_alone_takes_part(tmp_path):
    import fedfleet

    (tmp_path / "spec.toml").write_text(SPEC)
    address, data = f"127.0.0.1:{free_port()}", digits_logreg()(7).dataset
    words = ["serve", "spec.toml", "--out", "served", "--address", address, "--evaluate", "devices", "--json"]
    running = [subprocess.Popen([sys.executable, "-m", "fedfleet.app.cli.main", *words], cwd=tmp_path, stdout=subprocess.PIPE)]
    try:
        for client in range(2):
            rows = slice(300 * client, 300 * client + 300)
            np.savez(tmp_path / f"{client}.npz", x=data.x[rows], y=data.y[rows])
            device = [sys.executable, ROOT / "examples/device/plain.py", address, f"{client}.npz"]
            running.append(subprocess.Popen(device, cwd=tmp_path, stdout=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=100)[0] for process in running[1:]]
        assert running[0].wait(100) == 0
    finally:
        for process in running:
            process.kill()
    result = fedfleet.load(tmp_path / "served")
    assert result.metrics["commits"] == 5 and result.metrics["accuracy"] > 0.7
    for text in said:
        assert text.count("SAFE") == 10 and text.endswith("over: rounds\n")  # five trained, five judged
