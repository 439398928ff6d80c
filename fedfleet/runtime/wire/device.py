"""One device: enrol, pull a task, train it, report, until the run is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import grpc
import numpy as np

from fedfleet.core.container import packed
from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.parts import Algorithm, Executor, Job, Offer, Pass
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Report
from fedfleet.core.sources import World
from fedfleet.core.trees import Array, Tree
from fedfleet.learn.codecs.applying import addresses, sent
from fedfleet.learn.compression import travelling
from fedfleet.runtime.gather import training_rows
from fedfleet.runtime.wire import fleet_pb2 as pb
from fedfleet.runtime.wire.fleet_pb2_grpc import FleetStub
from fedfleet.runtime.wire.framing import (
    CHANNEL_OPTIONS,
    PROTOCOL,
    offer_from_bytes,
    split_address,
)

PATIENCE_SECONDS = 30.0  # how long a server may be out of reach
_CALL_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_OUT_OF_REACH = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", int(_FIRST_PAUSE * 1000)),
    ("grpc.min_reconnect_backoff_ms", int(_FIRST_PAUSE * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(_LONGEST_PAUSE * 1000)),
)
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a device makes of the spec that it is given: the algorithm, a world for its own data and key, the first model."""

    algorithm: Algorithm
    world: World
    execute: Executor
    spec_digest: str
    params: Tree = field(default_factory=dict[str, Array])


def attend(server: str, client: int, rebuild: Callable[[str], Rebuilt]) -> int:
    """Serve one run as this client, and say how many tasks were reported. `rebuild` turns the spec's text into parts."""
    if not 0 <= client < 1 << 32:
        raise BadInput(f"--client: {client} is not the number of a client; clients count from 0")
    host, port = split_address(server)
    with grpc.insecure_channel(f"{host}:{port}", options=_OPTIONS) as channel:
        stub = FleetStub(channel)
        enrolled: pb.EnrolReply = call(stub.Enrol, pb.EnrolRequest(protocol=PROTOCOL, client=client), server)
        kit = rebuild(enrolled.spec)
        if kit.spec_digest != enrolled.spec_digest:
            raise BadInput(
                f"the server at {server} means another run by its spec than this FedFleet; install the same on both"
            )
        return _work_until_over(stub, server, client, kit)


def _work_until_over(stub: FleetStub, server: str, client: int, kit: Rebuilt) -> int:
    tasks = 0
    while True:
        asked = time.monotonic()
        pulled: pb.PullReply = call(stub.Pull, pb.PullRequest(client=client), server)
        match pulled.WhichOneof("answer"):
            case "work":
                fetched = time.monotonic()
                message = _message(kit, train(kit, client, pulled.work), pulled.work.seed)
                message.spent["download"] = max(fetched - asked - pulled.work.held, 0.0)
                message.spent["compute"] = time.monotonic() - fetched
                reply: pb.ReportReply = call(stub.Report, message, server)
                tasks += reply.accepted  # what came too late was not wanted any more, which is no fault
            case "wait":
                time.sleep(min(max(pulled.wait.seconds, 0.0), _LONGEST_PAUSE))
            case "over":
                return tasks
            case other:
                raise RunFailed(f"the server at {server} answers {other!r}, which this FedFleet does not know")


def train(kit: Rebuilt, client: int, work: pb.Work) -> Report:
    """Do one task's work with the literal executor, exactly as a simulation would; what it reports is not encoded yet."""
    half = kit.algorithm.local(client, NO_SETTINGS)
    try:
        offered = _offered(kit, client, half, work.tensors)
    except Refused as wrong:
        raise RunFailed(f"client {client}, task {work.task}: the server's offer is damaged: {wrong}") from None
    rows = training_rows(kit.world.data, client, work.round, work.share)
    job = Job(
        work.task,
        client,
        int(kit.world.keys[client]),
        work.seed,
        offered,
        replace(half, up=None) if isinstance(half, LocalPass) else half,
        rows,
        work.steps,
    )
    return next(iter(kit.execute.train([job])))


def _offered(kit: Rebuilt, client: int, half: Pass, tensors: bytes) -> Offer:
    """What the server sent, decoded where the pass says that it comes in a code."""
    if not isinstance(half, LocalPass) or half.down is None:
        return offer_from_bytes(tensors)
    first = kit.algorithm.offer(kit.algorithm.init(kit.params), client, NO_SETTINGS)
    return offer_from_bytes(tensors, half.down, travelling(first))


def _message(kit: Rebuilt, report: Report, seed: int) -> pb.ReportRequest:
    half = kit.algorithm.local(report.client, NO_SETTINGS)
    tensors = b""
    if isinstance(half, LocalPass) and half.up is not None:
        key, task = kit.world.keys[[report.client]], np.array([report.task])
        tensors = sent(half.up, report.update, int(addresses(seed, key, task)[0]))
    return pb.ReportRequest(
        task=report.task,
        client=report.client,
        tensors=tensors or packed(report.update),
        weight=report.weight,
        stats=report.stats,
    )


def call(method: Callable[..., Reply], request: Any, server: str) -> Reply:
    """One call, tried again with growing pauses while the server is out of reach; all calls here may be repeated."""
    give_up, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE
    while True:
        try:
            return method(request, timeout=_CALL_SECONDS)
        except grpc.RpcError as wrong:
            code, details = wrong.code(), wrong.details()  # type: ignore[attr-defined]
            if code is grpc.StatusCode.FAILED_PRECONDITION:
                raise BadInput(f"the server at {server} refuses: {details}") from None
            if code not in _OUT_OF_REACH:
                raise RunFailed(f"the server at {server} failed: {code.name}: {details}") from None
            if time.monotonic() + pause > give_up:
                raise BadInput(f"no server answers at {server} ({details}); start one with fedfleet serve") from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
