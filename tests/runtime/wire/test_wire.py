"""Real processes on loopback: the wire ends with the simulation's model, and faults do not stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.replay import replay_run
from fedfleet.app.spec import load_spec
from fedfleet.core.events import Event, ModelCommitted, ReportRejected, RoundFailed, TaskArrived, TaskLost, TasksDropped
from fedfleet.core.trees import Tree, tree_map
from fedfleet.runtime.journal import read
from fedfleet.runtime.wire import fleet_pb2 as pb
from fedfleet.runtime.wire.codec import PROTOCOL, tree_from_bytes, tree_to_bytes
from fedfleet.runtime.wire.fleet_pb2_grpc import FleetStub
from tests.runtime.wire.fleet import READINESS, Fleet, deadline, fleet, wait_for
from tests.worlds import only

CLIENTS = range(3)


def test_simulation_and_wire_end_with_the_same_bytes(tmp_path: Path) -> None:
    with fleet(tmp_path, pace=READINESS, rounds=3, task="digits_mlp") as ours:
        ours.serve()
        for client in CLIENTS:
            ours.start_device(client)
        simulated = perform(load_spec(ours.spec), tmp_path / "simulated")
        served = ours.answer("server", ours.server, 60)
        done = [ours.answer(f"device{c}", ours.devices[c], 20) for c in CLIENTS]
    assert (ours.out / "model.safetensors").read_bytes() == (tmp_path / "simulated/model.safetensors").read_bytes()
    assert done == [{"client": c, "tasks": 3} for c in CLIENTS]
    assert served.keys() == simulated.answer().keys()
    same = ("rounds", "commits", "accuracy", "accuracy_clients", "bytes_up", "bytes_down")
    assert [served[k] for k in same] == [simulated.metrics[k] for k in same]
    hashes = [
        [e.model_hash for e in only(ModelCommitted, events)] for events in (simulated.events, read(ours.out / "run.db"))
    ]
    assert hashes[0] == hashes[1]
    replayed = replay_run(ours.out)
    assert (replayed["ok"], replayed["verified_by"], replayed["model_file"]) == (True, "kept aggregates", "identical")
    assert replayed["digest"] == served["digest"]


def test_a_killed_device_does_not_stop_the_run(tmp_path: Path) -> None:
    with fleet(tmp_path, pace=deadline(1.0), rounds=5, clients=2) as ours:
        ours.serve()
        ours.start_device(0)
        ours.start_device(1)
        wait_for(lambda: only(ModelCommitted, _events(ours)), 60, "first commit")
        ours.devices[1].kill()
        served = ours.answer("server", ours.server, 60)
        done = ours.answer("device0", ours.devices[0], 20)
    assert (served["rounds"], served["commits"], done["tasks"]) == (5, 5, 5)
    assert {c for e in only(TasksDropped, _events(ours)) for c in e.clients.tolist()} <= {1}
    assert 1 <= sum(e.client == 1 for e in only(TaskArrived, _events(ours))) < 5
    assert replay_run(ours.out)["ok"]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, dict[str, Any]]]:
    """A served run whose three devices are this test itself: what each bad message was answered, by name."""
    with fleet(tmp_path_factory.mktemp("attacked"), pace=deadline(30.0), rounds=3) as ours:
        ours.serve()
        with grpc.insecure_channel(ours.address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            answers = _attack(Device(FleetStub(channel)))
        answers["served"] = ours.answer("server", ours.server, 30)
        yield ours, answers


class Device:
    """All three devices in one, with bad manners."""

    def __init__(self, stub: FleetStub) -> None:
        self.stub = stub

    def enrol(self, client: int, protocol: int = PROTOCOL) -> pb.EnrolReply:
        return self.stub.Enrol(pb.EnrolRequest(protocol=protocol, client=client), timeout=10)

    def pull(self, client: int) -> pb.PullReply:
        for _ in range(8):
            pulled = self.stub.Pull(pb.PullRequest(client=client), timeout=20)
            if pulled.WhichOneof("answer") != "wait":
                return pulled
        raise TimeoutError("no work")

    def pull_all(self) -> list[pb.PullReply]:
        with ThreadPoolExecutor(3) as threads:
            return list(threads.map(self.pull, CLIENTS))

    def report(self, task: int, client: int, tensors: bytes, weight: float = 1.0, **stats: float) -> pb.ReportReply:
        message = pb.ReportRequest(task=task, client=client, tensors=tensors, weight=weight, stats=stats)
        return self.stub.Report(message, timeout=10)


def _attack(device: Device) -> dict[str, Any]:
    said: dict[str, Any] = {}
    said["protocol"] = _refusal(lambda: device.enrol(0, protocol=99))
    said["stranger"] = _refusal(lambda: device.enrol(3))
    said["not enrolled"] = _refusal(lambda: device.pull(0))
    said["report of a stranger"] = _refusal(lambda: device.report(0, 1, b""))
    said["enrolled"] = [device.enrol(c) for c in CLIENTS]

    tasks, model = _work(device.pull_all())  # the first round: nothing that can be folded
    said["again"] = [reply.work.task for reply in device.pull_all()] == tasks
    said["garbled"] = device.report(tasks[0], 0, b"\x80\x04pickle")
    said["garbled again"] = device.report(tasks[0], 0, tree_to_bytes(model))
    said["unknown task"] = device.report(999, 1, tree_to_bytes(model))
    said["task of another"] = device.report(tasks[1], 2, tree_to_bytes(model))
    said["shape"] = device.report(tasks[1], 1, tree_to_bytes({name: leaf[:1] for name, leaf in model.items()}))
    said["nan"] = device.report(tasks[2], 2, tree_to_bytes(tree_map(lambda leaf: leaf * np.float32("nan"), model)))

    late = tasks[1]
    tasks, model = _work(device.pull_all())  # the second round: two that are honest
    zeros = tree_to_bytes(tree_map(np.zeros_like, model))
    said["late"] = device.report(late, 1, zeros)
    said["oversized"] = _refusal(lambda: device.report(tasks[0], 0, bytes(8 << 20)), grpc.StatusCode.RESOURCE_EXHAUSTED)
    said["heavy"] = device.report(tasks[2], 2, zeros, weight=2.0**24)
    said["good"] = [device.report(tasks[0], 0, zeros, loss=1.0), device.report(tasks[1], 1, zeros)]

    tasks, _ = _work(device.pull_all())
    said["last"] = [device.report(tasks[0], 0, zeros)]
    said["duplicate"] = device.report(tasks[0], 0, zeros)
    said["last"] += [device.report(tasks[c], c, zeros) for c in (1, 2)]
    said["over"] = device.pull_all()
    return said


def _work(replies: list[pb.PullReply]) -> tuple[list[int], Tree]:
    assert [r.WhichOneof("answer") for r in replies] == ["work"] * 3
    return [r.work.task for r in replies], tree_from_bytes(replies[0].work.tensors)


def _refusal(call: Callable[[], Any], code: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION) -> str:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    assert refused.value.code() is code  # type: ignore[attr-defined]
    return refused.value.details()  # type: ignore[attr-defined]


def _events(ours: Fleet) -> list[Event]:
    return list(read(ours.out / "run.db")) if (ours.out / "run.db").is_file() else []


def test_who_cannot_take_part_is_told_why(attacked: tuple[Fleet, dict[str, Any]]) -> None:
    said = attacked[1]
    assert "protocol 1, the device 99" in said["protocol"]
    assert "no client 3" in said["stranger"]
    assert "not enrolled" in said["not enrolled"]
    assert "not enrolled" in said["report of a stranger"]
    assert all('use = "fedavg"' in reply.spec for reply in said["enrolled"])


def test_bad_reports_are_refused_at_the_border_or_by_the_fold(attacked: tuple[Fleet, dict[str, Any]]) -> None:
    ours, said = attacked
    assert "safetensors" in said["garbled"].reason
    assert "weight" in said["heavy"].reason
    for name in ("garbled again", "unknown task", "task of another", "late", "duplicate"):
        assert said[name].reason.startswith("not wanted"), name
    assert not any(said[name].accepted for name in ("garbled", "garbled again", "heavy", "late", "duplicate"))
    assert said["shape"].accepted
    assert said["nan"].accepted
    events = _events(ours)
    assert [(e.client, "safetensors" in e.reason) for e in only(TaskLost, events)] == [(0, True), (2, False)]
    assert sorted((e.client, e.reason) for e in only(ReportRejected, events)) == [
        (1, "client 1: leaf '1.bias' has shape (1,), not (10,)"),
        (2, "client 2: leaf '1.weight' is not finite"),
    ]


def test_the_server_goes_on_and_its_journal_replays(attacked: tuple[Fleet, dict[str, Any]]) -> None:
    ours, said = attacked
    assert said["again"]  # work is handed out again until it is reported
    assert all(reply.accepted for reply in said["good"] + said["last"])
    assert [reply.over.reason for reply in said["over"]] == ["rounds"] * 3
    assert (said["served"]["rounds"], said["served"]["commits"]) == (3, 2)
    assert [e.reason for e in only(RoundFailed, _events(ours))] == ["no report could be folded"]
    assert [e.folded for e in only(ModelCommitted, _events(ours))] == [2, 3]
    replayed = replay_run(ours.out)
    assert (replayed["ok"], replayed["verified_by"], replayed["commits"]) == (True, "kept aggregates", 2)
