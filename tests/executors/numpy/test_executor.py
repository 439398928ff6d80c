"""Numpy trains what PyTorch trains: every cell of the matrix of passes, every kind of task, every registered method."""

import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import fedfleet
from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.runs.served_run import AccessOptions, serve_run
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.registry import names
from fedfleet.executors.inline import inline
from fedfleet.executors.numpy.executor import numpy_executor
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.client_runtime import Assignment, train_task
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.protocol.frames import offer_to_bytes
from fedfleet.network.server.options import ServeOptions
from fedfleet.testing import check_executor
from fedfleet.testing.passes import SINGLES, cases
from tests.app.runs.test_served_run import free_address
from tests.testing.models import TASKS
from tests.testing.registered import fitting_task

pytestmark = pytest.mark.slow

WRITTEN_FOR_TORCH = {"second", "objective"}


@pytest.mark.parametrize("name", ["dense", "convolutions", "batch norm"])
def test_numpy_does_what_inline_does_in_the_cells_of_the_matrix(name):
    task = TASKS[name]()
    every = 1 if name == "dense" and os.environ.get("FEDFLEET_SOAK") else 7
    some = [c for i, c in enumerate(cases(task)) if (i % every == 0 or c.name in SINGLES) and c.name not in WRITTEN_FOR_TORCH]
    assert len(some) > 10
    check_executor(numpy_executor(task), task, only=some)


@pytest.mark.parametrize("kind", sorted(WRITTEN_FOR_TORCH))
def test_an_objective_for_pytorch_is_refused_by_name(kind):
    task = TASKS["dense"]()
    (case,) = [c for c in cases(task) if c.name == kind]
    with pytest.raises(RunFailed, match="objective is written for PyTorch; use run"):
        list(numpy_executor(task).train(case.jobs))


def table(algorithm, task, **more):
    pace = {"use": "buffered", "concurrency": 4, "k": 2} if algorithm in ("fedasync", "fedbuff") else {"cohort": 3}
    spec = {"task": task, "algorithm": algorithm, "world": {"clients": 6}, "pace": pace, "stop": {"rounds": 2}}
    return {**spec, **more}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", names("algorithms"))
def test_every_registered_method_trains_as_inline_does_or_is_refused_by_name(algorithm):
    spec = table(algorithm, fitting_task(algorithm))
    literal = fedfleet.run(spec, "run.execute=inline")
    if algorithm == "fedkd":
        with pytest.raises(fedfleet.RunFailed, match="objective is written for PyTorch"):
            fedfleet.run(spec, "run.execute=numpy")
        return
    found = fedfleet.run(spec, "run.execute=numpy")
    for name, value in literal.params.items():
        scale = max(float(np.abs(value).max()), 1e-3)
        assert np.abs(found.params[name].astype(np.float64) - value).max() <= 2e-4 * scale, name


SMALL = {
    "text_gpt": {"width": 8, "depth": 1, "heads": 2, "window": 8},
    "text_lstm": {"hidden": 8, "window": 8},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["diabetes_mlp", "digits_traits", "text_gpt", "text_lstm"])
def test_every_kind_of_task_has_its_losses_scores_and_measures(task):
    spec = table("fedavg", {"use": task, **SMALL.get(task, {})})
    literal, found = (fedfleet.run(spec, f"run.execute={how}").metrics for how in ("inline", "numpy"))
    assert found["accuracy"] == pytest.approx(literal["accuracy"], abs=2e-3)
    assert found["loss"] == pytest.approx(literal["loss"], rel=1e-4)
    assert found["measures"].keys() == literal["measures"].keys()
    for name, value in literal["measures"].items():
        assert found["measures"][name] == pytest.approx(value, rel=1e-2), name


def test_the_same_units_drop():
    task = TASKS["dense"]()

    def build():
        from fedfleet.tasks.dropout import AddressedDropout

        inner = task.build()
        return nn.Sequential(inner, AddressedDropout(0.5, 3))

    init = lambda seed: {f"0.{n}": v for n, v in task.init(seed).items()}  # noqa: E731
    dropping = replace(task, build=build, init=init)
    (case,) = [c for c in cases(dropping) if c.name == "plain"]
    for a, b in zip(inline(dropping).train(case.jobs), numpy_executor(dropping).train(case.jobs), strict=True):
        for name, value in a.update.items():
            np.testing.assert_allclose(b.update[name], value, rtol=1e-3, atol=1e-6)


def test_a_loss_of_ones_own_is_refused():
    task = replace(TASKS["dense"](), loss=object())
    with pytest.raises(BadInput, match="this task brings its own"):
        numpy_executor(task)


# ---- devices ------------------------------------------------------------------------------------------------------

CHILD = """
import pickle, sys
sys.modules["torch"] = None
from pathlib import Path
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.network.device.client_runtime import Assignment, train_task
config, data, model = pickle.loads(Path(sys.argv[1]).read_bytes())
runtime = build_client_runtime(config, Path(data), engine="numpy")
result = train_task(runtime, Assignment(5), model, {})
heavy = [name for name in ("scipy", "numba", "sklearn", "pandas") if name in sys.modules]
sys.stdout.buffer.write(pickle.dumps((result.payload, result.weight, dict(result.stats), heavy)))
"""


def own_samples(folder, setup):
    path = folder / "own.npz"
    np.savez(path, x=setup.task.dataset.x[:60], y=setup.task.dataset.y[:60])
    return path


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fedper"])
def test_a_device_without_pytorch_trains_the_bits_of_one_that_simulates(algorithm, tmp_path):
    setup = assemble(resolve(table(algorithm, {"use": "digits_cnn", "channels": 2})))
    config, data = client_config_for(setup, 0, brings_own=True), own_samples(tmp_path, setup)
    plan = setup.plan
    offer = offer_to_bytes(plan.algorithm.offer(plan.algorithm.init(plan.params), 0, {}))
    (tmp_path / "work").write_bytes(pickle.dumps((config, str(data), offer)))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "work"], env=environment, capture_output=True, check=True)
    payload, weight, stats, heavy = pickle.loads(out.stdout)
    numpy_executor(setup.task)  # one thread for products of matrices, as on the device
    here = train_task(build_client_runtime(config, data, engine="numpy"), Assignment(5), offer, {})
    assert (payload, weight, stats, heavy) == (here.payload, here.weight, dict(here.stats), [])


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [("fedkd", "objective of fedkd is written for PyTorch"), ("heterofl", "slices of the model|builds the model .* with PyTorch")],
)
def test_a_method_that_numpy_devices_cannot_train_is_refused_by_name(algorithm, says, tmp_path):
    setup = assemble(resolve(table(algorithm, {"use": "digits_mlp"})))
    with pytest.raises(BadInput, match=says):
        build_client_runtime(client_config_for(setup, 0, brings_own=True), own_samples(tmp_path, setup), engine="numpy")


@pytest.mark.filterwarnings("ignore")
def test_served_numpy_devices_give_the_model_of_the_simulation(tmp_path):
    spec = table("fedavg", "digits_mlp", run={"execute": "numpy"}, pace={"cohort": 4, "t_break": 0.01}, world={"clients": 4})
    address, results = free_address(), {}

    def attend(client):
        store, line = DeviceStore(tmp_path / f"device{client}"), Connection(address, None)
        make = lambda sheet, fetch: build_client_runtime(sheet, None, fetch, engine="numpy")  # noqa: E731
        results[client] = Device(line, store, DeviceOptions(client=client), make, str).run()
        line.close()
        store.close()

    devices = [threading.Thread(target=attend, args=(c,), daemon=True) for c in range(4)]
    for device in devices:
        device.start()
    options = ServeOptions(address=address, devices=4, transmitters=0, quiet=True)
    served = serve_run(resolve(spec), tmp_path / "served", options, AccessOptions())
    for device in devices:
        device.join(30)
    simulated = fedfleet.run(spec, out=tmp_path / "simulated")
    assert len(results) == 4 and served.metrics["accuracy"] == simulated.metrics["accuracy"]
    assert (tmp_path / "served/model.safetensors").read_bytes() == (tmp_path / "simulated/model.safetensors").read_bytes()
    assert {"models", "scores", "losses"} <= set(fedfleet.replay(tmp_path / "simulated")["verified"])
    assert torch.get_num_threads() >= 1
