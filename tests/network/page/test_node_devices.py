"""Devices in JavaScript take part in served runs: the model of the simulation to rounding, killed or not, invited or not."""

import re
import signal
import subprocess
import threading

import numpy as np
import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.served_run import AccessOptions, serve_run
from fedfleet.app.spec import resolve
from fedfleet.network.server.options import ServeOptions
from fedfleet.store.files import load_tree
from tests.app.runs.test_served_run import free_address
from tests.network.harness import PATIENT, ROOT, wait_for
from tests.network.page.node import node

pytestmark = pytest.mark.slow

CLIENTS = 2


def spec_of(rounds, **algorithm):
    return resolve(
        {
            "seed": 5, "task": {"use": "digits_mlp", "hidden": 16}, "algorithm": {"use": "fedprox", **algorithm},
            "world": {"clients": CLIENTS, "data": {"use": "dirichlet", "alpha": 0.5}},
            "pace": {"use": "readiness", "cohort": CLIENTS, "t_break": 0.05, "min_clients": CLIENTS}, "stop": {"rounds": rounds},
            "run": {"execute": "numpy", "threads": 1},
        }
    )  # fmt: skip


def start(folder, http, client, *words):
    """A device process; what it says is in a file of its number."""
    command = [
        node(),
        str(ROOT / "examples" / "device" / "device.mjs"),
        f"http://{http}",
        "--store",
        str(folder / f"store{client}"),
    ]
    with (folder / f"device{client}.out").open("ab") as out:
        return subprocess.Popen([*command, "--client", str(client), *words], stdout=out, stderr=subprocess.STDOUT)


def said(folder, client):
    path = folder / f"device{client}.out"
    return path.read_text() if path.exists() else ""


def served(spec, folder, http, devices, **access):
    """Serve to the end in this process; the devices are gone after it, however it ends."""
    options = ServeOptions(address=free_address(), http=http, devices=CLIENTS, transmitters=0, quiet=True, farewell_seconds=0.5)
    try:
        return serve_run(spec, folder / "served", options, AccessOptions(**access))
    finally:
        for device in devices:
            try:
                device.wait(PATIENT)
            finally:
                device.kill()


def largest_difference(spec, folder):
    """Between the served model and that of the simulation."""
    simulated = load_tree(perform(spec, folder / "simulated").out / "model.safetensors")[0]
    found = load_tree(folder / "served" / "model.safetensors")[0]
    return max(float(np.abs(found[name] - value).max()) for name, value in simulated.items())


@pytest.mark.filterwarnings("ignore")
def test_devices_in_javascript_give_the_model_of_the_simulation(tmp_path):
    spec, http = spec_of(3, mu=0.1, momentum=0.5), free_address()
    devices = [start(tmp_path, http, client) for client in range(CLIENTS)]
    served(spec, tmp_path, http, devices)
    for client in range(CLIENTS):
        assert said(tmp_path, client).count(": SAFE, loss") == 3 and "over: " in said(tmp_path, client), said(tmp_path, client)
    assert largest_difference(spec, tmp_path) < 1e-4
    profiles = (tmp_path / "served" / "profiles.jsonl").read_text().splitlines()
    assert len(profiles) == CLIENTS and all('"seconds_per_batch": ' in line and "digits_mlp" in line for line in profiles)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_a_killed_device_goes_on_as_the_same_client(tmp_path):
    spec, http = spec_of(30), free_address()
    devices = [start(tmp_path, http, client) for client in range(CLIENTS)]

    def torment():
        for times in (2, 6, 12):
            wait_for(
                lambda least=times: said(tmp_path, 0).count(": SAFE") >= least, "finished tasks", seconds=2 * PATIENT, every=0.1
            )
            devices[0].send_signal(signal.SIGKILL)
            devices[0].wait()
            devices[0] = start(tmp_path, http, 0)

    killer = threading.Thread(target=torment)
    killer.start()
    served(spec, tmp_path, http, devices)
    killer.join()
    assert len(re.findall("enrolled as client 0 ", said(tmp_path, 0))) == 4
    assert largest_difference(spec, tmp_path) < 1e-3


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
def test_a_device_brings_a_csv_of_its_own(tmp_path):
    spec, http = spec_of(2), free_address()
    rng, lines = np.random.default_rng(1), []
    for number in range(40):
        values = rng.uniform(size=64).round(3)
        lines.append(",".join([str(number % 10), *map(str, values)]))
    own = tmp_path / "own.csv"
    own.write_text(",".join(["label", *(f"pixel {i}" for i in range(64))]) + "\n" + "\n".join(lines) + "\n")
    devices = [start(tmp_path, http, 0, "--data", str(own)), start(tmp_path, http, 1)]
    served(spec, tmp_path, http, devices)
    assert "32 training samples, 8 test samples" in said(tmp_path, 0) and said(tmp_path, 0).count(": SAFE") == 2
