"""The gRPC service: messages become calls at the desk, and the desk's answers messages. It decides nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NoReturn

import grpc

from fedfleet.core.container import unpacked
from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.records import Report
from fedfleet.core.spending import STAGES
from fedfleet.core.trees import tree_nbytes
from fedfleet.learn.codecs.applying import received
from fedfleet.runtime.wire import fleet_pb2 as pb
from fedfleet.runtime.wire.desk import Errand, RunOver, TaskDesk
from fedfleet.runtime.wire.fleet_pb2_grpc import FleetServicer, add_FleetServicer_to_server
from fedfleet.runtime.wire.framing import CHANNEL_OPTIONS, PROTOCOL, split_address

_POLL_SECONDS = 5.0  # how long a device that has nothing to do is kept on the line
_WAITING = 64  # how many may be kept so; each holds a thread, and reports need threads too
_THREADS = _WAITING + 16


class Service(FleetServicer):
    """Answers devices. It holds what it tells everyone, the desk, and the number of calls that may wait."""

    def __init__(self, desk: TaskDesk, spec: str, spec_digest: str) -> None:
        self._desk = desk
        self._enrolled = pb.EnrolReply(spec=spec, spec_digest=spec_digest)
        self._lines = threading.BoundedSemaphore(_WAITING)

    def Enrol(self, request: pb.EnrolRequest, context: grpc.ServicerContext) -> pb.EnrolReply:  # noqa: N802
        """Tell a device that speaks our protocol what is trained."""
        if request.protocol != PROTOCOL:
            _refuse(
                context,
                f"this server speaks protocol {PROTOCOL}, the device {request.protocol}; install the same FedFleet on both",
            )
        if request.client >= self._desk.clients:
            _refuse(
                context, f"there is no client {request.client}: this fleet has clients 0 to {self._desk.clients - 1}"
            )
        self._desk.enrol(request.client)
        return self._enrolled

    def Pull(self, request: pb.PullRequest, context: grpc.ServicerContext) -> pb.PullReply:  # noqa: N802
        """Hand out work, or keep the device on the line for a while if there is none."""
        kept, called = self._lines.acquire(blocking=False), time.monotonic()
        try:
            found = self._desk.pull(request.client, _POLL_SECONDS if kept else 0.0, context.is_active)
        except KeyError:
            _refuse(context, _not_enrolled(request.client))
        finally:
            if kept:
                self._lines.release()
        match found:
            case Errand():
                return pb.PullReply(work=_work(found, time.monotonic() - called))
            case RunOver():
                return pb.PullReply(over=pb.Over(reason=found.reason))
            case None:
                return pb.PullReply(wait=pb.Wait(seconds=0.0 if kept else 1.0))

    def Report(self, request: pb.ReportRequest, context: grpc.ServicerContext) -> pb.ReportReply:  # noqa: N802
        """Take a report in if somebody waits for it and it can be read."""
        try:
            errand = self._desk.claim(request.task, request.client)
        except KeyError:
            _refuse(context, _not_enrolled(request.client))
        if errand is None:
            reason = (
                f"not wanted: task {request.task} of client {request.client} is unknown, reported already or given up"
            )
            return pb.ReportReply(accepted=False, reason=reason)
        try:
            report = _report(request, errand)
        except Refused as wrong:
            reason = f"client {errand.client}: {wrong}"
            self._desk.lost(errand, reason)
            return pb.ReportReply(accepted=False, reason=reason)
        sent = tree_nbytes(report.update) if errand.up is None else len(request.tensors)
        self._desk.arrived(errand, report, sent)
        return pb.ReportReply(accepted=True)


def _work(errand: Errand, held: float) -> pb.Work:
    return pb.Work(
        task=errand.task,
        round=errand.round,
        tensors=errand.tensors,
        steps=errand.steps,
        share=errand.share,
        seed=errand.seed,
        held=held,
    )


def _report(request: pb.ReportRequest, errand: Errand) -> Report:
    if request.weight > errand.heaviest:
        raise Refused(f"its weight {request.weight:g} is more than the {errand.heaviest:g} that its samples give")
    update = unpacked(request.tensors) if errand.up is None else received(errand.up, request.tensors, errand.like)
    spent = {name: seconds for name, seconds in request.spent.items() if name in STAGES and 0 <= seconds < math.inf}
    return Report(errand.task, errand.client, update, request.weight, dict(request.stats), spent=spent)


def _not_enrolled(client: int) -> str:
    return (
        f"client {client} is not enrolled here; perhaps the server was started again, then start the device again too"
    )


def _refuse(context: grpc.ServicerContext, reason: str) -> NoReturn:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
    raise AssertionError("abort raises")


@contextmanager
def listening(service: Service, desk: TaskDesk, address: str, largest: int) -> Iterator[tuple[str, grpc.Server]]:
    """Hold an address; start the server to answer there. `largest` bounds a message from a device, in bytes.

    On the way out every waiting call is let go and the server is stopped.
    """
    host, port = split_address(address, any_port=True)
    options = (
        *CHANNEL_OPTIONS,
        ("grpc.max_receive_message_length", largest),
        ("grpc.so_reuseport", 0),  # else a second server would share the port in silence
    )
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="wire")
    server = grpc.server(threads, options=options)
    add_FleetServicer_to_server(service, server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        bound = 0
    if not bound:
        raise BadInput(
            f"cannot listen on {address}: the port is taken or the host is not here; name another with --address"
        )
    try:
        yield f"{host}:{bound}", server
    finally:
        desk.close()
        server.stop(grace=1.0).wait()
        threads.shutdown(wait=False)
