"""How a device is started: where it remembers, how it calls, how it is stopped."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.device.client_loop import Stopped, Wishes
from fedfleet.network.device.device_process import (
    Here,
    Trust,
    credentials_of,
    run_device,
    stopping,
    usual_store,
    with_samples,
)
from tests.network.device.fake import toy_kit


def test_a_device_that_was_stopped_says_what_it_did(fake, tmp_path):
    fake.give({"w": np.ones(3, np.float32)})
    fake.idle, said = 30.0, []

    def say(text):
        said.append(text)

    def kit(sheet, own, fetch):
        assert own is None
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        return toy_kit()

    before = signal.signal(signal.SIGALRM, lambda *a: os.kill(os.getpid(), signal.SIGTERM))
    try:
        did = run_device(fake.address, Here(tmp_path / "s"), Wishes(), kit, say)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert did == {"client": 4, "tasks": 1, "declined": 0, "reason": "stopped"}
    assert fake.left == 1 and said[-1] == "stopping: taking leave of the server"


def test_signals_are_as_before_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with stopping(), pytest.raises(Stopped):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_each_server_and_client_has_its_own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one = usual_store("127.0.0.1:5", None)
    assert one == tmp_path / "fedfleet/devices/127.0.0.1-5"
    assert len({one, usual_store("127.0.0.1:5", 3), usual_store("[::1]:5", 3), usual_store("127.0.0.1:6", 3)}) == 4
    monkeypatch.delenv("XDG_STATE_HOME")
    assert usual_store("h:1", 0).is_relative_to(Path.home())


def test_own_samples_are_counted_before_anybody_is_called(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((5, 2)), y=np.zeros(5, int))
    found = with_samples(Wishes(token="t"), tmp_path / "a.npz")
    assert (found.data, found.samples, found.test_samples, found.token) == ("a.npz", 4, 1, "t")
    assert with_samples(Wishes(), None) == Wishes()


def test_no_secret_crosses_a_network_in_the_open(tmp_path):
    assert credentials_of("127.0.0.1:5", Trust()) is None
    with pytest.raises(BadInput, match="without TLS"):
        credentials_of("192.0.2.1:5", Trust())
    assert credentials_of("192.0.2.1:5", Trust(tls=True)) is not None
