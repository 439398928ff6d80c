"""Kills of servers and devices in runs that really train: they end with the model of the simulation, bit for bit."""

import os
import signal
import subprocess

import pytest

from fedfleet.core.events import ModelCommitted, TaskArrived, TaskLost
from tests.network.fleets import METHODS, end, fleet
from tests.network.harness import PATIENT, ROOT, wait_for
from tests.network.proving import complaints
from tests.processes import start
from tests.worlds import only

pytestmark = pytest.mark.slow

WAITS = ("--devices", "4", "--patience", "120")


def killed_while_devices_train(kind, folder):
    """With memory of clients (SCAFFOLD's variates), which must advance exactly with what was folded."""
    with fleet(folder, METHODS["scaffold"], clients=4, rounds=5) as made:
        made.serve(*WAITS)
        made.start(0, 1, 2, 3)
        made.place.await_event(ModelCommitted, 2, seconds=2 * PATIENT)
        made.place.await_event(TaskArrived, 10)  # in the middle of the third round
        match kind:
            case "processor":
                made.place.kill_processor()
                made.serve(*WAITS, resume=True)
            case "transmitter":
                made.place.kill_transmitter(0)
            case _:
                made.place.kill_everything()
                made.serve(*WAITS, resume=True)
        assert made.place.ended(2 * PATIENT) == 0, made.said()
        assert complaints(made.place.events()) == []
        assert made.place.last_model() == made.simulated()


@pytest.mark.slow
def test_a_server_that_is_killed_while_devices_train_ends_with_the_same_bits(tmp_path):
    killed_while_devices_train("whole server", tmp_path)


@pytest.mark.soak
def test_a_device_that_is_killed_while_it_trains_comes_back_and_changes_no_bit(tmp_path):
    with fleet(tmp_path, METHODS["scaffold"], clients=4, rounds=4) as made:
        made.serve(*WAITS)
        killed = made.start(3)
        made.start(0, 1, 2)
        for round in range(3):  # one SIGKILL in each, at whatever it does then
            made.place.await_event(TaskArrived, 4 * round + 1, seconds=2 * PATIENT)
            killed.send_signal(signal.SIGKILL)
            killed.wait(10)
            killed = made.start(3)
        assert made.place.ended(2 * PATIENT) == 0, made.said()
        events = made.place.events()
        assert complaints(events) == []
        assert only(TaskLost, events) == []
        assert made.place.last_model() == made.simulated()


@pytest.mark.soak
def test_a_device_that_never_comes_back_costs_its_lease(tmp_path):
    with fleet(tmp_path, METHODS["fedavg"], clients=4, rounds=3) as made:
        made.serve("--devices", "4", "--patience", "3", "--lease", "20")  # a busy machine takes some seconds to load torch
        made.start(0, 1, 2)
        gone = made.start(3)
        made.place.await_event(ModelCommitted, 1, seconds=2 * PATIENT)
        end([gone])
        assert made.place.ended(2 * PATIENT) == 0, made.said()
        events = made.place.events()
        assert complaints(events) == []
        assert {e.client for e in only(TaskLost, events)} <= {3}
        assert len(only(ModelCommitted, events)) == 3


@pytest.mark.slow
def test_a_device_takes_its_leave_when_it_is_asked_to_stop(tmp_path):
    with fleet(tmp_path, METHODS["fedavg"], clients=4, rounds=2) as made:
        made.serve("--devices", "4", "--patience", "120")
        made.place.await_listening()
        words = ["device", "--server", made.place.address, "--client", "0", "--store", tmp_path / "own"]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        with (tmp_path / "own.err").open("wb") as err:
            device = start("fedfleet.app.cli.main", *words, stdout=subprocess.DEVNULL, stderr=err, env=env, cwd=ROOT)
        made.devices.append(device)
        wait_for(lambda: "wait" in (tmp_path / "own.err").read_text(), "word of what it waits for", seconds=60)
        device.send_signal(signal.SIGTERM)
        assert device.wait(60) in (0, 130, 143)
        assert "Traceback" not in (tmp_path / "own.err").read_text()
