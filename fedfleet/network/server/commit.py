"""Commits: a bucket is closed when everything that was granted is on a disk, and becomes a model beside the loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from fedfleet.core.events import ReportsGathered
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.server.blobs import Blob
from fedfleet.network.server.commit_work import CommitJob, make_commit

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop

_TRIES = 8  # of sums that do not hold what was granted; some are merely older than a report that was granted again


def try_close(server: ServerLoop) -> None:
    """Ask for the sums, once nothing that was granted can be missing from them."""
    assert server.supervisor is not None
    if (
        server.gathering is None
        or server.closed_parts is not None
        or not all(t.ready for t in server.supervisor.frontends)
    ):
        return
    wanted = [task for task in server.gathering.tasks if task not in server.refusals.reasons]
    if any(server.tasks.phase(task) is Phase.RELEASED for task in wanted):
        return
    server.closed_parts = {}
    server.close_attempts += 1
    for out in server.outboxes():
        out.close.append(server.state.book.round)
    server.schedule()


def collect_sums(server: ServerLoop, index: int, part: inside.Closed) -> None:
    """The sums of one transmitter are there; when all are, a model is made of them, once."""
    if (
        server.closed_parts is None
        or server.committing
        or server.gathering is None
        or part.bucket != server.state.book.round
    ):
        return
    server.closed_parts[index] = part
    assert server.supervisor is not None
    if len(server.closed_parts) < len(server.supervisor.frontends):
        return
    command, parts = server.gathering, list(server.closed_parts.values())
    wanted = [task for task in command.tasks if task not in server.refusals.reasons]
    # One died after it had closed, before all had: what it lost is waited for, and what others closed before that is too old.
    unsafe = server.options.durable and server.tasks.unsafe_tasks(wanted)
    stale = server.streams and sum(p.count for p in parts) != len(wanted)
    if unsafe or (stale and server.close_attempts < _TRIES):
        server.closed_parts = None
        try_close(server)
        return
    reasons = {task: server.refusals.reasons[task] for task in command.tasks if task in server.refusals.reasons}
    spools = [] if server.streams else [frontend.config.folder for frontend in server.supervisor.frontends]
    sums = [p.path for p in parts if p.path] if server.streams else []
    metas = {task: server.report_metas[task] for task in command.tasks if task in server.report_metas}
    job = CommitJob(command, part.bucket, reasons, metas, sums, sum(p.count for p in parts), spools)
    server.tasks.hand_in(wanted)
    server.committing = True
    server.run_in_background(_commit(server, job))


async def _commit(server: ServerLoop, job: CommitJob) -> None:
    keep = (server.served.folder, server.gatherings) if server.options.durable else None
    loop = asyncio.get_running_loop()
    fact: ReportsGathered = await loop.run_in_executor(
        server.worker, make_commit, server.plan, job, server.codecs, keep, server.served.noising
    )
    blob = None
    if fact.made is not None:
        blob = await loop.run_in_executor(server.worker, server.offers.encode_model, fact.made.server)
    server.schedule(lambda: _finish_commit(server, job, fact, blob))


def _finish_commit(server: ServerLoop, job: CommitJob, fact: ReportsGathered, blob: Blob | None) -> None:
    server.gatherings += 1
    server.gathering, server.closed_parts, server.committing, server.close_attempts = None, None, False, 0
    clients = {context.task: context.client for context in job.command.contexts}
    folded = fact.tasks.tolist()
    for task in folded:  # in task order: of two reports of one client the later one's memory stands
        server.client_state.record_folded(clients[task], task)
    server.tasks.settle(folded, folded=True)
    server.tasks.settle([r.task for r in fact.rejected], folded=False)
    for task in job.command.tasks:
        server.report_metas.pop(task, None)
    server.refusals.forget(job.command.tasks)
    server.discard(job.bucket)
    if blob is not None:
        server.offers.register_version(blob, job.command.version)
    server.react(replace(fact, time=server.now()))
    server.react_all()
    server.offers.drop_unused(server.state, server.outboxes(), server.evaluations.versions())
