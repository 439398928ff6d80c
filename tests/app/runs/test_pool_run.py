"""Emulated fleets of real processes: they end with the model of the simulation whatever dies, and leave nothing behind."""

import json
import os
import signal
import time
import tomllib
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.runs import perform
from fedfleet.app.runs.pool_run import cores_as_declared, pool_warnings
from fedfleet.app.spec import load_spec, resolve
from fedfleet.core.events import TaskLost
from fedfleet.core.trees import content_hash
from fedfleet.network.pool.client_allocation import allocate_clients
from fedfleet.network.pool.device_limits import DeviceLimits, FleetLimits
from fedfleet.network.pool.processes import MARK
from fedfleet.store import journal
from fedfleet.store.files import load_tree
from tests.processes import start

ROOT = Path(__file__).parents[3]
PATIENT = 120.0
SPEC = """
seed = 5
[task]
use = "{task}"
[world]
clients = 4
data = {{ use = "dirichlet", alpha = 0.5 }}
{world}
[algorithm]
use = "{algorithm}"
[pace]
use = "readiness"
cohort = {cohort}
t_break = {t_break}
min_clients = 1
{pace}
[stop]
rounds = {rounds}
[run]
execute = "numpy"
"""


class Pool:
    """The command in a process of its own, with records of its own."""

    def __init__(self, folder, **changes):
        table = {"task": "digits_logreg", "world": "", "algorithm": "fedavg", "cohort": 4, "t_break": 0.05, "pace": "", "rounds": 3}
        self.folder, self.out, self.spec = folder, folder / "pool", folder / "spec.toml"
        self.spec.write_text(SPEC.format(**table | changes))
        tomllib.loads(self.spec.read_text())
        self.process = None

    def start(self, *words, out=None):
        env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(self.folder / "state"), "OMP_NUM_THREADS": "1"}
        given = ["pool", self.spec, "--json", "--cores", "0.5", "--out", out or self.out, *words]
        with (self.folder / "said.json").open("wb") as answer, (self.folder / "said.txt").open("ab") as said:
            self.process = start("fedfleet.app.cli.main", *given, env=env, stdout=answer, stderr=said, cwd=self.folder)
        return self

    def ended(self):
        return self.process.wait(2 * PATIENT)

    @property
    def said(self):
        files = [self.folder / "said.txt", *self.out.glob("*.log"), *self.out.glob("devices/*.log")]
        return "\n".join(f"{path}: {path.read_text()[-2000:]}" for path in files if path.exists())

    def events(self, *kinds):
        path = self.out / "pool.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [row for row in rows if row["event"] in kinds]

    def wait_for(self, what):
        deadline = time.monotonic() + PATIENT
        while not (result := what()):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)
        return result

    @property
    def report(self):
        return json.loads((self.out / "pool.json").read_text())

    @property
    def answer(self):
        return json.loads((self.folder / "said.json").read_text())

    def model(self):
        return content_hash(load_tree(self.out / "run" / "model.safetensors")[0])

    def simulated(self):
        out = self.folder / "simulated"
        perform(load_spec(self.spec, []), out)
        return content_hash(load_tree(out / "model.safetensors")[0])

    def left(self):
        """Processes whose environment names this pool's process."""
        wanted, result = f"{MARK}={self.process.pid}-".encode(), []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                words = (folder / "environ").read_bytes().split(b"\0") if folder.name.isdigit() else ()
                stat = (folder / "stat").read_text() if words else ""
                if any(word.startswith(wanted) for word in words) and stat.rpartition(")")[2].split()[0] not in ("Z", "X"):
                    result.append(int(folder.name))
        return result

    def records(self):
        return [*(self.folder / "state" / "fedfleet" / "pools").glob("*.json")]


@pytest.fixture
def pool(tmp_path):
    made = []

    def make(**changes):
        made.append(Pool(tmp_path, **changes))
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.mark.slow
def test_a_tiny_pool_ends_with_the_model_of_the_simulation_and_leaves_nothing(pool):
    emulated = pool().start()
    assert emulated.ended() == 0, emulated.said
    assert emulated.model() == emulated.simulated()
    assert emulated.left() == emulated.records() == []
    report, answer = emulated.report, emulated.answer
    assert answer["commits"] == 3
    assert answer["pool"]["tasks"] == len(report["tasks"]) == 12
    assert [device["state"] for device in report["devices"]] == ["finished"] * 4
    assert [device["clients"] for device in report["devices"]] == [[0], [1], [2], [3]]
    for task in report["tasks"]:
        assert task["end"] == "safe"
        assert task["began"] <= task["ended"] <= task["delivered"]
    for client in report["clients"]:  # what passed its relay is what its tasks count, and headers
        own = [task for task in report["tasks"] if task["client"] == client["client"]]
        assert client["link_bytes_down"] > sum(task["bytes_down"] for task in own) > 0
        assert client["link_bytes_up"] > sum(task["bytes_up"] for task in own) > 0


@pytest.mark.soak
def test_clients_that_take_turns_keep_their_own_state(pool):
    """With memory of clients: a process that plays two of them must not mix their control variates."""
    emulated = pool(algorithm="scaffold", rounds=4).start("--devices", "2")
    assert emulated.ended() == 0, emulated.said
    assert emulated.model() == emulated.simulated()
    assert [device["clients"] for device in emulated.report["devices"]] == allocate_clients(4, 2, 5)
    computed = sorted(
        (task["device"], task["began"], task["ended"]) for task in emulated.report["tasks"] if task["kind"] == "train"
    )
    for (device, _, ended), (other, began, _) in pairwise(computed):
        assert device != other or began >= ended  # one at a time


@pytest.mark.soak
def test_devices_that_are_killed_in_every_round_change_no_bit_of_the_model(pool):
    emulated = pool(algorithm="scaffold", rounds=4, t_break=0.3).start()
    killed = set()
    for round in range(4):
        emulated.wait_for(lambda: [row for row in emulated.events("task") if row["round"] >= round])  # noqa: B023
        alive = {row["device"]: row["pid"] for row in emulated.events("started")}
        victim = alive[round % 4]
        if victim not in killed:
            killed.add(victim)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
    assert emulated.ended() == 0, emulated.said
    assert emulated.model() == emulated.simulated()
    deaths = [row for row in emulated.events("died") if row["restart_in"] is not None]
    assert len(deaths) >= 2  # those of the last round may come too late
    assert {row["reason"] for row in deaths} == {"killed by SIGKILL"}
    assert sum(device["restarts"] for device in emulated.report["devices"]) >= 2


@pytest.mark.soak
def test_a_pool_that_is_killed_leaves_no_process_and_the_next_one_no_trace(pool):
    emulated = pool(rounds=100_000).start()
    emulated.wait_for(lambda: emulated.events("delivered"))
    assert len(emulated.left()) >= 8  # server, frontends, evaluator, relay, controller, template, devices
    emulated.process.kill()
    emulated.process.wait()
    deadline = time.monotonic() + PATIENT
    while emulated.left():
        assert time.monotonic() < deadline, emulated.left()
        time.sleep(0.05)
    assert len(emulated.records()) == 1
    groups = json.loads(emulated.records()[0].read_text())["groups"]
    killed = emulated.process.pid
    emulated.start("stop.rounds=1", out=emulated.folder / "next")
    assert emulated.ended() == 0, emulated.said
    assert emulated.process.pid != killed
    assert emulated.records() == []
    assert [group for group in groups if Path(group).is_dir()] == []


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pool_that_is_interrupted_stops_its_server_in_order(pool, number):
    emulated = pool(rounds=100_000).start()
    emulated.wait_for(lambda: emulated.events("delivered"))
    emulated.process.send_signal(number)
    assert emulated.ended() == 130, emulated.said
    assert emulated.left() == emulated.records() == []
    assert "what it acknowledged is on disk" in (emulated.out / "server.log").read_text()


@pytest.mark.soak
def test_a_pool_ends_when_its_minutes_are_over(pool):
    emulated = pool(rounds=100_000).start("--minutes", "0.2")
    assert emulated.ended() == 0, emulated.said
    assert "the time is up: stopping the server" in (emulated.folder / "said.txt").read_text()
    assert emulated.report["seconds"] > 0.0
    assert emulated.answer["stopped_by"] == "minutes"
    assert emulated.answer["commits"] >= 0
    assert emulated.left() == []


@pytest.mark.soak
def test_a_device_with_too_little_memory_declines_and_says_so(pool, tmp_path):
    kinds = [
        {"id": str(i), "down_kbps": [1e6], "up_kbps": [1e6], "seconds_per_sample": 0.05, "latency_ms": [0, 0], "memory_mb": mb}
        for i, mb in enumerate([500, 4, 500, 500])
    ]
    (tmp_path / "devices.json").write_text(json.dumps({"format": "fedfleet/devices@1", "devices": kinds}))
    world = f'devices = {{ use = "device_file", path = "{tmp_path}/devices.json" }}'
    emulated = pool(task='digits_mlp"\nhidden = 20000\n#', world=world, rounds=1).start()
    assert emulated.ended() == 0, emulated.said
    (declined,) = [task for task in emulated.report["tasks"] if task["declined"]]
    assert declined["client"] == 1
    assert declined["declined"].startswith("out of memory")
    lost = [e for e in journal.read(emulated.out / "run" / "run.db") if isinstance(e, TaskLost)]
    assert [e.client for e in lost] == [1]
    assert "out of memory" in lost[0].reason


@pytest.mark.soak
def test_clients_come_go_and_crash_as_the_fleet_says(pool, tmp_path):
    ready = [[[0, 19]], [[0, 5], [9, 19]], [[0, 19]], [[4, 19]]]
    states = [{"id": str(i), "start": 0, "end": 20, "ready": own} for i, own in enumerate(ready)]
    (tmp_path / "states.json").write_text(json.dumps({"format": "fedfleet/states@1", "states": states}))
    world = (
        f'states = {{ use = "state_file", path = "{tmp_path}/states.json" }}\n'
        'faults = { use = "crashes", rate = 0.5, seconds = 2.0, period = 8.0 }'
    )
    emulated = pool(world=world, cohort=2, t_break=0.3, rounds=30, pace="lease = 20").start("--patience", "5", "--lease", "20")
    assert emulated.ended() == 0, emulated.said
    offline = {row["client"]: row["seconds"] for row in reversed(emulated.events("offline"))}
    assert offline[3] < 4.0  # from the beginning
    assert emulated.events("frozen")
    assert emulated.events("thawed")
    crashed = emulated.events("crashed")
    assert crashed
    for row in crashed:  # whoever crashed is back later, or the run was over before
        later = [one for one in emulated.events("started") if one["device"] == row["device"] and one["seconds"] > row["seconds"]]
        assert later or row["seconds"] > emulated.report["seconds"] - 15.0
    assert emulated.left() == []


def test_the_cores_of_the_declared_speed_follow_from_what_tasks_took():
    tasks = [{"kind": "train", "cpu_seconds": 0.3 * n, "samples": 100 * n} for n in (1, 2, 3)]
    tasks += [{"kind": "evaluate", "cpu_seconds": 9.0, "samples": 1}, {"kind": "train", "cpu_seconds": 0.0, "samples": 0}]
    slow, fast = DeviceLimits(seconds_per_sample=0.1), DeviceLimits(seconds_per_sample=0.01)
    assert cores_as_declared(tasks, [slow, fast]) == pytest.approx(0.1)
    assert cores_as_declared(tasks, [DeviceLimits()]) is None
    assert cores_as_declared([], [fast]) is None


# ---- what is said before anything starts --------------------------------------------------------------------------------


def warnings_of(processes, *, cores=1.0, **world):
    pace = {"use": "readiness", "cohort": 6, "lease": 60.0}
    table = {"task": {"use": "digits_logreg"}, "world": {"clients": 6, **world}, "pace": pace}
    setup = assemble(resolve(table))
    return pool_warnings(setup, FleetLimits(setup.world.devices, 6, cores=cores).first, allocate_clients(6, processes, 0))


def test_shares_beyond_the_machine_are_named(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert warnings_of(6, cores=0.25) == []
    (warning,) = warnings_of(6, cores=1.0)
    assert "6.0 cores" in warning
    assert "this machine has 2" in warning


def test_clients_that_take_turns_are_named(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    (warning,) = warnings_of(2)
    assert warning.startswith("6 clients take turns on 2 processes")


def test_faults_that_are_not_emulated_are_named(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    (warning,) = warnings_of(6, faults={"use": "crashes", "rate": 0.1})
    assert "clients that are down" in warning
