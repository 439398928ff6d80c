"""Strikes outlive a kill: a device that sends what no honest one sends does not begin anew when the server does."""

from __future__ import annotations

import time
from pathlib import Path

import grpc
import numpy as np
import pytest

from fedfleet.core.errors import printable
from fedfleet.core.events import ReportRejected
from fedfleet.network.rules.peer_limits import Limits
from fedfleet.network.server.strikes import Fault, Strikes
from tests.network.bench import UNTIL_STOPPED, tree
from tests.network.harness import ground
from tests.network.puppet import PAUSE, Puppet, Status
from tests.network.scene import Scene, play
from tests.network.server.test_commit import opened
from tests.network.toys import Toy

MOST = int(Limits().strikes.burst)


def test_faults_and_strikes_are_read_again_and_those_of_ended_tasks_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "strikes.jsonl"
    first, kept, gone = Strikes(path), Fault(3, 0xFFFFFFFF, 64, "not finite"), Fault(4, 7, 64, "not finite")
    for fault in (kept, gone, kept):
        first.on_fault(fault)
    first.on_strikes([5, 5, 6], now=100.0)
    path.write_bytes(path.read_bytes() + b'["task", 9, ')  # torn by the kill
    again = Strikes(path)
    assert again.restore(lambda task: task == 3, now=100.0) == [kept, kept]
    assert again.client_levels(100.0) == [[5, MOST - 2.0], [6, MOST - 1.0]]
    assert again.client_levels(160.0) == [[5, MOST - 1.0]], "one cools in a minute of the run"
    assert len(path.read_text().splitlines()) == 4, "what is over is not kept"
    assert Strikes(path).restore(lambda task: True, now=1e6) == [kept, kept]
    assert Strikes(path).client_levels(1e6) == []


def test_no_strikes_no_file(tmp_path: Path) -> None:
    strikes = Strikes(tmp_path / "strikes.jsonl")
    assert strikes.restore(lambda task: True, 0.0) == [] and not list(tmp_path.iterdir())


@pytest.mark.parametrize("same_bytes", [False, True])
def test_a_killed_server_counts_the_tries_of_a_task_on(tmp_path: Path, same_bytes: bool) -> None:
    toy = Toy(clients=2, rounds=2)
    before = 1 if same_bytes else 2  # the same bytes twice end a task, other ones three times

    async def faulty(scene: Scene, task: int, crc: int) -> int:
        scene.claim(0, task, crc32c=crc, fault="it is not finite")
        await scene.turn()
        (grant,) = scene.grants(0)
        return grant.status

    async def act(scene: Scene) -> None:
        first, _ = await opened(scene, 2)
        for n in range(before):
            assert await faulty(scene, first, n) == Status.RETRY

    play(tmp_path, toy, act)

    async def resumed(scene: Scene) -> None:
        await opened(scene, 2)
        first, second = scene.running
        assert await faulty(scene, first, 0 if same_bytes else before) == Status.REFUSED
        assert await faulty(scene, second, 1) == Status.RETRY, "the other device has all its tries"

    play(tmp_path, toy, resumed, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("kill", ["whole server", "frontend"])
def test_a_device_that_was_shut_out_stays_so_when_the_server_is_killed(tmp_path: Path, kill: str) -> None:
    toy = Toy(clients=2, buffer=1, rounds=UNTIL_STOPPED, width=16)
    with ground(tmp_path, toy) as place:
        place.serve(devices=2, patience=60.0, transmitters=1)
        place.await_listening()
        bad, good = Puppet(place.address, 0), Puppet(place.address, 1)
        for puppet in (bad, good):
            puppet.enrol()
        good.check()
        errand = bad.await_work()
        payload = tree(w=np.zeros(16, np.float32))
        # A faulty report first: the task has been struck too.
        faulty = tree(w=np.full(16, np.nan, np.float32))
        assert bad.hand(bad.report(errand.work, faulty), faulty).status == Status.RETRY
        for _ in range(MOST):
            bad.hand(bad.report(errand.work, payload, nonce=b"0" * 16), payload)
        assert "too many" in _refusal(bad)
        _await_strikes(place.out / "wire" / "strikes.jsonl", MOST)
        if kill == "frontend":
            place.kill_transmitter(0)
        else:
            place.kill_everything()
            place.serve(resume=True)
        place.await_listening()
        again = Puppet(place.address, 0, bad.secret)
        assert "too many calls of this device were wrong" in _refusal(again)
        assert good.await_work().work.kind == 0
        for puppet in (bad, good, again):
            puppet.close()
        place.kill_everything()
        lines = (place.out / "wire" / "strikes.jsonl").read_text().splitlines()
        assert sum(line.startswith('["client", 0,') for line in lines) >= 1
        assert not [e for e in place.events() if isinstance(e, ReportRejected)]


def _await_strikes(path: Path, count: int) -> None:
    """Until so many strikes of senders are on the disk: a frontend answers before the server has heard of the last one."""
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        lines = path.read_text().splitlines() if path.exists() else []
        if sum(line.startswith('["client"') for line in lines) >= count:
            return
        time.sleep(PAUSE)
    raise TimeoutError


def _refusal(puppet: Puppet) -> str:
    """With which sentence a check-in is refused; a frontend that is just starting is waited for."""
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        try:
            puppet.check()
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:  # type: ignore[attr-defined]
                return printable(error.details() or "")  # type: ignore[attr-defined]
        else:
            return "none"
        time.sleep(PAUSE)
    raise TimeoutError
