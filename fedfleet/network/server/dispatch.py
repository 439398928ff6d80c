"""What transmitters say: who called, what their disks hold, who wants to be admitted, which sums they have."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core import exact
from fedfleet.core.records import FOLDED
from fedfleet.engine.state import Ending, RunState, in_order_of_arrival
from fedfleet.network.frontend.report_log import LogEntry, entry_from_bytes
from fedfleet.network.operations.counters import update_process as count
from fedfleet.network.operations.metrics import status_json
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.task_table import NO_FRONTEND, Claim
from fedfleet.network.security.enrolment_request import Admission
from fedfleet.network.security.secrets import secret_of, sign_config
from fedfleet.network.server.admission import answer_claim, current_bucket
from fedfleet.network.server.commit import collect_sums, try_close
from fedfleet.network.server.commit_work import ReportMeta
from fedfleet.network.server.reported_costs import ReportedCost

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop


def uncommitted_arrivals(state: RunState) -> list[Ending]:
    """Tasks whose reports arrived and are not committed."""
    chains = (state.ended, state.gathering)
    return [e for chain in chains for e in in_order_of_arrival(chain) if e.fate == FOLDED]


def handle_message(server: ServerLoop, index: int, message: inside.ToProcessor) -> None:
    """Take in what a transmitter said in one of its turns."""
    now = server.now()
    if message.heard:
        clients = np.array(message.heard, np.int64)
        server.presence.record_calls(clients, np.array(message.heard_back), now)
        server.checkpoint_writer.record_checkins(clients, now)
    if message.gone:
        server.presence.record_departures(np.array(message.gone, np.int64))
    if message.HasField("ready"):
        _on_ready(server, index, message.ready)
    if message.safe:
        server.tasks.mark_safe(message.safe)
        _withdraw_elsewhere(server, index, message.safe)
    for claim in message.claims:
        answer_claim(server, index, claim)
    if message.enrolling:
        _enrol(server, index, list(message.enrolling))
    for question in message.asking:
        server.outbox(index).told.append(inside.Told(number=question.number, json=status_json(server.figures())))
    for part in message.closed:
        collect_sums(server, index, part)
    server.strikes += len(message.strikes)
    for strike in message.strikes:
        server.log("warning", "an upload was damaged or wrongly addressed", device=strike.client, reason=strike.reason)


def record_counters(server: ServerLoop, index: int, message: inside.ToProcessor) -> None:
    """Take in what a transmitter counted; in its next life it counts from 0 again."""
    if message.counters:
        assert server.supervisor is not None
        server.counters[index] = dict(message.counters)
        server.totals = count(server.totals, index, server.supervisor.frontends[index].deaths, server.counters[index])


def _on_ready(server: ServerLoop, index: int, ready: inside.Ready) -> None:
    """A transmitter listens: what its disk holds is safe, and it learns what all others know."""
    assert server.supervisor is not None
    for damage in ready.damages:
        server.warn(damage)
    open_buckets = {current_bucket(server.state), server.state.book.round}
    tasks: list[int] = []
    stale_buckets: list[int] = []
    server.weights = {
        key: units for key, units in server.weights.items() if key[0] != index
    }  # what it lost weighs nothing
    for part in ready.found:
        if part.bucket not in open_buckets:
            stale_buckets.append(part.bucket)
            continue
        entries = [entry_from_bytes(data) for data in part.entries]
        if not _adopt_entries(server, index, entries):
            stale_buckets.append(part.bucket)
            continue
        for entry in entries:
            tasks.append(entry.task)
            server.order = max(server.order, entry.order + 1)
            server.report_metas.setdefault(
                entry.task, ReportMeta(entry.weight, entry.names[: entry.stats], entry.values[: entry.stats])
            )
            server.reported_costs.setdefault(entry.task, reported_cost(server, entry))
            key = index, part.bucket, entry.sum
            server.weights[key] = server.weights.get(key, 0) + exact.weight_units(entry.weight)
    if stale_buckets:  # at once: what is granted in this turn may go to a bucket of the same number
        server.served.journal.flush()
        server.supervisor.send_now(index, inside.ToTransmitter(discard=stale_buckets))
    server.tasks.release(index, tasks)
    _withdraw_elsewhere(server, index, tasks)
    server.supervisor.frontends[index].ready = True
    send_full_state(server, server.outbox(index))
    revoke(server, server.served.registry.raised_generations(), only=index)
    if all(frontend.ready for frontend in server.supervisor.frontends):
        server.tasks.release(NO_FRONTEND, ())
    if server.closed_parts is not None and not server.committing:  # what it had handed in before is too old
        server.closed_parts.pop(index, None)
        server.outbox(index).close.append(server.state.book.round)
    try_close(server)


def _withdraw_elsewhere(server: ServerLoop, index: int, tasks: Sequence[int]) -> None:
    """What one transmitter has made safe, the others must not hand out again."""
    assert server.supervisor is not None
    for other, frontend in enumerate(server.supervisor.frontends):
        if other != index and frontend.ready:
            frontend.outbox.withdrawn.extend(tasks)


def _adopt_entries(server: ServerLoop, index: int, entries: list[LogEntry]) -> bool:
    """Does the journal know of these reports? If its end was lost, those that it still waits for arrive now."""
    running, arrived_tasks = server.state.running, {ending.task for ending in uncommitted_arrivals(server.state)}
    if any(entry.task not in running and entry.task not in arrived_tasks for entry in entries):
        server.warn(
            f"transmitter {index} held {len(entries)} reports of a round that the journal does not know any more; they are lost"
        )
        return False
    for entry in entries:
        if entry.task in running:
            claim = Claim(entry.task, entry.client, True, entry.crc32c, entry.nbytes, entry.weight, frontend=index)
            server.tasks.decide(claim, server.now())
            server.record_arrival(entry.task, running[entry.task], entry.nbytes * server.plan.byte_scale, server.now())
            server.react_all()
    return True


def send_full_state(server: ServerLoop, out: inside.ToTransmitter) -> None:
    """Tell a transmitter that has just started all that the others know."""
    server.offers.add_full_state(out, server.state, server.client_state.memory_task)
    server.evaluations.add_full_state(out)
    server.return_times.add_full_state(server, out)
    out.drain = server.draining
    out.over = server.end_reason


def reported_cost(server: ServerLoop, entry: LogEntry) -> ReportedCost:
    """What is known of a report's cost from what was written down of it."""
    names, values = entry.names[entry.stats :], entry.values[entry.stats :]
    return ReportedCost(entry.nbytes * server.plan.byte_scale, dict(zip(names, values, strict=True)))


def revoke(server: ServerLoop, changed: Sequence[tuple[int, int]], only: int | None = None) -> None:
    """Tell transmitters which generation's secret holds."""
    outs = server.outboxes() if only is None else [server.outbox(only)]
    for client, generation in changed:
        for out in outs:
            out.revoked.append(client)
            out.generations.append(generation)


def _enrol(server: ServerLoop, index: int, enrolments: list[inside.Enrolling]) -> None:
    requests = [(pb.EnrolRequest.FromString(a.request), a.peer) for a in enrolments]
    for enrolment, outcome in zip(enrolments, server.served.registry.enrol_all(requests, time.time()), strict=True):
        answer = inside.Enrolled(number=enrolment.number)
        if isinstance(outcome, Admission):
            secret, client_config = (
                secret_of(server.served.key, outcome.client, outcome.generation),
                server.served.client_config(outcome.client),
            )
            reply = pb.EnrolReply(client=outcome.client, secret=secret, sheet=client_config, run=server.served.name)
            reply.signature = sign_config(secret, client_config)
            answer.reply = reply.SerializeToString()
            if outcome.new and outcome.generation > 1:
                server.client_state.record_takeover(outcome.client, server.state.next_task)
            server.log("info", "a device enrolled", device=outcome.client, peer=enrolment.peer)
        else:
            answer.refused = outcome.sentence
            server.log("warning", "a device was not admitted", reason=outcome.sentence, peer=enrolment.peer)
        server.outbox(index).enrolled.append(answer)
    revoke(server, server.served.registry.take_changes())
