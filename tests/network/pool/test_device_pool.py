"""The pool's loop around a server that the test plays: deaths, restarts and their limit, states, and the order to the relay."""

import json
import os
import signal
import time
from contextlib import closing, suppress

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.core.rng import client_keys
from fedfleet.executors.child_process import Child
from fedfleet.network.pool.availability import Changes
from fedfleet.network.pool.cgroups import PoolGroups
from fedfleet.network.pool.device_limits import FleetLimits
from fedfleet.network.pool.device_pool import Pool, PoolPlan, relay_order
from fedfleet.network.pool.processes import MARK, pool_processes
from fedfleet.network.pool.restart_rule import RestartRule
from fedfleet.world.devices import homogeneous

# A template whose devices do what their number says: 0 works for ever, 1 always fails, 2 gives up, 3 finishes.
DEVICES = """
import os, time
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
from fedfleet.network.pool.template import run_template

def be_device(order, emit):
    number = order["device"]
    if number == 0:
        emit({"event": "turn", "client": 0, "task": 7})
        time.sleep(600)
    return (0, 1, 3, 0)[number]

run_template(lambda first: None, be_device)
"""


class Server:
    """Ends when the test has seen what it waits for."""

    def __init__(self, done):
        self.done, self.until = done, time.monotonic() + 120

    def poll(self):
        assert time.monotonic() < self.until, "the pool did not do what the test waits for"
        return 0 if self.done() else None


class Script:
    """States that the test decides."""

    constant = False

    def __init__(self, *looks):
        self.looks = list(looks)

    def look(self, seconds):
        what = self.looks.pop(0) if self.looks else {}
        return Changes(*(np.array(what.get(name, ()), np.int64) for name in ("online", "offline", "crashed")))


@pytest.fixture
def make_pool(tmp_path, monkeypatch):
    monkeypatch.setenv(MARK, f"{os.getpid()}-supervisor")
    (tmp_path / "devices.py").write_text(DEVICES)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))

    def make(devices, **rule):
        limits = FleetLimits(homogeneous()(client_keys(devices), 0), devices)
        plan = PoolPlan(tmp_path, ("127.0.0.1", 9), [[c] for c in range(devices)], limits, RestartRule(**rule), 0.2)

        def template(inbox):
            return Child("devices", {"any": 1}, inbox=inbox)

        return closing(Pool(plan, PoolGroups(None, None, {}), template))

    yield make
    assert pool_processes(f"{os.getpid()}-supervisor") == []


def rows(tmp_path, event):
    lines = (tmp_path / "pool.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["event"] == event]


@pytest.mark.slow
def test_deaths_are_followed_by_restarts_up_to_the_limit_and_decisions_are_not(make_pool, tmp_path):
    with make_pool(4, first=0.01, longest=0.02, limit=2) as pool:
        assert pool.run(Server(lambda: pool.journal.devices[1].state == "down"), Script()) == 0
        states = {row["device"]: (row["state"], row["starts"], row["restarts"]) for row in pool.rows()}
        assert pool.link_bytes() == [[0, 0]] * 4
    assert states[1] == ("down", 3, 2)
    assert states[2] == ("gave up", 1, 0)
    assert states[3] == ("finished", 1, 0)
    assert [row["restart_in"] for row in rows(tmp_path, "died") if row["device"] == 1] == [0.01, 0.02, None]
    assert {row["reason"] for row in rows(tmp_path, "died") if row["device"] == 1} == {"exit code 1"}


@pytest.mark.slow
def test_a_device_that_is_killed_starts_again(make_pool, tmp_path):
    def kill_the_first():
        started = rows(tmp_path, "started")
        if len(started) == 1:
            with suppress(ProcessLookupError):
                os.kill(started[0]["pid"], signal.SIGKILL)
        return len(started) == 2

    with make_pool(1, first=0.01) as pool:
        assert pool.run(Server(kill_the_first), Script()) == 0
    assert next(row["reason"] for row in rows(tmp_path, "died")) == "killed by SIGKILL"


@pytest.mark.slow
def test_states_freeze_and_thaw_and_a_crash_is_no_death_of_its_own(make_pool, tmp_path):
    looks = [{"offline": [0]}, {}, {}, {"online": [0]}, {}, {"offline": [0], "crashed": [0]}, {}, {}, {"online": [0]}]
    with make_pool(1, limit=0) as pool:  # with this rule any death that counts would be the last
        assert pool.run(Server(lambda: pool.journal.devices[0].starts == 2), Script(*looks)) == 0
        assert pool.rows()[0]["deaths"][0] == "crashed, as a fault of the fleet"
    events = [e for e in ("frozen", "thawed", "crashed", "online", "offline") for _ in rows(tmp_path, e)]
    assert [events.count(e) for e in ("crashed", "online", "offline")] == [1, 2, 2]
    assert events.count("frozen") == events.count("thawed") <= 1


@pytest.mark.slow
@pytest.mark.parametrize("helper", ["_relay", "_controller"])
def test_a_pool_without_its_relay_or_controller_fails(make_pool, helper):
    with make_pool(1) as pool:
        os.kill(getattr(pool, helper).pid, signal.SIGKILL)
        with pytest.raises(RunFailed, match=r"ended \(killed by SIGKILL\), so its devices have no limits now"):
            pool.run(Server(lambda: False), Script())


class RefusedGroup:
    """A control group that the kernel takes no limit for."""

    cpu = "somewhere"
    join_files = ()

    def set_share(self, share):
        raise OSError(22, "Invalid argument")

    def set_memory(self, nbytes):
        raise OSError(16, "Device or resource busy")

    def oom_kills(self):
        return 0


@pytest.mark.slow
def test_a_limit_that_the_kernel_refuses_is_in_the_report(make_pool):
    with make_pool(1) as pool:
        pool._slots[0].group = RefusedGroup()
        assert pool.run(Server(lambda: pool.journal.devices[0].starts == 1), Script()) == 0
        assert "Invalid argument" in pool.problems["cpu"]
        assert "lower --cores" in pool.problems["cpu"]


def test_the_relay_is_told_the_link_of_each_client(tmp_path):
    limits = FleetLimits(homogeneous(mbps=8.0, up_mbps=4.0)(client_keys(2), 0), 2)
    order = relay_order(PoolPlan(tmp_path, ("127.0.0.1", 7), [[0], [1]], limits))
    assert order == {"server": ["127.0.0.1", 7], "links": [{"up": 500_000.0, "down": 1_000_000.0, "delay": 0.0}] * 2}
