"""A run over the network, with its server in this process and devices on threads."""

import copy
import socket
import threading
import tomllib

import pytest
from safetensors.numpy import load_file

from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.runs import perform
from fedfleet.app.runs.conditions import stored_conditions
from fedfleet.app.runs.folder_seals import verify_run
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.runs.served_run import AccessOptions, needs_bounds, serve_run
from fedfleet.app.spec import load_spec, resolve
from fedfleet.choose.baselines import fair
from fedfleet.choose.oort import oort
from fedfleet.choose.report_bounds import bounded
from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput, FedFleetError, RunFailed
from fedfleet.core.noise import add_noise
from fedfleet.core.trees import content_hash
from fedfleet.executors import gather
from fedfleet.network.device.client_loop import Device, DeviceOptions
from fedfleet.network.device.device_store import DeviceStore
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.server.options import ServeOptions
from fedfleet.store.noise_source import VARIABLE
from tests.app.runs.tampering import LIES, sql, tampered
from tests.app.specs import TINY, written
from tests.store.test_signatures import key_file

pytestmark = pytest.mark.slow

ROUNDS = TINY.replace("clients = 12", "clients = 2").replace("cohort = 4", "cohort = 2\nt_break = 0.01")
ROUNDS = ROUNDS.replace("rounds = 6", "rounds = 2")


def free_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def served(spec, folder, clients=2, key=None):
    """A run over loopback with devices on threads; and how many tasks each device did."""
    address, did = free_address(), {}

    def attend(client):
        store, line = DeviceStore(folder / f"device{client}"), Connection(address, None)
        did[client] = Device(
            line,
            store,
            DeviceOptions(client=client),
            lambda sheet, fetch: build_client_runtime(sheet, None, fetch),
            str,
        ).run()
        line.close()
        store.close()

    devices = [threading.Thread(target=attend, args=(c,), daemon=True) for c in range(clients)]
    for device in devices:
        device.start()
    options = ServeOptions(address=address, devices=clients, transmitters=1, quiet=True)
    done = serve_run(load_spec(spec), folder / "out", options, AccessOptions(), key=key)
    for device in devices:
        device.join(60)
    return done, {client: result.tasks for client, result in did.items()}


def test_a_served_run_fills_the_same_kind_of_folder(tmp_path, capsys):
    done, did = served(written(tmp_path, ROUNDS), tmp_path)
    assert "for 2 devices of 2 clients" in capsys.readouterr().err
    assert done.metrics["commits"] == 2
    assert did == {0: 2, 1: 2}
    assert {"spec.toml", "run.db", "model.safetensors", "metrics.json", "aggregates", "wire"} <= {
        p.name for p in done.out.iterdir()
    }
    assert done.out.stat().st_mode & 0o077 == 0
    result = replay_run(done.out)
    assert {"decisions", "models", "scores"} <= set(result["verified"])
    assert {"arrivals", "picks", "aggregates"} <= set(result["not_verified"])
    assert "only a signature shows" in result["because"]


@pytest.mark.parametrize("method", ["heterofl", "fjord"])
def test_slices_of_a_model_travel_and_give_the_models_of_a_simulation(method, tmp_path):
    spec = tomllib.loads(ROUNDS)
    spec |= {"task": {"use": "digits_mlp", "hidden": 16}, "algorithm": {"use": method, "widths": [0.5, 0.25]}}
    (tmp_path / "spec.toml").write_text(resolve(spec).toml())
    done = served(tmp_path / "spec.toml", tmp_path)[0]
    simulated = perform(resolve(spec), tmp_path / "simulated")
    assert done.metrics["commits"] == 2
    hashes = [content_hash(load_file(made.out / "model.safetensors")) for made in (done, simulated)]
    assert hashes[0] == hashes[1]


def test_of_a_served_run_a_forger_who_seals_anew_is_found_by_the_signature_alone(tmp_path):
    """Nobody can derive when a device's report came: only whose record it is can be known."""
    done, _ = served(written(tmp_path, ROUNDS), tmp_path, key=key_file(tmp_path))
    assert verify_run(done.out, tmp_path / "key.pub")["signed_by"]
    # Every arrival comes a little sooner, and all that follows fits.
    lie = sql(
        "UPDATE events SET a = a * 0.999, time = time - 1e-6 WHERE kind = 4 AND seq = (SELECT max(seq) FROM events WHERE kind = 4)"
    )
    forged = tampered(done.out, tmp_path / "forged", lie, sealed=True)
    assert replay_run(forged)["ok"] and "arrivals" in replay_run(forged)["not_verified"]
    with pytest.raises(RunFailed, match="is not signed"):
        verify_run(forged, tmp_path / "key.pub")
    for change in ("another model", "every accuracy is one", "another client is asked", "a better accuracy"):
        with pytest.raises(FedFleetError):  # what follows from its facts is derived all the same
            replay_run(tampered(done.out, tmp_path / change, LIES[change], sealed=True))
    with pytest.raises(FedFleetError):
        replay_run(tampered(done.out, tmp_path / "raw", lie, sealed=False), quick=True)


def test_a_served_private_run_keeps_noised_sums_and_is_replayed_without_its_secret(tmp_path, monkeypatch):
    pytest.importorskip("dp_accounting")
    seen, secret = [], tmp_path / "noise.key"
    secret.write_bytes(bytes(range(100, 140)))
    monkeypatch.setenv(VARIABLE, str(secret))
    monkeypatch.setattr(gather, "add_noise", lambda *given: seen.append(copy.deepcopy(given[1])) or add_noise(*given))
    private = ROUNDS + '[algorithm]\nprivate = { use = "tree", cohort = 2 }\n'
    done, _ = served(written(tmp_path, private), tmp_path)
    assert done.metrics["commits"] == 2 and done.answer()["privacy"]["noise_from"] == "secret"
    files = b"".join(p.read_bytes() for p in done.out.rglob("*") if p.is_file())
    assert secret.read_bytes() not in files
    assert len(seen) == 2 and all(v.tobytes() not in files for acc in seen for v in acc.sums[""].sums.values())
    monkeypatch.delenv(VARIABLE)
    assert {"decisions", "models", "scores"} <= set(replay_run(done.out)["verified"])


def test_a_server_that_cannot_listen_leaves_no_folder(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BadInput):
            serve_run(
                load_spec(written(tmp_path, ROUNDS)),
                tmp_path / "out",
                ServeOptions(address=address, devices=2),
                AccessOptions(),
            )
    assert not (tmp_path / "out").exists()


CODED = '[algorithm]\nup = ["int4", "gzip"]\ndown = [{ use = "int8", rounding = "stochastic" }]\n'


def test_a_served_run_sends_the_bytes_of_its_codecs_and_learns_what_a_simulation_does(tmp_path):
    spec = written(tmp_path, ROUNDS + CODED)
    done, _ = served(spec, tmp_path)
    simulated = perform(load_spec(spec, []), tmp_path / "simulated")
    assert done.metrics["bytes_up"] == simulated.metrics["bytes_up"] < 0.25 * 4 * 2600
    assert done.metrics["bytes_down"] == simulated.metrics["bytes_down"]
    assert (done.out / "model.safetensors").read_bytes() == (simulated.out / "model.safetensors").read_bytes()
    assert replay_run(done.out)["ok"]


def test_what_codecs_remember_stays_with_the_devices(tmp_path):
    spec = written(tmp_path, ROUNDS + CODED + "[[override]]\nclients = [1]\nalgorithm.feedback = true\n")
    done, _ = served(spec, tmp_path)
    simulated = perform(load_spec(spec, []), tmp_path / "simulated")
    assert (done.out / "model.safetensors").read_bytes() == (simulated.out / "model.safetensors").read_bytes()
    assert list((tmp_path / "device1" / "memory").iterdir())


def test_a_run_that_is_over_is_answered_again_and_a_simulation_is_not_taken_up(tmp_path):
    spec = written(tmp_path, ROUNDS)
    done, _ = served(spec, tmp_path)
    options = ServeOptions(address=free_address(), devices=2)
    again = serve_run(load_spec(spec), tmp_path / "out", options, AccessOptions(), resume=True)
    assert again.metrics["digest"] == done.metrics["digest"]
    with pytest.raises(BadInput, match="exists already"):
        serve_run(load_spec(spec), tmp_path / "out", options, AccessOptions())
    perform(load_spec(spec, []), tmp_path / "simulated")
    (tmp_path / "simulated" / "seal.json").unlink()
    with pytest.raises(BadInput, match="contains a simulation"):
        serve_run(load_spec(spec), tmp_path / "simulated", options, AccessOptions(), resume=True)


def test_a_served_selector_that_goes_by_reports_has_bounds_and_says_so(tmp_path, capsys):
    spec = tomllib.loads(ROUNDS) | {"choose": {"use": "oort"}}
    (tmp_path / "spec.toml").write_text(resolve(spec).toml())
    done = served(tmp_path / "spec.toml", tmp_path)[0]
    assert "'oort' goes by what devices report, so it runs with bounds" in capsys.readouterr().err
    assert stored_conditions(done.out).bounded and done.metrics["commits"] == 2
    assert "decisions" in replay_run(done.out)["verified"]


@pytest.mark.parametrize(
    ("choose", "trusts", "needed"),
    [
        (oort(), False, True),
        (oort(), True, False),
        (bounded(oort()), False, False),
        (uniform(), False, False),
        (fair(), False, False),
    ],
)
def test_bounds_are_put_around_what_goes_by_reports_and_has_none(choose, trusts, needed):
    assert needs_bounds(choose, ServeOptions(trust_reports=trusts)) is needed
