"""`fedfleet serve` and `fedfleet device` as two people use them."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.assemble.client_config import client_config_for
from fedfleet.app.assemble.device_runtime import build_client_runtime
from fedfleet.app.spec import resolve
from fedfleet.network.device.client_runtime import Assignment, train_task
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import offer_to_bytes
from tests.app.runs.test_served_run import ROUNDS
from tests.app.specs import refused, written
from tests.network.device.fake import Fake
from tests.network.operations.test_status import GOOD, answering
from tests.processes import start as start_forked

pytestmark = pytest.mark.slow


def test_a_server_and_its_devices_finish_a_run_with_a_report(tmp_path):
    command = "fedfleet.app.cli.main"
    words = ["serve", written(tmp_path, ROUNDS), "--address", "127.0.0.1:0", "--out", tmp_path / "out", "--json"]
    said = tmp_path / "server.err"
    with said.open("w") as err:
        server = start_forked(command, *words, stdout=subprocess.PIPE, stderr=err, text=True)
    started = [server]
    try:
        until = time.monotonic() + 120
        while not (result := re.search(r"listening on (\S+)", said.read_text())):
            assert server.poll() is None and time.monotonic() < until, said.read_text()
            time.sleep(0.02)
        for client in range(2):
            device = ["device", "--server", result[1], "--client", client, "--store", tmp_path / f"d{client}"]
            started.append(start_forked(command, *device, stdout=subprocess.PIPE, text=True))
        answers = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait(10)
    assert [process.returncode for process in started] == [0, 0, 0]
    assert json.loads(answers[0])["commits"] == 2
    assert [re.match(r"client \d finished 2 tasks", said) is not None for said in answers[1:]] == [True, True]
    assert (tmp_path / "out/report.html").is_file()


def test_what_cannot_be_served_is_refused(fedfleet, tmp_path):
    spec = written(tmp_path, ROUNDS)
    refused(fedfleet("serve", spec, "--address", "nowhere"), "HOST:PORT")
    refused(fedfleet("serve", tmp_path / "none.toml"), "no spec file")
    refused(fedfleet("serve", spec, "--devices", 3), "3 devices")
    refused(fedfleet("serve", spec, "--address", "0.0.0.0:0"), "without TLS")
    refused(fedfleet("serve", spec, "--certificate", tmp_path / "none.pem"), "--key")
    refused(fedfleet("serve", spec, "--evaluate", "nobody"), "server, devices or both")
    refused(fedfleet("serve", spec, "--resume", "--out", tmp_path / "typo"), "there is no folder")
    assert not (tmp_path / "typo").exists()


def test_check_says_whether_a_spec_can_be_served_and_starts_nothing(fedfleet, tmp_path):
    spec = written(tmp_path)
    code, out, _ = fedfleet("serve", spec, "--check", "--json")
    answer = json.loads(out)
    assert code == 0 and answer["ok"] and answer["numpy"] is None and answer["least"] <= answer["devices"]
    assert not (tmp_path / "runs").exists()
    code, out, _ = fedfleet("serve", spec, "algorithm.use=fedkd", "--check", "--json")
    assert code == 0 and "objective of fedkd is written for PyTorch" in json.loads(out)["numpy"]
    refused(fedfleet("serve", spec, "algorithm.use=centralized", "--check"), "trains on all clients' data in one place")
    code, out, _ = fedfleet("run", spec, "algorithm.use=centralized", "--check", "--json")
    assert code == 0 and "one place" in json.loads(out)["served"]


@pytest.fixture
def fake():
    server = Fake()
    yield server
    server.stop()


@pytest.fixture
def start(fake, tmp_path):
    """Start a device process; whatever is left of them is ended."""
    children = []

    def begin(*words):
        command = [
            sys.executable,
            "-m",
            "fedfleet.app.cli.main",
            "device",
            "--server",
            fake.address,
            "--store",
            tmp_path / "store",
        ]
        child = subprocess.Popen([*map(str, command), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield begin
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate()


def wait_for(ready, seconds=60.0):
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def megabytes(pid, what):
    return int(re.search(rf"^{what}:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is told by /proc")
def test_a_device_that_waits_is_light_and_stops_politely(fake, start):
    fake.idle = 0.05
    child = start()
    wait_for(lambda: fake.calls.count("Check") > 5)
    assert megabytes(child.pid, "Pss") < 60 and megabytes(child.pid, "Rss") < 60
    libraries = Path(f"/proc/{child.pid}/maps").read_text()
    assert not [name for name in ("torch", "scipy", "pandas", "numba", "numpy") if f"/{name}" in libraries]
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0 and fake.left == 1
    assert "client 4 finished 0 tasks" in out and "stopped" in out
    assert err.splitlines() == [
        f"fedfleet: enrolled at {fake.address} as client 4 of tiny; waiting for work",
        "fedfleet: stopping: taking leave of the server",
    ]


def test_an_interrupted_device_takes_its_leave(fake, start):
    fake.idle = 5.0
    child = start("--json")
    wait_for(lambda: "Check" in fake.calls)
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and fake.left == 1 and "interrupted" in err


@pytest.mark.slow
def test_a_killed_device_hands_in_the_same_bytes(fake, start):
    """With torch and a real sheet: the report that was ready when the process died is the one that a simulation makes."""
    setup = assemble(
        resolve(
            {
                "task": {"use": "digits_logreg"},
                "algorithm": {"use": "scaffold"},
                "world": {"clients": 6},
                "pace": {"cohort": 2},
            }
        )
    )
    fake.sheet = client_config_for(setup, 4)
    server = setup.plan.algorithm.init(setup.plan.params)
    offer = offer_to_bytes(setup.plan.algorithm.offer(server, 4, {}))
    fake.give(offer, task=5)
    fake.failures.extend([("Hand", grpc.StatusCode.UNAVAILABLE)] * 10_000)
    child = start()
    wait_for(lambda: "Hand" in fake.calls, 60)
    child.kill()
    child.wait()
    assert not fake.reports
    fake.failures.clear()
    again = start("--json")
    out, err = again.communicate(timeout=60)
    assert json.loads(out) == {"client": 4, "tasks": 1, "declined": 0, "reason": "that was all"}
    assert "which was ready before" in err
    ((head, payload),) = fake.reports
    want = train_task(build_client_runtime(fake.sheet), Assignment(5), offer, {})
    assert payload == want.payload and head.weight == want.weight and dict(head.stats) == dict(want.stats)
    assert head.resources.peak_memory_bytes > 50e6 and head.resources.samples == head.stats["samples"]


def test_own_samples_are_announced_and_stay_at_home(fake, start, tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((10, 64), np.float32), y=np.arange(10) % 3)
    child = start("--data", tmp_path / "mine.npz", "--token", "invited")
    assert child.wait(timeout=60) == 0
    (asked,) = fake.enrolments
    assert (asked.data, asked.samples, asked.test_samples, asked.token) == ("mine.npz", 8, 2, "invited")


def test_wrong_use_is_answered_in_one_sentence(fedfleet, fake, tmp_path, monkeypatch):
    store = ("--store", tmp_path / "s")
    refused(fedfleet("device", "--server", "nowhere", *store), "HOST:PORT")
    refused(fedfleet("device", "--server", "example.org:5", *store), "without TLS would expose the device's secret")
    refused(fedfleet("device", "--server", "127.0.0.1:1", "--patience", 0.1, *store), "no server answers at 127.0.0.1:1")
    refused(fedfleet("device", "--server", fake.address, "--token", "bad", *store), "the token is unknown")
    refused(fedfleet("device", "--server", fake.address, "--data", tmp_path / "none", *store), "does not exist")
    refused(
        fedfleet("device", "--server", fake.address, "--token", "x", "--token-file", "y", *store),
        "--token and --token-file",
    )
    refused(fedfleet("device", "--server", fake.address, "--token-file", tmp_path / "no", *store), "there is no file")
    refused(fedfleet("device", "--server", fake.address, "--key", tmp_path / "no", *store), "--certificate")
    fake.failures.extend([("Enrol", grpc.StatusCode.FAILED_PRECONDITION, "this server speaks protocol 9")] * 3)
    refused(fedfleet("device", "--server", fake.address, *store), "speaks protocol 9")


def test_a_token_need_not_be_on_the_command_line(fedfleet, fake, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("from a file\n")
    words = ("device", "--server", fake.address, "--store", tmp_path / "s", "--json")
    code, out, _ = fedfleet(*words, "--token-file", tmp_path / "token")
    assert code == 0 and json.loads(out)["reason"] == "that was all"
    monkeypatch.setenv("FEDFLEET_TOKEN", "from the environment")
    fedfleet(*words)
    assert [e.token for e in fake.enrolments] == ["from a file", "from the environment"]


def test_caps_reach_the_device(fedfleet, fake, tmp_path):
    fake.give(b"x" * 100, kind=pb.PROBE)
    words = ("device", "--server", fake.address, "--store", tmp_path / "s", "--max-bytes", 50, "--json")
    fake.sheet = client_config_for(
        assemble(resolve({"task": {"use": "digits_logreg"}, "world": {"clients": 6}, "pace": {"cohort": 2}})), 4
    )
    _, out, _ = fedfleet(*words)
    assert json.loads(out)["declined"] == 1
    assert "100 bytes, and this device takes 50" in fake.declined[0][0].declined


def test_the_contract(fedfleet):
    with answering(GOOD.SerializeToString()) as address:
        code, out, _ = fedfleet("status", address, "--json")
        assert code == 0
        assert {"run", "round", "version", "devices_online", "running", "waiting_for", "uptime_seconds"} <= json.loads(out).keys()
        assert "waiting for client 7" in fedfleet("status", address)[1]


def test_wrong_use_is_one_sentence(fedfleet, tmp_path):
    refused(fedfleet("status", "nowhere"), "HOST:PORT")
    refused(fedfleet("status", "127.0.0.1:1", "--ca", tmp_path / "none"), "none")
    refused(fedfleet("status", "127.0.0.1:1", "--token", "a", "--token-file", tmp_path), "--token and --token-file")
    code, out, err = fedfleet("status", "127.0.0.1:1")
    assert (code, out) == (1, "") and err.startswith("fedfleet: ") and "127.0.0.1:1;" in err and err.count("\n") == 1


def test_the_server_is_named_as_device_names_it(fedfleet):
    assert fedfleet("status", "--server", "127.0.0.1:1")[0] == fedfleet("status", "127.0.0.1:1")[0] == 1
    refused(fedfleet("status", "127.0.0.1:1", "--server", "127.0.0.1:2"), "--server")
