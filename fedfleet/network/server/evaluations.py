"""Evaluation of a served run's models: by a process in the background, by devices with a deadline, or by both."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedfleet.core.commands import Evaluate, Probe
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated
from fedfleet.core.kinds import CLASSIFICATION, Kind, score_range
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Ints, ServerState
from fedfleet.executors.gather import known_evaluation
from fedfleet.network.evaluation import by_devices
from fedfleet.network.evaluation.by_devices import Answer, AnswerVerdict, EvalRequest, RequestKind
from fedfleet.network.evaluation.evaluators import EvalResult
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.server.candidates import Candidates
from fedfleet.network.server.offers import Offers
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.served_plan import ServedRun
from fedfleet.network.server.turns import Effects, Note, ReactLater, StartEvaluation, Tell, tell_withdrawn

_STATUS = {
    AnswerVerdict.ACCEPTED: pb.Receipt.SAFE,
    AnswerVerdict.DUPLICATE: pb.Receipt.SAFE,
    AnswerVerdict.LATE: pb.Receipt.UNWANTED,
    AnswerVerdict.FOREIGN: pb.Receipt.REFUSED,
    AnswerVerdict.INVALID: pb.Receipt.REFUSED,
}

EvalMode = Literal["server", "devices", "both"]


@dataclass(frozen=True, slots=True)
class EvalShare:
    """Who judges one model: the server on its test set, the server on clients' shards that it holds, the devices."""

    central: bool
    shards: bool
    devices: bool


class Evaluations:
    """Which model is being evaluated, and which devices were asked to.

    Devices whose models or samples are their own evaluate them themselves: no one else has what they remember or hold.
    """

    def __init__(self, served: ServedRun, options: ServeOptions, candidates: Candidates, offers: Offers) -> None:
        self._served, self._options, self._candidates, self._offers = served, options, candidates, offers
        self._next_task = by_devices.first_eval_task(time.time())
        # While an asynchronous run evaluates, a probe may be out too.
        self._requests: dict[RequestKind, EvalRequest] = {}
        self._waves: dict[RequestKind, inside.Wave] = {}
        self._probe: Probe | None = None
        self._central: EvalResult | None = None
        self._evaluate: Evaluate | None = None
        # Until then, devices that should evaluate have time to come (back).
        self._begin_by: float | None = None
        local_pass = served.plan.algorithm.local(0, NO_SETTINGS)
        has_client_state = served.plan.algorithm.personal is not None or (
            isinstance(local_pass, LocalPass) and local_pass.remembers()
        )
        where = options.evaluate
        self._mode: EvalMode = "both" if where == "server" and has_client_state else where  # type: ignore[assignment]

    def deadline(self) -> float | None:
        """When the time of the devices that were asked is over."""
        moments = [request.deadline for request in self._requests.values()]
        return min([*moments, *([] if self._begin_by is None else [self._begin_by])], default=None)

    def versions(self) -> set[int]:
        """The versions that devices are evaluating: they may still fetch them."""
        return {request.version for request in self._requests.values()}

    def on_evaluate(self, command: Evaluate, round: int, now: float, *, any_sent: bool) -> Effects:
        """Evaluate a model. A server that was just started again (`any_sent` tasks) waits for the devices that should."""
        if command.known is not None:
            return [ReactLater(known_evaluation(command.version, command.known, now))]
        self._evaluate, self._central = command, None
        wait_for_devices = self._share(command).devices and any_sent
        self._begin_by = now + (self._options.patience if wait_for_devices else 0.0)
        return self._begin(command, round, now)

    def on_probe(self, command: Probe, version: int, round: int, now: float) -> Effects:
        """Ask devices for the loss of a model on their own data."""
        if command.stat != "loss":
            raise RunFailed(
                f"selector {self._served.plan.choose.name!r} probes clients for {command.stat}, which devices cannot "
                "report before they train"
            )
        self._probe = command
        seconds = min(command.within, self._options.evaluate_seconds)
        return self._ask(RequestKind.PROBE, command.clients, seconds, command.server, version, round, now)

    def on_central_result(self, command: Evaluate, result: EvalResult) -> None:
        """The server's own evaluator has tried the model."""
        if self._evaluate is command:
            self._central = result

    def on_claim(self, index: int, claim: inside.Claim, now: float) -> Effects:
        """A device answers; what it is told."""
        request = next((r for r in self._requests.values() if by_devices.owns_task(r, claim.task)), None)
        withdrawn = tell_withdrawn([claim.task])
        grant = inside.Grant(number=claim.number, status=pb.Receipt.UNWANTED)
        if request is None:
            grant.reason = "this evaluation is over"
            return [withdrawn, Tell(inside.ToTransmitter(grants=[grant]), index)]
        answer = Answer(claim.client, claim.correct, claim.total, claim.loss)
        if claim.declined:
            verdict = by_devices.record_decline(request, claim.task, claim.client, now)
        else:
            verdict = by_devices.record_answer(request, claim.task, answer, now)
        if verdict is AnswerVerdict.INVALID:
            # The device would evaluate again, and be wrong again, until its time is over.
            grant.reason = by_devices.answer_fault(request, claim.task, answer) or ""
            by_devices.record_decline(request, claim.task, claim.client, now)
        grant.status = _STATUS[verdict]
        answered = Tell(inside.ToTransmitter(grants=[grant]), index)
        return [answered] if verdict is AnswerVerdict.FOREIGN else [withdrawn, answered]

    def on_time(self, round: int, now: float) -> Effects:
        """End what has all its answers, or no time left."""
        effects: Effects = []
        probe_request = self._requests.get(RequestKind.PROBE)
        if self._probe is not None and probe_request is not None and by_devices.is_finished(probe_request, now):
            effects += self._end(probe_request)
            effects.append(ReactLater(by_devices.probe_fact(probe_request, self._probe.stat, now)))
            self._probe = None
        if self._evaluate is not None:
            effects += self._begin(self._evaluate, round, now)
        command, request = self._evaluate, self._requests.get(RequestKind.EVALUATE)
        if self._begin_by is not None or command is None:
            return effects
        if request is not None and not by_devices.is_finished(request, now):
            return effects
        if self._central is None and (request is None or self._share(command).central):
            return effects
        self._evaluate = None
        if request is not None:
            counts = by_devices.response_counts(request)
            complete = not (counts.declined or counts.silent)
            effects.append(Note(by_devices.response_summary(request), "info" if complete else "warning"))
            effects += self._end(request)
        fact = evaluation_fact(now, command.version, self._central, request, self._served.kind)
        return [*effects, ReactLater(fact)]

    def add_full_state(self, out: inside.ToTransmitter) -> None:
        """Tell a frontend that has just started which devices are still asked."""
        for kind, request in self._requests.items():
            out.waves.append(self._waves[kind])
            out.withdrawn.extend((np.flatnonzero(request.fate != by_devices.Fate.SILENT) + request.first).tolist())

    def _begin(self, command: Evaluate, round: int, now: float) -> Effects:
        idle = self._candidates.idle(now)
        if self._begin_by is None:
            return []
        if len(idle) + int(self._candidates.busy.sum()) < self._options.devices and now < self._begin_by:
            return []
        self._begin_by = None
        effects: Effects = []
        share = self._share(command)
        if share.devices and len(idle):
            seconds = self._options.evaluate_seconds
            effects += self._ask(RequestKind.EVALUATE, idle, seconds, command.server, command.version, round, now)
        if share.central or RequestKind.EVALUATE not in self._requests:
            effects.append(StartEvaluation(command, share.shards))
        return effects

    def _share(self, command: Evaluate) -> EvalShare:
        """Who evaluates this model. Samples that devices brought are theirs alone: the server has others under their numbers."""
        own = self._mode == "server" and bool(self._served.registry.declared.own.any())
        return share_of("both" if own else self._mode, command.clients)

    def _ask(
        self, kind: RequestKind, clients: Ints, seconds: float, model: ServerState, version: int, round: int, now: float
    ) -> Effects:
        max_samples = counted = None
        if kind is not RequestKind.PROBE:
            max_samples = self._served.registry.max_tests(clients, self._test_sample_counts(clients))
            counted = self._offers.limits.counted_tests(clients, max_samples)
        bounds = max_samples, counted, score_range(self._served.kind, self._served.label_shape)
        request = EvalRequest(kind, clients, now + seconds, model, version, self._next_task, *bounds)
        self._requests[kind] = request
        self._next_task += len(clients)
        message = self._waves[kind] = inside.Wave(
            first=request.first, round=round, version=version, kind=int(kind),
            clients=clients.astype(np.uint32).tobytes(), heaviest=np.zeros(len(clients)).tobytes(), lease_seconds=seconds,
            memory_task=self._offers.client_state.memory_task[clients].tobytes(), seed=self._served.plan.seed, time=now,
        )  # fmt: skip
        blobs = self._offers.add_eval_model(model, version, clients, message)
        return [Tell(inside.ToTransmitter(blobs=blobs, waves=[message]))]

    def _test_sample_counts(self, clients: Ints) -> Ints:
        """How many test samples the spec deals to each of these."""
        data = self._served.world.data
        return np.array([len(data.shard(client, "test", 0)) for client in clients.tolist()], np.int64)

    def _end(self, request: EvalRequest) -> Effects:
        silent = (np.flatnonzero(request.fate == by_devices.Fate.SILENT) + request.first).tolist()
        del self._requests[request.kind], self._waves[request.kind]
        return [tell_withdrawn(silent)]


def share_of(mode: EvalMode, clients: bool) -> EvalShare:
    """Who judges a model of which clients' own scores are wanted too, or not.

    Devices are asked for every model if they alone judge; beside the server only where clients' scores are wanted.
    """
    match mode:
        case "server":
            return EvalShare(True, clients, False)
        case "devices":
            return EvalShare(False, False, True)
        case "both":
            return EvalShare(True, False, clients)


def evaluation_fact(
    now: float, version: int, central: EvalResult | None, request: EvalRequest | None, kind: Kind = CLASSIFICATION
) -> Evaluated:
    """The fact that follows from what server and devices found; without the server the devices' samples are the test set.

    Devices report a score and a loss. The other measures of the task's kind are unknown then, and named all the same: by them a
    reader knows what the score is.
    """
    if central is None:
        assert request is not None
        score = replace(by_devices.overall_score(request), measures=dict.fromkeys(kind.measures, math.nan))
    else:
        score = central.score
    clients = by_devices.client_scores(request) if request is not None else None if central is None else central.clients
    unseen = None if central is None else central.unseen
    return Evaluated(now, version, score.correct, score.total, score.loss, clients, unseen, score.measures)
