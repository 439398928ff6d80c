"""Commits: a bucket is closed when everything that was granted is on a disk, and becomes a model beside the loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from fedfleet.core.events import ReportsGathered
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.server.blobs import Blob
from fedfleet.network.server.commit_work import Bucket, gathered

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor

_TRIES = 8  # of sums that do not hold what was granted; some are merely older than a report that was granted again


def try_close(of: Processor) -> None:
    """Ask for the sums, once nothing that was granted can be missing from them."""
    assert of.tending is not None
    if of.gathering is None or of.closing is not None or not all(t.ready for t in of.tending.all):
        return
    came = [task for task in of.gathering.tasks if task not in of.refusals.reasons]
    if any(of.tasks.phase(task) is Phase.RELEASED for task in came):
        return
    of.closing = {}
    of.closes += 1
    for out in of.everybody():
        out.close.append(of.state.book.round)
    of.soon()


def closed(of: Processor, index: int, part: inside.Closed) -> None:
    """The sums of one transmitter are there; when all are, a model is made of them, once."""
    if of.closing is None or of.making or of.gathering is None or part.bucket != of.state.book.round:
        return
    of.closing[index] = part
    assert of.tending is not None
    if len(of.closing) < len(of.tending.all):
        return
    command, parts = of.gathering, list(of.closing.values())
    wanted = [task for task in command.tasks if task not in of.refusals.reasons]
    # One died after it had closed, before all had: what it lost is waited for, and what others closed before that is too old.
    unsafe = of.options.durable and of.tasks.unsafe(wanted)
    stale = of.streams and sum(p.count for p in parts) != len(wanted)
    if unsafe or (stale and of.closes < _TRIES):
        of.closing = None
        try_close(of)
        return
    reasons = {task: of.refusals.reasons[task] for task in command.tasks if task in of.refusals.reasons}
    spools = [] if of.streams else [tended.start.folder for tended in of.tending.all]
    sums = [p.path for p in parts if p.path] if of.streams else []
    told = {task: of.told[task] for task in command.tasks if task in of.told}
    bucket = Bucket(command, part.bucket, reasons, told, sums, sum(p.count for p in parts), spools)
    of.tasks.hand_in(wanted)
    of.making = True
    of.beside(_commit(of, bucket))


async def _commit(of: Processor, bucket: Bucket) -> None:
    keep = (of.served.folder, of.gatherings) if of.options.durable else None
    loop = asyncio.get_running_loop()
    fact: ReportsGathered = await loop.run_in_executor(
        of.worker, gathered, of.plan, bucket, of.codecs, keep, of.served.noising
    )
    blob = None
    if fact.made is not None:
        blob = await loop.run_in_executor(of.worker, of.offering.prepare, fact.made.server)
    of.soon(lambda: _committed(of, bucket, fact, blob))


def _committed(of: Processor, bucket: Bucket, fact: ReportsGathered, blob: Blob | None) -> None:
    of.gatherings += 1
    of.gathering, of.closing, of.making, of.closes = None, None, False, 0
    clients = {context.task: context.client for context in bucket.command.contexts}
    folded = fact.tasks.tolist()
    for task in folded:  # in task order: of two reports of one client the later one's memory stands
        of.memories.folded(clients[task], task)
    of.tasks.settle(folded, folded=True)
    of.tasks.settle([r.task for r in fact.rejected], folded=False)
    for task in bucket.command.tasks:
        of.told.pop(task, None)
    of.refusals.forget(bucket.command.tasks)
    of.discard(bucket.number)
    if blob is not None:
        of.offering.prepared(blob, bucket.command.version)
    of.react(replace(fact, time=of.now()))
    of.react_all()
    of.offering.tidy(of.state, of.everybody(), of.judgement.versions())
