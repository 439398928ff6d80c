"""The gRPC service: good and bad messages over a real channel, to a desk in this process and to a server in another."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from fedfleet.app.runs.network import serve_run
from fedfleet.app.runs.replay import replay_run
from fedfleet.core.container import packed, unpacked
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event, ModelCommitted, ReportRejected, RoundFailed, TaskArrived, TaskLost
from fedfleet.core.trees import Tree, tree_map
from fedfleet.runtime.journal import read
from fedfleet.runtime.wire import fleet_pb2 as pb
from fedfleet.runtime.wire import service as services
from fedfleet.runtime.wire.desk import TaskDesk
from fedfleet.runtime.wire.fleet_pb2_grpc import FleetStub
from fedfleet.runtime.wire.framing import PROTOCOL
from fedfleet.runtime.wire.service import Service, listening
from tests.runtime.wire.fleet import Fleet, deadline, fleet
from tests.runtime.wire.toys import LOOPBACK, errand
from tests.worlds import only

CLIENTS = range(3)

# ---- a server under attack ----------------------------------------------------------------------------------------


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
    said["garbled again"] = device.report(tasks[0], 0, packed(model))
    said["unknown task"] = device.report(999, 1, packed(model))
    said["task of another"] = device.report(tasks[1], 2, packed(model))
    said["shape"] = device.report(tasks[1], 1, packed({name: leaf[:1] for name, leaf in model.items()}))
    said["nan"] = device.report(tasks[2], 2, packed(tree_map(lambda leaf: leaf * np.float32("nan"), model)))

    late = tasks[1]
    tasks, model = _work(device.pull_all())  # the second round: two that are honest
    zeros = packed(tree_map(np.zeros_like, model))
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
    return [r.work.task for r in replies], unpacked(replies[0].work.tensors)


def _refusal(call: Callable[[], Any], code: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION) -> str:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    assert refused.value.code() is code  # type: ignore[attr-defined]
    return refused.value.details()  # type: ignore[attr-defined]


def _events(ours: Fleet) -> list[Event]:
    return list(read(ours.out / "run.db")) if (ours.out / "run.db").is_file() else []


def test_who_cannot_take_part_is_told_why(attacked: tuple[Fleet, dict[str, Any]]) -> None:
    said = attacked[1]
    assert f"protocol {PROTOCOL}, the device 99" in said["protocol"]
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
    assert (replayed["ok"], replayed["kind"], replayed["commits"]) == (True, "served", 2)


# ---- a desk in this process ---------------------------------------------------------------------------------------


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TaskDesk, Device]]:
    """A desk for three clients, and a channel to it on which polls are short."""
    monkeypatch.setattr(services, "_POLL_SECONDS", 0.05)
    desk = TaskDesk(3)
    with listening(Service(desk, "the spec", "abc"), desk, LOOPBACK, 1 << 20) as (address, server):
        server.start()
        with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            yield desk, Device(FleetStub(channel))


def pulled(device: Device, client: int) -> pb.PullReply:
    return device.stub.Pull(pb.PullRequest(client=client), timeout=10)


def test_a_device_learns_what_is_trained(line: tuple[TaskDesk, Device]) -> None:
    reply = line[1].enrol(2)
    assert (reply.spec, reply.spec_digest) == ("the spec", "abc")


def test_work_travels_whole_and_a_report_becomes_a_fact(line: tuple[TaskDesk, Device]) -> None:
    desk, device = line
    device.enrol(1)
    assert pulled(device, 1).wait.seconds == 0.0  # it was kept on the line already
    model = packed({"w": np.arange(3, dtype=np.float32)})
    desk.hand_out([errand(7, 1, tensors=model)])
    work = pulled(device, 1).work
    assert (work.task, work.round, work.tensors, work.steps, work.share, work.seed) == (7, 0, model, 0, 1.0, 0)
    assert device.report(7, 1, model, loss=0.5).accepted
    fact, report = desk.next_fact(None, (), None)
    assert isinstance(fact, TaskArrived)
    assert (fact.task, fact.client, fact.bytes_up) == (7, 1, 12.0)
    assert report is not None
    assert (report.weight, dict(report.stats), report.update["w"].tolist()) == (1.0, {"loss": 0.5}, [0.0, 1.0, 2.0])
    assert report.spent == {}


def test_the_server_says_how_long_it_held_a_call_and_hears_what_work_cost(line: tuple[TaskDesk, Device]) -> None:
    desk, device = line
    device.enrol(1)
    desk.hand_out([errand(7, 1)])
    assert 0 <= pulled(device, 1).work.held < 5.0
    model = packed({"w": np.ones(2)})
    odd = {"download": 0.25, "compute": 2.0, "upload": -1.0, "latency": math.nan, "averaging": math.inf, "rest": 3.0}
    request = pb.ReportRequest(task=7, client=1, tensors=model, weight=1.0, spent=odd)
    assert device.stub.Report(request, timeout=10).accepted
    _, report = desk.next_fact(None, (), None)
    assert report is not None and report.spent == {"download": 0.25, "compute": 2.0}


@pytest.mark.parametrize(
    ("tensors", "weight", "why"),
    [
        (b"\x80\x04pickle", 1.0, "safetensors"),
        (packed({"w": np.ones(2)}), 1.5, "more than the 1 that its samples give"),
    ],
    ids=["garbled", "heavy"],
)
def test_what_cannot_be_used_is_lost_once_and_for_all(
    line: tuple[TaskDesk, Device], tensors: bytes, weight: float, why: str
) -> None:
    desk, device = line
    device.enrol(0)
    desk.hand_out([errand(7, 0)])
    reply = device.report(7, 0, tensors, weight)
    assert not reply.accepted
    assert why in reply.reason
    fact, _ = desk.next_fact(None, (), None)
    assert isinstance(fact, TaskLost)
    assert fact.reason == reply.reason
    assert device.report(7, 0, packed({"w": np.ones(2)})).reason.startswith("not wanted")


def test_where_every_line_is_taken_a_device_is_sent_away_for_a_while(
    line: tuple[TaskDesk, Device], monkeypatch
) -> None:
    desk, device = line
    monkeypatch.setattr(services, "_WAITING", 1)
    crowded = Service(desk, "", "")
    device.enrol(0)

    class Call:
        def is_active(self) -> bool:
            return True

    assert crowded._lines.acquire(blocking=False)
    assert crowded.Pull(pb.PullRequest(client=0), Call()).wait.seconds == 1.0  # type: ignore[arg-type]
    desk.hand_out([errand(7, 0)])
    assert crowded.Pull(pb.PullRequest(client=0), Call()).work.task == 7  # type: ignore[arg-type]
    crowded._lines.release()
    desk.withdraw([7])
    assert crowded.Pull(pb.PullRequest(client=0), Call()).wait.seconds == 0.0  # type: ignore[arg-type]
    assert crowded._lines.acquire(blocking=False), "a call that was kept gives its line back"


def test_the_end_is_told(line: tuple[TaskDesk, Device]) -> None:
    desk, device = line
    device.enrol(0)
    desk.finish("rounds", 0.0)
    assert pulled(device, 0).over.reason == "rounds"


def test_a_port_that_is_taken_is_bad_input_and_leaves_no_folder(spec: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadInput, match="taken"):
            serve_run(spec, [], tmp_path / "out", f"127.0.0.1:{taken.getsockname()[1]}", None)
    assert not (tmp_path / "out").exists()
