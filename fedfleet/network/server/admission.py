"""Claims: a whole report is here, and the processor says what becomes of it. A grant is the arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedfleet.core import exact
from fedfleet.core.aggregation import Entry, entry_refusal
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.events import ReportUnwanted
from fedfleet.core.records import Context, Wave
from fedfleet.engine.state import Ending, Phase, RunState, in_order_of_arrival
from fedfleet.network.evaluation.by_devices import is_eval_task
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.task_table import Claim, VerdictKind
from fedfleet.network.server.commit import try_close
from fedfleet.network.server.commit_work import ReportMeta, will_commit
from fedfleet.network.server.reported_costs import ReportedCost

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import ServerLoop

_STATUS = {
    VerdictKind.GRANT: pb.Receipt.SAFE,
    VerdictKind.REGRANT: pb.Receipt.SAFE,
    VerdictKind.SAFE: pb.Receipt.SAFE,
    VerdictKind.RETRY: pb.Receipt.RETRY,
    VerdictKind.REFUSE: pb.Receipt.REFUSED,
    VerdictKind.BUSY: pb.Receipt.BUSY,
    VerdictKind.LATE: pb.Receipt.UNWANTED,
    VerdictKind.DUPLICATE: pb.Receipt.UNWANTED,
    VerdictKind.DECLINED: pb.Receipt.UNWANTED,
    VerdictKind.STRANGER: pb.Receipt.REFUSED,
}


def current_bucket(state: RunState) -> int:
    """The bucket that a report goes to that arrives now: one for each round, and while one is gathered, the next."""
    return state.book.round + (state.phase is Phase.GATHERING)


def answer_claim(server: ServerLoop, index: int, claim: inside.Claim) -> None:
    """Judge a report that is here, and queue the answer."""
    if is_eval_task(claim.task):
        server.outbox(index).grants.append(server.evaluations.answer_claim(claim, server.now()))
        return
    table_claim = Claim(
        claim.task, claim.client, True, claim.crc32c, claim.nbytes, claim.weight, claim.fault, claim.declined, index
    )
    verdict = server.tasks.decide(table_claim, server.now())
    grant = inside.Grant(
        number=claim.number, status=_STATUS[verdict.kind], reason=verdict.reason, seconds=verdict.seconds
    )
    match verdict.kind:
        case VerdictKind.GRANT | VerdictKind.REGRANT:
            _grant(server, index, claim, grant, arrived=verdict.arrived)
        case VerdictKind.REFUSE:
            server.reject(claim.task, verdict.reason, claim.nbytes)
        case VerdictKind.DECLINED:
            wave = server.state.running.get(claim.task)
            if wave is not None:
                server.lose(claim.task, wave, f"its device declined: {verdict.reason}")
            server.withdraw([claim.task])
        case VerdictKind.LATE | VerdictKind.DUPLICATE if server.state.phase is Phase.DONE:
            pass  # the journal has ended: nothing may follow its last event
        case VerdictKind.LATE | VerdictKind.DUPLICATE:
            server.outbox(index).withdrawn.append(claim.task)  # should it still be on the list there
            lateness = "late" if verdict.kind is VerdictKind.LATE else "again"
            size = claim.nbytes * server.plan.byte_scale
            server.react(ReportUnwanted(server.now(), claim.task, claim.client, size, lateness))
        case VerdictKind.STRANGER:
            server.strikes += 1
        case VerdictKind.SAFE:
            server.outbox(index).withdrawn.append(claim.task)
        case VerdictKind.RETRY | VerdictKind.BUSY:
            pass
    if verdict.kind is VerdictKind.REFUSE:
        server.withdraw([claim.task])
    server.outbox(index).grants.append(grant)
    server.react_all()
    try_close(server)


def _grant(server: ServerLoop, index: int, claim: inside.Claim, grant: inside.Grant, *, arrived: bool) -> None:
    task, now = claim.task, server.now()
    if arrived:  # what was journalled of its arrival holds
        ending, bucket = _find_ending(server, task)
        wave, seconds = ending.wave, ending.seconds
    else:
        wave, bucket = server.state.running[task], current_bucket(server.state)
        seconds = now - wave.time
    meta = ReportMeta(claim.weight, tuple(claim.names[: claim.stats]), tuple(claim.values[: claim.stats]))
    entry, refusal = Entry(claim.weight), None
    if server.streams:
        entry, refusal = _fold_entry(server, meta, _context(server, task, wave, bucket, seconds), bucket)
    if refusal is None:
        grant.granted, grant.bucket, grant.weight, grant.factor = True, bucket, entry.weight, entry.factor
        grant.sum, grant.time, grant.order = entry.sum, now, server.order
        server.order += 1
        key = index, bucket, entry.sum
        server.weights[key] = server.weights.get(key, 0) + exact.weight_units(entry.weight)
    else:
        server.tasks.settle([task], folded=False)
        server.refusals.add(task, f"client {claim.client}: {refusal}")
        grant.status, grant.reason = pb.Receipt.REFUSED, refusal
        server.withdraw([task])
    server.report_metas[task] = meta
    names, stage_seconds = claim.names[claim.stats :], claim.values[claim.stats :]
    size = (claim.decoded_nbytes or claim.nbytes) * server.plan.byte_scale
    server.reported_costs[task] = ReportedCost(size, dict(zip(names, stage_seconds, strict=True)))
    if not arrived:
        server.record_arrival(task, wave, size, now)


def _fold_entry(server: ServerLoop, meta: ReportMeta, context: Context, bucket: int) -> tuple[Entry, str | None]:
    """How a report enters the sums, or why it may not."""
    fold = server.plan.algorithm.fold
    try:
        entry = fold.enter(meta.weight, meta.stats(), context)
    except Refused as error:
        return Entry(meta.weight), str(error)
    return entry, entry_refusal(fold, entry) or _weight_refusal(server, bucket, entry)


def _weight_refusal(server: ServerLoop, bucket: int, entry: Entry) -> str | None:
    limit = server.plan.algorithm.fold.total_weight
    granted_units = sum(
        units
        for (_, entry_bucket, name), units in server.weights.items()
        if entry_bucket == bucket and name == entry.sum
    )
    if granted_units + exact.weight_units(entry.weight) <= limit * 2.0**60:
        return None
    return f"with its weight {entry.weight:g} those of one commit would exceed {limit:g}; raise the fold's total_weight"


def _context(server: ServerLoop, task: int, wave: Wave, bucket: int, seconds: float) -> Context:
    """What its commit will know of a report: also of one that comes while the commit before is still being made."""
    version = server.state.book.version
    if server.gathering is not None and bucket > server.state.book.round:
        version += will_commit(server.plan, server.gathering, server.refusals.reasons)
    slot = task - wave.first
    settings = {name: float(column[slot]) for name, column in wave.assignments.settings.items()}
    return Context(version - wave.version, seconds, int(wave.assignments.clients[slot]), settings, task)


def _find_ending(server: ServerLoop, task: int) -> tuple[Ending, int]:
    """How a task ended whose report arrived, and the bucket that it belongs to."""
    for chain, bucket in (
        (server.state.gathering, server.state.book.round),
        (server.state.ended, current_bucket(server.state)),
    ):
        for ending in in_order_of_arrival(chain):
            if ending.task == task:
                return ending, bucket
    raise RunFailed(f"task {task} was granted again, and nobody waits for it: the server is broken")
