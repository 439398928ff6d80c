"""A run over the network, with its server in this process and devices on threads."""

import socket
import threading

import pytest

from fedfleet.app.runs.network import run_device, serve_run
from fedfleet.app.runs.replay import replay_run
from fedfleet.core.errors import BadInput
from tests.app.specs import TINY, written

ROUNDS = TINY.replace("clients = 12", "clients = 2").replace("cohort = 4", "cohort = 2\nt_break = 0.01")
ROUNDS = ROUNDS.replace("rounds = 6", "rounds = 2")


def free_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_served_run_fills_the_same_kind_of_folder(tmp_path, capsys):
    address, answers = free_address(), {}

    def attend(client):
        answers[client] = run_device(address, client)

    devices = [threading.Thread(target=attend, args=(c,), daemon=True) for c in range(2)]
    for device in devices:
        device.start()
    done = serve_run(written(tmp_path, ROUNDS), [], tmp_path / "out", address, 2)
    for device in devices:
        device.join(20)
    assert f"listening on {address} for 2 devices" in capsys.readouterr().err
    assert done.metrics["commits"] == 2
    assert answers == {c: {"client": c, "tasks": 2} for c in range(2)}
    assert {"spec.toml", "run.db", "model.safetensors", "metrics.json", "aggregates"} <= {
        p.name for p in done.out.iterdir()
    }
    found = replay_run(done.out)
    assert {"decisions", "models", "scores"} <= set(found["verified"])
    assert {"arrivals", "picks", "aggregates"} <= set(found["not_verified"])
    assert "only a signature tells" in found["because"]


def test_a_server_that_cannot_listen_leaves_no_folder(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BadInput):
            serve_run(written(tmp_path, ROUNDS), [], tmp_path / "out", address, 2)
    assert not (tmp_path / "out").exists()
