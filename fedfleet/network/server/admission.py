"""Claims: a whole report is here, and the processor says what becomes of it. A grant is the arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedfleet.core import exact
from fedfleet.core.aggregation import Entry, entry_refusal
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.events import ReportUnwanted
from fedfleet.core.records import Context, Wave
from fedfleet.engine.state import Ending, Phase, RunState, in_order_of_arrival
from fedfleet.network.evaluation.by_devices import judges
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.task_table import Claimed, Kind
from fedfleet.network.server.commit import try_close
from fedfleet.network.server.commit_work import Told, will_commit
from fedfleet.network.server.reported_costs import Said

if TYPE_CHECKING:
    from fedfleet.network.server.server_loop import Processor

_STATUS = {
    Kind.GRANT: pb.Receipt.SAFE, Kind.REGRANT: pb.Receipt.SAFE, Kind.SAFE: pb.Receipt.SAFE, Kind.RETRY: pb.Receipt.RETRY,
    Kind.REFUSE: pb.Receipt.REFUSED, Kind.BUSY: pb.Receipt.BUSY, Kind.LATE: pb.Receipt.UNWANTED,
    Kind.AGAIN: pb.Receipt.UNWANTED, Kind.DECLINED: pb.Receipt.UNWANTED, Kind.STRANGER: pb.Receipt.REFUSED,
}  # fmt: skip


def bucket_of(state: RunState) -> int:
    """The bucket that a report goes to that arrives now: one for each round, and while one is gathered, the next."""
    return state.book.round + (state.phase is Phase.GATHERING)


def claimed(of: Processor, index: int, claim: inside.Claim) -> None:
    """Judge a report that is here, and queue the answer."""
    if judges(claim.task):
        of.out(index).grants.append(of.judgement.claimed(claim, of.now()))
        return
    asked = Claimed(
        claim.task, claim.client, True, claim.crc32c, claim.nbytes, claim.weight, claim.fault, claim.declined, index
    )
    verdict = of.tasks.judge(asked, of.now())
    grant = inside.Grant(
        number=claim.number, status=_STATUS[verdict.kind], reason=verdict.reason, seconds=verdict.seconds
    )
    match verdict.kind:
        case Kind.GRANT | Kind.REGRANT:
            _grant(of, index, claim, grant, arrived=verdict.arrived)
        case Kind.REFUSE:
            of.reject(claim.task, verdict.reason, claim.nbytes)
        case Kind.DECLINED:
            wave = of.state.running.get(claim.task)
            if wave is not None:
                of.lose(claim.task, wave, f"its device declined: {verdict.reason}")
            of.withdraw([claim.task])
        case Kind.LATE | Kind.AGAIN if of.state.phase is Phase.DONE:
            pass  # the journal has ended: nothing may follow its last event
        case Kind.LATE | Kind.AGAIN:
            of.out(index).withdrawn.append(claim.task)  # should it still be on the list there
            late = "late" if verdict.kind is Kind.LATE else "again"
            size = claim.nbytes * of.plan.byte_scale
            of.react(ReportUnwanted(of.now(), claim.task, claim.client, size, late))
        case Kind.STRANGER:
            of.strikes += 1
        case Kind.SAFE:
            of.out(index).withdrawn.append(claim.task)
        case Kind.RETRY | Kind.BUSY:
            pass
    if verdict.kind is Kind.REFUSE:
        of.withdraw([claim.task])
    of.out(index).grants.append(grant)
    of.react_all()
    try_close(of)


def _grant(of: Processor, index: int, claim: inside.Claim, grant: inside.Grant, *, arrived: bool) -> None:
    task, now = claim.task, of.now()
    if arrived:  # what was journalled of its arrival holds
        ending, bucket = _ending_of(of, task)
        wave, seconds = ending.wave, ending.seconds
    else:
        wave, bucket = of.state.running[task], bucket_of(of.state)
        seconds = now - wave.time
    told = Told(claim.weight, tuple(claim.names[: claim.stats]), tuple(claim.values[: claim.stats]))
    entry, why = Entry(claim.weight), None
    if of.streams:
        entry, why = _entry(of, told, _context(of, task, wave, bucket, seconds), bucket)
    if why is None:
        grant.granted, grant.bucket, grant.weight, grant.factor = True, bucket, entry.weight, entry.factor
        grant.sum, grant.time, grant.order = entry.sum, now, of.order
        of.order += 1
        key = index, bucket, entry.sum
        of.weights[key] = of.weights.get(key, 0) + exact.units(entry.weight)
    else:
        of.tasks.settle([task], folded=False)
        of.refusals.add(task, f"client {claim.client}: {why}")
        grant.status, grant.reason = pb.Receipt.REFUSED, why
        of.withdraw([task])
    of.told[task] = told
    names, spent = claim.names[claim.stats :], claim.values[claim.stats :]
    size = (claim.decoded_nbytes or claim.nbytes) * of.plan.byte_scale
    of.said[task] = Said(size, dict(zip(names, spent, strict=True)))
    if not arrived:
        of.arrive(task, wave, size, now)


def _entry(of: Processor, told: Told, context: Context, bucket: int) -> tuple[Entry, str | None]:
    """How a report enters the sums, or why it may not."""
    fold = of.plan.algorithm.fold
    try:
        entry = fold.enter(told.weight, told.stats(), context)
    except Refused as wrong:
        return Entry(told.weight), str(wrong)
    return entry, entry_refusal(fold, entry) or _overweight(of, bucket, entry)


def _overweight(of: Processor, bucket: int, entry: Entry) -> str | None:
    most = of.plan.algorithm.fold.total_weight
    before = sum(units for (_, into, name), units in of.weights.items() if into == bucket and name == entry.sum)
    if before + exact.units(entry.weight) <= most * 2.0**60:
        return None
    return f"with its weight {entry.weight:g} those of one commit would exceed {most:g}; raise the fold's total_weight"


def _context(of: Processor, task: int, wave: Wave, bucket: int, seconds: float) -> Context:
    """What its commit will know of a report: also of one that comes while the commit before is still being made."""
    version = of.state.book.version
    if of.gathering is not None and bucket > of.state.book.round:
        version += will_commit(of.plan, of.gathering, of.refusals.reasons)
    slot = task - wave.first
    settings = {name: float(column[slot]) for name, column in wave.asked.settings.items()}
    return Context(version - wave.version, seconds, int(wave.asked.clients[slot]), settings, task)


def _ending_of(of: Processor, task: int) -> tuple[Ending, int]:
    """How a task ended whose report arrived, and the bucket that it belongs to."""
    for chain, bucket in ((of.state.gathering, of.state.book.round), (of.state.ended, bucket_of(of.state))):
        for ending in in_order_of_arrival(chain):
            if ending.task == task:
                return ending, bucket
    raise RunFailed(f"task {task} was granted again, and nobody waits for it: the server is broken")
