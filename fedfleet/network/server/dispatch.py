"""What transmitters say: who called, what their disks hold, who wants to be admitted, which sums they have."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedfleet.core import exact
from fedfleet.core.records import FOLDED
from fedfleet.engine.state import Ending, RunState, in_order_of_arrival
from fedfleet.network.frontend.report_log import Entered, entry_from
from fedfleet.network.operations.counters import heard as count
from fedfleet.network.operations.metrics import status_json
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.task_table import NOBODY, Claimed
from fedfleet.network.security.enrolment_request import Admitted
from fedfleet.network.security.secrets import secret_of, signed
from fedfleet.network.server.admission import bucket_of, claimed
from fedfleet.network.server.commit import closed, try_close
from fedfleet.network.server.commit_work import Told
from fedfleet.network.server.reported_costs import Said

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor


def arrived(state: RunState) -> list[Ending]:
    """Tasks whose reports arrived and are not committed."""
    chains = (state.ended, state.gathering)
    return [e for chain in chains for e in in_order_of_arrival(chain) if e.fate == FOLDED]


def hear(of: Processor, index: int, message: inside.ToProcessor) -> None:
    """Take in what a transmitter said in one of its turns."""
    now = of.now()
    if message.heard:
        clients = np.array(message.heard, np.int64)
        of.presence.heard(clients, np.array(message.heard_back), now)
        of.saving.came(clients, now)
    if message.gone:
        of.presence.gone(np.array(message.gone, np.int64))
    if message.HasField("ready"):
        _ready(of, index, message.ready)
    if message.safe:
        of.tasks.safe(message.safe)
        _done_elsewhere(of, index, message.safe)
    for claim in message.claims:
        claimed(of, index, claim)
    if message.enrolling:
        _enrol(of, index, list(message.enrolling))
    for asking in message.asking:
        of.out(index).told.append(inside.Told(number=asking.number, json=status_json(of.figures())))
    for part in message.closed:
        closed(of, index, part)
    of.strikes += len(message.strikes)
    for strike in message.strikes:
        of.log("warning", "an upload was damaged or wrongly addressed", device=strike.client, reason=strike.reason)


def counted(of: Processor, index: int, message: inside.ToProcessor) -> None:
    """Take in what a transmitter counted; in its next life it counts from 0 again."""
    if message.counters:
        assert of.tending is not None
        of.counters[index] = dict(message.counters)
        of.totals = count(of.totals, index, of.tending.all[index].deaths, of.counters[index])


def _ready(of: Processor, index: int, ready: inside.Ready) -> None:
    """A transmitter listens: what its disk holds is safe, and it learns what all others know."""
    assert of.tending is not None
    for damage in ready.damages:
        of.remark(damage)
    now_open = {bucket_of(of.state), of.state.book.round}
    found: list[int] = []
    dead: list[int] = []
    of.weights = {key: units for key, units in of.weights.items() if key[0] != index}  # what it lost weighs nothing
    for part in ready.found:
        if part.bucket not in now_open:
            dead.append(part.bucket)
            continue
        entries = [entry_from(data) for data in part.entries]
        if not _recognised(of, index, entries):
            dead.append(part.bucket)
            continue
        for entry in entries:
            found.append(entry.task)
            of.order = max(of.order, entry.order + 1)
            of.told.setdefault(entry.task, Told(entry.weight, entry.names[: entry.stats], entry.values[: entry.stats]))
            of.said.setdefault(entry.task, said_of(of, entry))
            key = index, part.bucket, entry.sum
            of.weights[key] = of.weights.get(key, 0) + exact.units(entry.weight)
    if dead:  # at once: what is granted in this turn may go to a bucket of the same number
        of.served.journal.flush()
        of.tending.tell(index, inside.ToTransmitter(discard=dead))
    of.tasks.release(index, found)
    _done_elsewhere(of, index, found)
    of.tending.all[index].ready = True
    introduce(of, of.out(index))
    revoke(of, of.served.registry.raised(), only=index)
    if all(tended.ready for tended in of.tending.all):
        of.tasks.release(NOBODY, ())
    if of.closing is not None and not of.making:  # what it had handed in before is too old
        of.closing.pop(index, None)
        of.out(index).close.append(of.state.book.round)
    try_close(of)


def _done_elsewhere(of: Processor, index: int, tasks: Sequence[int]) -> None:
    """What one transmitter has made safe, the others must not hand out again."""
    assert of.tending is not None
    for other, tended in enumerate(of.tending.all):
        if other != index and tended.ready:
            tended.out.withdrawn.extend(tasks)


def _recognised(of: Processor, index: int, entries: list[Entered]) -> bool:
    """Does the journal know of these reports? If its end was lost, those that it still waits for arrive now."""
    running, came = of.state.running, {ending.task for ending in arrived(of.state)}
    if any(entry.task not in running and entry.task not in came for entry in entries):
        of.remark(
            f"transmitter {index} held {len(entries)} reports of a round that the journal does not know any more; they are lost"
        )
        return False
    for entry in entries:
        if entry.task in running:
            said = Claimed(entry.task, entry.client, True, entry.crc32c, entry.nbytes, entry.weight, transmitter=index)
            of.tasks.judge(said, of.now())
            of.arrive(entry.task, running[entry.task], entry.nbytes * of.plan.byte_scale, of.now())
            of.react_all()
    return True


def introduce(of: Processor, out: inside.ToTransmitter) -> None:
    """Tell a transmitter that has just started all that the others know."""
    of.offering.introduce(out, of.state, of.memories.task)
    of.judgement.introduce(out)
    of.guiding.introduce(of, out)
    out.drain = of.draining
    out.over = of.ended


def said_of(of: Processor, entry: Entered) -> Said:
    """What is known of a report's cost from what was written down of it."""
    names, values = entry.names[entry.stats :], entry.values[entry.stats :]
    return Said(entry.nbytes * of.plan.byte_scale, dict(zip(names, values, strict=True)))


def revoke(of: Processor, changed: Sequence[tuple[int, int]], only: int | None = None) -> None:
    """Tell transmitters which generation's secret holds."""
    outs = of.everybody() if only is None else [of.out(only)]
    for client, generation in changed:
        for out in outs:
            out.revoked.append(client)
            out.generations.append(generation)


def _enrol(of: Processor, index: int, asked: list[inside.Enrolling]) -> None:
    requests = [(pb.EnrolRequest.FromString(a.request), a.peer) for a in asked]
    for one, found in zip(asked, of.served.registry.enrol_all(requests, time.time()), strict=True):
        answer = inside.Enrolled(number=one.number)
        if isinstance(found, Admitted):
            secret, sheet = (
                secret_of(of.served.key, found.client, found.generation),
                of.served.sheet(found.client),
            )
            reply = pb.EnrolReply(client=found.client, secret=secret, sheet=sheet, run=of.served.name)
            reply.signature = signed(secret, sheet)
            answer.reply = reply.SerializeToString()
            if found.new and found.generation > 1:
                of.memories.taken_over(found.client, of.state.next_task)
            of.log("info", "a device enrolled", device=found.client, peer=one.peer)
        else:
            answer.refused = found.sentence
            of.log("warning", "a device was not admitted", reason=found.sentence, peer=one.peer)
        of.out(index).enrolled.append(answer)
    revoke(of, of.served.registry.changed())
