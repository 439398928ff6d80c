"""Devices without PyTorch: from a described model to the bits of the simulation, or one sentence that names the cure."""

import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import fedfleet
from fedfleet.app.api.device import device as be_device
from fedfleet.app.assemble import assemble, device_runtime
from fedfleet.app.assemble.client_config import client_config_for, shard_bytes
from fedfleet.app.assemble.described_task import description_entry, model_of_entry
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.runs.served_run import AccessOptions, serve_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.tensor_format import unpack_tree
from fedfleet.executors.described_executor import described_executor
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.client_runtime import Assignment, train_task
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.device.work import SHARD
from fedfleet.network.protocol.frames import offer_to_bytes
from fedfleet.network.server.options import ServeOptions
from tests.app.runs.test_served_run import free_address

pytestmark = pytest.mark.slow


def table(algorithm, task, **more):
    spec = {"task": task, "algorithm": algorithm, "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 2}}
    return {**spec, **more}


CHILD = """
import pickle, sys
for missing in ("torch", "pydantic", "annotated_types", "safetensors", "google_crc32c", "immutables"):
    sys.modules[missing] = None
from pathlib import Path
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.network.device.client_runtime import Assignment, train_task
config, data, model = pickle.loads(Path(sys.argv[1]).read_bytes())
runtime = build_client_runtime(config, Path(data), engine=sys.argv[2])
result = train_task(runtime, Assignment(5), model, {})
heavy = [name for name in ("scipy", "numba", "sklearn", "pandas") if name in sys.modules]
sys.stdout.buffer.write(pickle.dumps((result.payload, result.weight, dict(result.stats), heavy)))
"""


def skip_without(engine):
    if engine == "mnn":
        pytest.importorskip("_mnncengine")


def own_samples(folder, setup):
    path = folder / "own.npz"
    np.savez(path, x=setup.task.dataset.x[:60], y=setup.task.dataset.y[:60])
    return path


CODED = {"use": "fedavg", "down": ["bf16"], "up": ["topk", "int4", "gzip"], "feedback": True}


@pytest.mark.parametrize(
    ("engine", "algorithm"),
    [("numpy", "fedavg"), ("numpy", "scaffold"), ("numpy", "fedper"), ("numpy", "heterofl"), ("numpy", CODED), ("mnn", "fedper")],
    ids=str,
)
def test_a_device_without_pytorch_trains_the_bits_of_one_that_simulates(engine, algorithm, tmp_path):
    skip_without(engine)
    setup = assemble(resolve(table(algorithm, {"use": "digits_cnn", "channels": 2, "norm": "group"})))
    config, data = client_config_for(setup, 0, brings_own=True), own_samples(tmp_path, setup)
    plan = setup.plan
    offer = offer_to_bytes(plan.algorithm.offer(plan.algorithm.init(plan.params), 0, {}))
    (tmp_path / "work").write_bytes(pickle.dumps((config, str(data), offer)))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "work", engine], env=environment, capture_output=True, check=True)
    payload, weight, stats, heavy = pickle.loads(out.stdout)
    described_executor(engine, setup.task)  # one thread for products of matrices, as on the device
    here = train_task(build_client_runtime(config, data, engine=engine), Assignment(5), offer, {})
    assert (payload, weight, stats, heavy) == (here.payload, here.weight, dict(here.stats), [])


@pytest.mark.parametrize("engine", ["numpy", "mnn"])
@pytest.mark.parametrize(
    ("algorithm", "says"),
    [("fedkd", "objective of fedkd is written for PyTorch"), ("biasprompt", "which only PyTorch can train")],
)
def test_a_method_that_no_such_device_can_train_is_refused_by_name(algorithm, says, engine, tmp_path):
    skip_without(engine)
    setup = assemble(resolve(table(algorithm, {"use": "digits_mlp"})))
    with pytest.raises(BadInput, match=says):
        build_client_runtime(client_config_for(setup, 0, brings_own=True), own_samples(tmp_path, setup), engine=engine)


@pytest.mark.parametrize("engine", ["numpy", "mnn"])
def test_such_devices_train_slices(engine, tmp_path):
    skip_without(engine)
    setup = assemble(resolve(table({"use": "heterofl", "widths": [0.5]}, {"use": "digits_mlp"})))
    algorithm = setup.plan.algorithm
    offer = offer_to_bytes(algorithm.offer(algorithm.init(setup.plan.params), 0, {}))
    config = client_config_for(setup, 0, brings_own=True)
    runtime = build_client_runtime(config, own_samples(tmp_path, setup), engine=engine)
    assert train_task(runtime, Assignment(5), offer, {}).weight > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ["numpy", "mnn"])
def test_served_devices_give_the_model_of_the_simulation_of_their_engine(engine, tmp_path):
    skip_without(engine)
    spec = table("fedavg", "digits_mlp", run={"execute": engine}, pace={"cohort": 4, "t_break": 0.01}, world={"clients": 4})
    address, results = free_address(), {}

    def attend(client):
        store, line = DeviceStore(tmp_path / f"device{client}"), Connection(address, None)
        make = lambda sheet, fetch: build_client_runtime(sheet, None, fetch, engine=engine)  # noqa: E731
        results[client] = Device(line, store, DeviceOptions(client=client), make, str).run()
        line.close()
        store.close()

    devices = [threading.Thread(target=attend, args=(c,), daemon=True) for c in range(4)]
    for device in devices:
        device.start()
    options = ServeOptions(address=address, devices=4, transmitters=0, quiet=True)
    served = serve_run(resolve(spec), tmp_path / "served", options, AccessOptions())
    for device in devices:
        device.join(120)
    simulated = fedfleet.run(spec, out=tmp_path / "simulated")
    assert len(results) == 4 and served.metrics["accuracy"] == simulated.metrics["accuracy"]
    assert (tmp_path / "served/model.safetensors").read_bytes() == (tmp_path / "simulated/model.safetensors").read_bytes()
    assert {"models", "scores", "losses"} <= set(fedfleet.replay(tmp_path / "simulated")["verified"])


@pytest.mark.parametrize(
    ("entry", "kind", "says"),
    [
        (None, Refused, "does not describe its model"),
        ([], Refused, "does not describe its model"),
        ({}, Refused, "does not describe its model"),
        ({"refused": "odd"}, BadInput, "--engine numpy cannot train this run: odd; start this device with --engine torch"),
        ({"model": "{}", "head": "a", "norms": []}, Refused, "cannot be read"),
    ],
)
def test_what_a_server_says_of_its_model(entry, kind, says):
    with pytest.raises(kind, match=says):
        model_of_entry(entry, "numpy")


def test_the_entry_is_plain_data():
    setup = assemble(resolve(table("fedper", "digits_mlp")))
    entry = json.loads(json.dumps(description_entry(setup)))
    description, facts = model_of_entry(entry, "numpy")
    assert facts.head == "3.*" and description.sample_shape == setup.task.dataset.x.shape[1:]


def test_samples_of_another_shape_are_named(tmp_path):
    setup = assemble(resolve(table("fedavg", "digits_mlp")))
    np.savez(tmp_path / "own.npz", x=np.ones((20, 7), np.float32), y=np.arange(20) % 10)
    with pytest.raises(BadInput, match=r"each sample has the shape \(7,\)"):
        build_client_runtime(client_config_for(setup, 0, brings_own=True), tmp_path / "own.npz", engine="numpy")


def test_an_engine_that_is_misspelt_is_named():
    with pytest.raises(BadInput, match="engine 'nunpy' is not known; did you mean 'numpy'"):
        be_device(engine="nunpy")


def test_a_device_that_cannot_make_the_data_of_a_rehearsal_takes_them_from_the_server(tmp_path, monkeypatch):
    setup = assemble(resolve(table("fedavg", "digits_mlp")))
    config, plan = client_config_for(setup, 1), setup.plan
    offer = offer_to_bytes(plan.algorithm.offer(plan.algorithm.init(plan.params), 1, {}))
    here = train_task(build_client_runtime(config, engine="numpy"), Assignment(5), offer, {})

    def missing(kind, table):
        raise ModuleNotFoundError("no module", name="sklearn")

    shard = unpack_tree(shard_bytes(setup, 1))
    resolving = device_runtime.resolve_part
    monkeypatch.setattr(
        device_runtime, "resolve_part", lambda kind, *rest: missing(kind, rest) if kind == "tasks" else resolving(kind, *rest)
    )
    asked = []
    runtime = build_client_runtime(config, fetch=lambda name: asked.append(name) or shard, engine="numpy")
    assert asked == [SHARD] and train_task(runtime, Assignment(5), offer, {}).payload == here.payload
    for odd, says in (
        ({"train_y": shard["train_y"][::-1]}, "not those that the configuration names"),
        ({"train_y": shard["train_y"].astype(np.float32), "test_y": shard["test_y"].astype(np.float32)}, "need sklearn, which"),
    ):
        with pytest.raises((Refused, BadInput), match=says):
            build_client_runtime(config, fetch=lambda name, odd=odd: shard | odd, engine="numpy")
    with pytest.raises(ModuleNotFoundError):
        build_client_runtime(config, engine="numpy")
