"""The wheel of small devices: what it holds, that numpy and protobuf are enough, and that it trains the bits of a simulation."""

import json
import subprocess
import sys
import time
import tomllib
import zipfile
from contextlib import contextmanager

import numpy as np
import pytest

import fedfleet
from fedfleet.app.assemble import assemble
from fedfleet.app.spec import load_spec
from fedfleet.core.registry import names
from fedfleet.network.device.local_data import split_counts, split_rows
from fedfleet.network.operations.process_memory import memory_of
from tests.app.runs.test_served_run import free_address
from tests.deploy.device_environment import DEVICE, ROOT, environment, installed_bytes, make_environment

pytestmark = pytest.mark.slow

WAIT = 60.0
CLIENTS = 3
SPEC = """
seed = 3
task.use = "digits_mlp"
[world]
clients = {clients}
[algorithm]
{algorithm}
[pace]
use = "readiness"
cohort = {clients}
t_break = 0.01
[stop]
rounds = 3
[run]
execute = "numpy"
"""
IMPORTS = """
import importlib, json, sys
import fedfleet_device
sys.path.insert(0, str(fedfleet_device.MODULES))
files = sorted(fedfleet_device.MODULES.rglob("*.py"))
parts = [path.relative_to(fedfleet_device.MODULES).with_suffix("").parts for path in files]
for one in parts:
    try:
        importlib.import_module(".".join(one[:-1] if one[-1] == "__init__" else one))
    except ModuleNotFoundError as error:
        assert error.name == "grpc", one
from fedfleet.app.spec.table_checks import resolve_part
from fedfleet.core.registry import builder
for kind, name in json.loads(sys.argv[1]):
    builder(kind, name)
resolve_part("algorithms", {"use": "fedavg", "up": ["int8"], "private": {"use": "local", "noise": 1.0}}, "algorithm")
packages = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(json.dumps(sorted(name for name in packages if not name.startswith("_") and name != "cython_runtime")))
"""


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    return make_environment(tmp_path_factory.mktemp("device"), "numpy", "protobuf")


def test_its_modules_are_those_of_this_tree_and_nothing_else_is_installed(device):
    files = {path.relative_to(device.installed / "modules"): path for path in (device.installed / "modules").rglob("*.py")}
    assert all(path.read_bytes() == (ROOT / place).read_bytes() for place, path in files.items())
    assert {place.parts[0] for place in files} == {"fedfleet"} and len(files) > 100
    assert not (device.packages / "fedfleet").exists()
    heavy = ("stacked", "ray.py", "dashboard", "pages", "server/", "frontend", "engine/", "simulation")
    assert not [place for place in files if any(word in place.as_posix() for word in heavy)]


def test_every_module_loads_and_every_part_of_a_client_is_there(device):
    parts = [(kind, name) for kind in ("algorithms", "folds", "codecs", "attacks", "privacy") for name in names(kind)]
    done = device.run("-c", IMPORTS, json.dumps(parts))
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"fedfleet", "fedfleet_device", "google", "numpy"}


def test_it_says_what_it_is_and_needs(device):
    archive = zipfile.ZipFile(device.wheel)
    (place,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    text, project = archive.read(place).decode(), tomllib.loads((DEVICE / "pyproject.toml").read_text())["project"]
    assert f"\nVersion: {fedfleet.__version__}\n" in text and "\nLicense-Expression: Apache-2.0\n" in text
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    everything = [*whole["dependencies"], *(one for extra in whole["optional-dependencies"].values() for one in extra)]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    assert {*project["dependencies"], *extras} <= set(everything)  # the same limits in both
    assert [line for line in text.splitlines() if line.startswith("Requires-Dist: ") and "extra" not in line] == [
        "Requires-Dist: numpy>=1.26,<3",
        "Requires-Dist: protobuf>=7.35,<8",
    ]


def test_a_whole_fedfleet_beside_it_keeps_its_own_modules(device):
    where = "import fedfleet, fedfleet_device; print(fedfleet.__file__); fedfleet_device.main()"
    done = device.run("-c", where, "--server", "nowhere", PYTHONPATH=str(ROOT))
    assert done.stdout.strip() == str(ROOT / "fedfleet/__init__.py")
    done = subprocess.run([device.command, "--help"], capture_output=True, text=True, env=environment(PYTHONPATH=str(ROOT)))
    assert done.returncode == 0 and done.stdout.startswith("usage: fedfleet-device ")


def own_samples(folder, setup, client):
    """A file whose training samples are, in their order, those that the spec deals to this client."""
    rows, data = setup.world.data.shard(client, "train", 0), setup.task.dataset
    samples = next(n for n in range(len(rows), 3 * len(rows)) if split_counts(n)[0] == len(rows))
    train, _ = split_rows(samples, setup.spec.data_seed, int(setup.world.keys[client]))
    x, y = np.zeros((samples, *data.x.shape[1:]), data.x.dtype), np.zeros(samples, data.y.dtype)
    x[train], y[train] = data.x[rows], data.y[rows]
    np.savez(folder / f"{client}.npz", x=x, y=y)
    return folder / f"{client}.npz"


@contextmanager
def server(folder, spec, *words):
    """The server of a spec with an HTTP door, in a process of its own, and the door's URL."""
    (folder / "spec.toml").write_text(spec)
    address, http = free_address(), free_address()
    words = ["--address", address, "--http", http, "--out", "served", "--devices", str(CLIENTS), "--transmitters", "0", *words]
    command = [sys.executable, "-m", "fedfleet", "serve", "spec.toml", *words]
    with (folder / "server.err").open("wb") as err:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=err, env=environment(PYTHONPATH=str(ROOT))
        )
    try:
        yield process, f"http://{http}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def devices(device, folder, url, clients):
    """Devices of the wheel with the samples of these clients; the last brings none, and rehearses with its shard."""
    setup = assemble(load_spec(folder / "spec.toml", []))
    running = []
    for client in clients:
        words = ["--server", url, "--client", str(client), "--store", folder / f"store{client}", "--json"]
        words += ["--data", own_samples(folder, setup, client)] if client < CLIENTS - 1 else []
        with (folder / f"device{client}.err").open("wb") as err:
            running.append(subprocess.Popen([device.command, *words], stdout=subprocess.PIPE, stderr=err, env=environment()))
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def compare_with_simulation(device, folder, algorithm):
    """Serve a spec to devices of the wheel, and simulate it; the memory of the first while it waits for the others."""
    with server(folder, SPEC.format(clients=CLIENTS, algorithm=algorithm), "--patience", "3600") as (served, url):
        with devices(device, folder, url, [0]) as first:
            used = memory_while_waiting(first[0], folder / "device0.err")
            with devices(device, folder, url, range(1, CLIENTS)) as others:
                said = answers_of([*first, *others])
                errors = [(folder / f"device{client}.err").read_text() for client in range(CLIENTS)]
                assert all(process.returncode == 0 for process in (*first, *others)), errors
        assert served.wait(WAIT) == 0
    fedfleet.run(folder / "spec.toml", out=folder / "simulated")
    assert [json.loads(one)["tasks"] for one in said] >= [3] * CLIENTS, errors
    assert (folder / "served/model.safetensors").read_bytes() == (folder / "simulated/model.safetensors").read_bytes()
    return used


def answers_of(processes):
    """What they print, when all have ended or one has failed."""
    until = time.monotonic() + 2 * WAIT
    while any(one.poll() is None for one in processes) and not any(one.poll() for one in processes):
        assert time.monotonic() < until
        time.sleep(0.1)
    return [one.stdout.read() if one.poll() is not None else b"" for one in processes]


def memory_while_waiting(process, said):
    until = time.monotonic() + 2 * WAIT
    while "waiting for work" not in said.read_text():
        assert time.monotonic() < until and process.poll() is None, said.read_text()
        time.sleep(0.1)
    return memory_of(process.pid)


@pytest.mark.filterwarnings("ignore")
def test_its_devices_are_small_and_give_the_model_of_the_simulation(device, tmp_path):
    used = compare_with_simulation(device, tmp_path, 'use = "scaffold"\nup = ["int8"]')
    assert used is not None and used.proportional is not None
    needed = sum(installed_bytes((device.packages / name).resolve()) for name in ("google/protobuf", "google/_upb"))
    disk = installed_bytes(device.installed) + needed
    figures = {
        "kB of the wheel": device.wheel.stat().st_size / 1e3, "MB on the disk beside numpy": disk / 1e6,
        "MB while it waits, its share of shared pages": used.proportional / 1e6, "MB resident while it waits": used.resident / 1e6,
    }  # fmt: skip
    sys.stdout.write("".join(f"fedfleet-device: {value:.1f} {name}\n" for name, value in figures.items()))  # shown with -rP
    assert disk < 25e6 and used.proportional < 45e6


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "algorithm",
    [
        'use = "fedprox"\nmu = 0.1',
        'use = "fedrep"',
        'use = "heterofl"\nwidths = [1.0, 0.5]',
        'use = "fedavg"\nup = ["topk", "gzip"]\nfeedback = true',
        'use = "fedavg"\noptimiser = "adam"\ndown = ["fp16"]',
        'use = "fedbuff"',
    ],
)
def test_so_do_other_methods(device, tmp_path, algorithm):
    compare_with_simulation(device, tmp_path, algorithm)
