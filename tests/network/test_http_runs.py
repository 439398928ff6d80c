"""Served over HTTP, over gRPC or over both: the same spec ends with the model of its simulation, bit for bit."""

import threading

import pytest

from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.runs import perform
from fedfleet.app.runs.served_run import AccessOptions, serve_run
from fedfleet.app.spec import resolve
from fedfleet.core.events import ModelCommitted
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_process import Trust, line_to
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.server.options import ServeOptions
from tests.network.fleets import METHODS, fleet
from tests.network.harness import PATIENT, free_address

pytestmark = pytest.mark.slow

CLIENTS = 4
SPEC = {
    "seed": 5, "task": {"use": "digits_mlp", "hidden": 16}, "algorithm": {"use": "fedavg"},
    "world": {"clients": CLIENTS, "data": {"use": "dirichlet", "alpha": 0.5}},
    "pace": {"use": "readiness", "cohort": CLIENTS, "t_break": 0.05, "min_clients": 1}, "stop": {"rounds": 2},
}  # fmt: skip


def attend(server, folder, client, engine, results):
    store, line = DeviceStore(folder / f"device{client}"), line_to(server, Trust())
    try:
        make = lambda config, fetch: build_client_runtime(config, None, fetch, engine=engine)  # noqa: E731
        results[client] = Device(line, store, DeviceOptions(client=client), make, str).run()
    finally:
        line.close()
        store.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("engine", "over"),
    [
        ("numpy", ["http", ""]),
        pytest.param("numpy", ["http"], marks=pytest.mark.soak),
        pytest.param("torch", ["http"], marks=pytest.mark.soak),
    ],
    ids=["numpy, half of them over gRPC", "numpy", "torch"],
)
def test_devices_over_http_give_the_model_of_the_simulation(engine, over, tmp_path):
    spec = resolve({**SPEC, "run": {"execute": "numpy" if engine == "numpy" else "inline", "threads": 1}})
    address, http, results = free_address(), free_address(), {}
    urls = {"http": f"http://{http}", "": address}
    devices = [
        threading.Thread(target=attend, args=(urls[over[c % len(over)]], tmp_path, c, engine, results), daemon=True)
        for c in range(CLIENTS)
    ]
    for device in devices:
        device.start()
    options = ServeOptions(address=address, http=http, devices=CLIENTS, transmitters=0, quiet=True)
    served = serve_run(spec, tmp_path / "served", options, AccessOptions())
    for device in devices:
        device.join(PATIENT)
    simulated = perform(spec, tmp_path / "simulated")
    assert {client: result.tasks for client, result in results.items()} == dict.fromkeys(range(CLIENTS), 2)
    assert (served.out / "model.safetensors").read_bytes() == (simulated.out / "model.safetensors").read_bytes()


@pytest.mark.soak
@pytest.mark.parametrize("method", METHODS)
def test_a_mixed_fleet_ends_as_its_simulation_does_although_everything_is_killed(method, tmp_path):
    """Half of the devices over HTTP, half over gRPC; a frontend is killed, then the whole server."""
    http = free_address()
    with fleet(tmp_path, METHODS[method], clients=8, rounds=5) as made:
        words = ("--devices", "8", "--patience", "120", "--http", http)
        made.serve(*words)
        made.place.await_listening()  # a device that never heard of its server would not wait for it for long
        made.start(0, 2, 4, 6)
        made.start(1, 3, 5, 7, server=f"http://{http}")
        made.place.await_event(ModelCommitted, seconds=3 * PATIENT)
        made.place.kill_transmitter(0)
        made.place.kill_everything()
        made.serve(*words, resume=True)
        assert made.place.ended(3 * PATIENT) == 0, made.said()
        assert made.place.last_model() == made.simulated()


@pytest.mark.soak
def test_a_device_over_http_outlives_its_server(tmp_path):
    """Killed with all its processes in the middle of a run, the server goes on where it was, and so does the device."""
    http = free_address()
    with fleet(tmp_path, METHODS["fedavg"], clients=2, rounds=12) as made:
        words = ("--devices", "2", "--patience", "120", "--transmitters", "1", "--http", http)
        made.serve(*words)
        made.place.await_listening()
        made.start(0, 1, server=f"http://{http}")
        made.place.await_event(ModelCommitted, 3, seconds=3 * PATIENT)
        made.place.kill_transmitter(0)
        made.place.await_event(ModelCommitted, 5, seconds=3 * PATIENT)
        made.place.kill_everything()
        made.serve(*words, resume=True)
        assert made.place.ended(3 * PATIENT) == 0, made.said()
        assert made.place.last_model() == made.simulated()
        assert made.devices[0].wait(PATIENT) == 0
