"""Judging in a served run: by a process beside the loop, by devices with a deadline, or by both."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core.commands import Evaluate, Probe
from fedfleet.core.errors import RunFailed
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints, ServerState
from fedfleet.executors.gather import known_evaluation
from fedfleet.network.evaluation import by_devices
from fedfleet.network.evaluation.by_devices import Answer, AnswerVerdict, EvalMode, EvalRequest, RequestKind, share_of
from fedfleet.network.evaluation.results import EvalResult
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.presence import available_clients

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop

_STATUS = {
    AnswerVerdict.ACCEPTED: pb.Receipt.SAFE, AnswerVerdict.DUPLICATE: pb.Receipt.SAFE, AnswerVerdict.LATE: pb.Receipt.UNWANTED,
    AnswerVerdict.FOREIGN: pb.Receipt.REFUSED, AnswerVerdict.INVALID: pb.Receipt.REFUSED,
}  # fmt: skip


class Evaluations:
    """Who is judging what. Devices whose models are their own judge them themselves: nobody else has what they remember."""

    def __init__(self, server: ServerLoop) -> None:
        self._server = server
        self._next_task = by_devices.first_eval_task(time.time())
        self._requests: dict[
            RequestKind, EvalRequest
        ] = {}  # while an asynchronous run evaluates, a probe may be out too
        self._waves: dict[RequestKind, inside.Wave] = {}
        self._probe: Probe | None = None
        self._central: EvalResult | None = None
        self._evaluate: Evaluate | None = None
        self._begin_by: float | None = None  # until then, devices that should judge have time to come (back)
        where = server.options.evaluate
        local_pass = server.plan.algorithm.local(0, NO_SETTINGS)
        has_client_state = server.plan.algorithm.personal is not None or (
            isinstance(local_pass, LocalPass) and local_pass.remembers()
        )
        self._mode: EvalMode = "both" if where == "server" and has_client_state else where  # type: ignore[assignment]

    def deadline(self) -> float | None:
        """When the time of those who were asked is over."""
        moments = [request.deadline for request in self._requests.values()]
        return min([*moments, *([] if self._begin_by is None else [self._begin_by])], default=None)

    def evaluate(self, command: Evaluate) -> None:
        """Let a model be judged; a server that was just started again waits for the devices that should."""
        if command.known is not None:
            self._server.facts.append(known_evaluation(command.version, command.known, self._server.now()))
            return
        self._evaluate, self._central = command, None
        wait_for_devices = share_of(self._mode, command.clients).devices and self._server.state.next_task > 0
        self._begin_by = self._server.now() + (self._server.options.patience if wait_for_devices else 0.0)
        self._begin(command)

    def _begin(self, command: Evaluate) -> None:
        available = len(self._idle_devices()) + int(self._server.busy.sum())
        if self._begin_by is None or (available < self._server.options.devices and self._server.now() < self._begin_by):
            return
        self._begin_by = None
        share = share_of(self._mode, command.clients)
        if share.devices:
            clients = self._idle_devices()
            if len(clients):
                self._send_request(
                    RequestKind.EVALUATE,
                    clients,
                    self._server.options.evaluate_seconds,
                    command.server,
                    command.version,
                )
        if share.central or RequestKind.EVALUATE not in self._requests:
            self._server.run_in_background(self._evaluate_centrally(command, share.shards))

    async def _evaluate_centrally(self, command: Evaluate, shards: bool) -> None:
        eval_result = await self._server.served.evaluator.evaluate(command.version, command.server.params, shards)

        def on_result() -> None:
            if self._evaluate is command:
                self._central = eval_result
                self.check_finished(self._server.now())

        self._server.schedule(on_result)

    def probe(self, command: Probe) -> None:
        """Ask devices for the loss of a model on their own data."""
        if command.stat != "loss":
            raise RunFailed(
                f"selector {self._server.plan.choose.name!r} probes clients for {command.stat}, which no device can tell beforehand"
            )
        self._probe = command
        seconds = min(command.within, self._server.options.evaluate_seconds)
        self._send_request(RequestKind.PROBE, command.clients, seconds, command.server, self._server.state.book.version)

    def _idle_devices(self) -> Ints:
        return available_clients(self._server.presence.present(self._server.now()), self._server.busy).astype(np.int64)

    def _send_request(
        self, kind: RequestKind, clients: Ints, seconds: float, model_state: ServerState, version: int
    ) -> None:
        server_loop, now = self._server, self._server.now()
        max_samples = (
            None
            if kind is RequestKind.PROBE
            else server_loop.served.registry.max_tests(clients, self._test_sample_counts(clients))
        )
        request = self._requests[kind] = EvalRequest(
            kind, clients, now + seconds, model_state, version, self._next_task, max_samples
        )
        self._next_task += len(clients)
        message = self._waves[kind] = inside.Wave(
            first=request.first, round=server_loop.state.book.round, version=version, kind=int(kind),
            clients=clients.astype(np.uint32).tobytes(), heaviest=np.zeros(len(clients)).tobytes(), lease_seconds=seconds,
            memory_task=server_loop.client_state.memory_task[clients].tobytes(), seed=server_loop.plan.seed, time=now,
        )  # fmt: skip
        blobs = server_loop.offers.add_eval_model(model_state, version, clients, message)
        for out in server_loop.outboxes():
            out.blobs.extend(blobs)
            out.waves.append(message)

    def _test_sample_counts(self, clients: Ints) -> Ints:
        """How many test samples the spec deals to each of these."""
        data = self._server.world.data
        return np.array([len(data.shard(client, "test", 0)) for client in clients.tolist()], np.int64)

    def add_full_state(self, out: inside.ToTransmitter) -> None:
        """Tell a transmitter that has just started who is still asked."""
        for kind, request in self._requests.items():
            out.waves.append(self._waves[kind])
            out.withdrawn.extend((np.flatnonzero(request.fate != by_devices.Fate.SILENT) + request.first).tolist())

    def versions(self) -> set[int]:
        """The versions that somebody is judging: devices may still fetch them."""
        return {request.version for request in self._requests.values()}

    def answer_claim(self, claim: inside.Claim, now: float) -> inside.Grant:
        """A device answers; what it is told."""
        request = next((a for a in self._requests.values() if by_devices.owns_task(a, claim.task)), None)
        if request is None:
            for out in self._server.outboxes():
                out.withdrawn.append(claim.task)
            return inside.Grant(
                number=claim.number, status=pb.Receipt.UNWANTED, reason="nobody waits for this any more"
            )
        answer = Answer(claim.client, claim.correct, claim.total, claim.loss)
        if claim.declined:
            verdict = by_devices.record_decline(request, claim.task, claim.client, now)
        else:
            verdict = by_devices.record_answer(request, claim.task, answer, now)
        fault = by_devices.answer_fault(request, claim.task, answer) if verdict is AnswerVerdict.INVALID else ""
        if verdict is AnswerVerdict.INVALID:  # it would judge again, and be wrong again, until its time is over
            by_devices.record_decline(request, claim.task, claim.client, now)
        if verdict is not AnswerVerdict.FOREIGN:
            for out in self._server.outboxes():
                out.withdrawn.append(claim.task)
        self._server.schedule()
        return inside.Grant(number=claim.number, status=_STATUS[verdict], reason=fault or "")

    def check_finished(self, now: float) -> None:
        """Is everything there that was asked for?"""
        probe_request = self._requests.get(RequestKind.PROBE)
        if self._probe is not None and probe_request is not None and by_devices.is_finished(probe_request, now):
            self._end_request(probe_request)
            self._server.facts.append(by_devices.probe_fact(probe_request, self._probe.stat, now))
            self._probe = None
        if self._evaluate is not None:
            self._begin(self._evaluate)
        command, request = self._evaluate, self._requests.get(RequestKind.EVALUATE)
        if self._begin_by is not None:
            return
        if command is None or (request is not None and not by_devices.is_finished(request, now)):
            return
        if self._central is None and (request is None or share_of(self._mode, command.clients).central):
            return
        self._evaluate = None
        if request is not None:
            self._server.warn(by_devices.response_summary(request))
            self._end_request(request)
        self._server.facts.append(by_devices.evaluation_fact(now, command.version, self._central, request))

    def _end_request(self, request: EvalRequest) -> None:
        silent = (np.flatnonzero(request.fate == by_devices.Fate.SILENT) + request.first).tolist()
        for out in self._server.outboxes():
            out.withdrawn.extend(silent)
        del self._requests[request.kind], self._waves[request.kind]
