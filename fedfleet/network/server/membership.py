"""Membership: devices enrol and become clients; frontends are told whose secrets hold no more."""

from __future__ import annotations

import time
from collections.abc import Sequence

from fedfleet.network.operations.logs import Log
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.security.enrolment_request import Admission
from fedfleet.network.security.secrets import secret_of, sign_config
from fedfleet.network.server.durable_records import ClientState
from fedfleet.network.server.effects import Effects, Tell
from fedfleet.network.server.served_plan import ServedRun

_REVOCATIONS_SECONDS = 1.0


class Membership:
    """Answers requests to enrol. A device that takes a place over has none of the memory of the one before."""

    def __init__(self, served: ServedRun, client_state: ClientState) -> None:
        self._served, self._client_state = served, client_state
        self._revocations_due = 0.0

    def on_requests(self, index: int, requests: Sequence[inside.Enrolling], next_task: int, log: Log) -> Effects:
        """Answer devices that want to enrol through frontend `index`; `next_task`: the first task that is not given yet."""
        served, answers = self._served, list[inside.Enrolled]()
        parsed = [(pb.EnrolRequest.FromString(r.request), r.peer) for r in requests]
        for request, outcome in zip(requests, served.registry.enrol_all(parsed, time.time()), strict=True):
            answer = inside.Enrolled(number=request.number)
            if isinstance(outcome, Admission):
                secret = secret_of(served.key, outcome.client, outcome.generation)
                config = served.client_config(outcome.client)
                reply = pb.EnrolReply(client=outcome.client, secret=secret, sheet=config, run=served.name)
                reply.signature = sign_config(secret, config)
                answer.reply = reply.SerializeToString()
                if outcome.new and outcome.generation > 1:
                    self._client_state.record_takeover(outcome.client, next_task)
                log("info", "a device enrolled", device=outcome.client, peer=request.peer)
            else:
                answer.refused = outcome.sentence
                log("warning", "a device was not admitted", reason=outcome.sentence, peer=request.peer)
            answers.append(answer)
        return [Tell(inside.ToTransmitter(enrolled=answers), index), _revocations(served.registry.take_changes())]

    def on_time(self, now: float) -> Effects:
        """Other processes revoke clients too: see once a second whether one did."""
        if now < self._revocations_due:
            return []
        self._revocations_due = now + _REVOCATIONS_SECONDS
        return [_revocations(self._served.registry.take_changes())]

    def on_frontend_start(self, index: int) -> Effects:
        """A frontend that starts knows of no revocation."""
        return [_revocations(self._served.registry.raised_generations(), index)]


def _revocations(changed: Sequence[tuple[int, int]], frontend: int | None = None) -> Tell:
    clients, generations = [client for client, _ in changed], [generation for _, generation in changed]
    return Tell(inside.ToTransmitter(revoked=clients, generations=generations), frontend)
