"""How a device is started: where it remembers, how it calls, how it is stopped."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.device.client_loop import DeviceOptions, Stopped
from fedfleet.network.device.device_process import (
    LocalSetup,
    Trust,
    credentials_of,
    default_store,
    run_device,
    stop_on_sigterm,
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
        did = run_device(fake.address, LocalSetup(tmp_path / "s"), DeviceOptions(), kit, say)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert did == {"client": 4, "tasks": 1, "declined": 0, "reason": "stopped"}
    assert fake.left == 1 and said[-1] == "stopping: taking leave of the server"


def test_signals_are_as_before_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_sigterm(), pytest.raises(Stopped):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_each_server_and_client_has_its_own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    one = default_store("127.0.0.1:5", None)
    assert one == tmp_path / "fedfleet/devices/127.0.0.1-5"
    assert len({one, default_store("127.0.0.1:5", 3), default_store("[::1]:5", 3), default_store("127.0.0.1:6", 3)}) == 4
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_store("h:1", 0).is_relative_to(Path.home())


def test_own_samples_are_counted_before_anybody_is_called(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((5, 2)), y=np.zeros(5, int))
    result = with_samples(DeviceOptions(token="t"), tmp_path / "a.npz")
    assert (result.data, result.samples, result.test_samples, result.token) == ("a.npz", 4, 1, "t")
    assert with_samples(DeviceOptions(), None) == DeviceOptions()


def test_no_secret_crosses_a_network_in_the_open(tmp_path):
    assert credentials_of("127.0.0.1:5", Trust()) is None
    with pytest.raises(BadInput, match="without TLS"):
        credentials_of("192.0.2.1:5", Trust())
    assert credentials_of("192.0.2.1:5", Trust(tls=True)) is not None
