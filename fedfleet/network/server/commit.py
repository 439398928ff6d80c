"""Commits: a bucket is closed when every report granted in it is on a disk; a model is made of its sums in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.codec import Codec
from fedfleet.core.commands import Gather
from fedfleet.core.errors import Refused, RunFailed, printable
from fedfleet.core.events import ReportsGathered
from fedfleet.core.parts import FoldResult, Job, Plan
from fedfleet.core.passes import LocalPass
from fedfleet.core.records import Context, Rejection, Report, ServerState, Wave
from fedfleet.core.tensor_format import unpack_tree
from fedfleet.core.trees import Tree, mismatch
from fedfleet.engine.coordinator import make_model
from fedfleet.executors.gather import finish_gather, fold_in_order, stat_columns
from fedfleet.network.frontend.spool import read_spool
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Blob
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.security.sum_cipher import SumCipher, cipher_of
from fedfleet.network.server.admission import Admission
from fedfleet.network.server.offers import Offers
from fedfleet.network.server.served_plan import ServedRun, client_codecs, nested_pass
from fedfleet.network.server.turns import CommitJob, Effects, Tell
from fedfleet.store.aggregates import keep_aggregate
from fedfleet.store.client_memory import ClientMemory
from fedfleet.store.files import load_tree
from fedfleet.store.noise_source import NoiseSource

# Of sums that do not hold what was granted: some are merely older than a report that was granted again.
_TRIES = 8


class Commits:
    """The commit that is under way: what is gathered, which frontends handed in their sums, whether a model is being made."""

    def __init__(self, served: ServedRun, *, streams: bool, durable: bool, gatherings: int) -> None:
        self._served, self._streams, self._durable = served, streams, durable
        self._codecs = client_codecs(served.plan)
        self._thread = ThreadPoolExecutor(1, "fedfleet-commit")
        self.gatherings = gatherings  # how many there were
        self.gathering: Gather | None = None
        self.committing = False
        self._parts: dict[int, inside.Closed] | None = None  # by frontend, while a bucket is being closed
        self._attempts = 0  # how often frontends were asked for the sums of this bucket

    def on_gather(self, command: Gather) -> None:
        """The coordinator wants this bucket gathered."""
        self.gathering = command

    def try_close(self, admission: Admission, bucket: int) -> Effects:
        """Ask all frontends for their sums, once nothing that was granted can be missing from them."""
        if self.gathering is None or self._parts is not None:
            return []
        if any(admission.tasks.phase(task) is Phase.RELEASED for task in self._wanted(admission)):
            return []
        self._parts = {}
        self._attempts += 1
        return [Tell(inside.ToTransmitter(close=[bucket]))]

    def on_frontend_start(self, index: int, bucket: int) -> Effects:
        """A frontend started again: what it handed in before is too old."""
        if self._parts is None or self.committing:
            return []
        self._parts.pop(index, None)
        return [Tell(inside.ToTransmitter(close=[bucket]), index)]

    def on_closed(self, index: int, part: inside.Closed, admission: Admission, bucket: int, folders: Sequence[str]) -> Effects:
        """The sums of one frontend are here; when those of all are, a model is made of them, once.

        `folders` are the frontends' own, in which they spool reports.
        """
        if self._parts is None or self.committing or self.gathering is None or part.bucket != bucket:
            return []
        self._parts[index] = part
        if len(self._parts) < len(folders):
            return []
        command, parts, wanted = self.gathering, list(self._parts.values()), self._wanted(admission)
        # A frontend died after it had closed, before all had: what it lost is waited for, and what others handed in is too old.
        unsafe = self._durable and admission.tasks.unsafe_tasks(wanted)
        stale = self._streams and sum(p.count for p in parts) != len(wanted)
        if unsafe or (stale and self._attempts < _TRIES):
            self._parts = None
            return self.try_close(admission, bucket)
        reasons = {t: admission.rejections.reasons[t] for t in command.tasks if t in admission.rejections.reasons}
        metas = {t: admission.metas[t] for t in command.tasks if t in admission.metas}
        spools = [] if self._streams else list(folders)
        sums = [p.path for p in parts if p.path] if self._streams else []
        self.committing = True
        return [CommitJob(command, bucket, reasons, metas, sums, sum(p.count for p in parts), spools)]

    async def make(self, job: CommitJob, offers: Offers) -> tuple[ReportsGathered, Blob | None]:
        """Make the model of a job, and what devices will be offered of it, in a thread."""
        keep = (self._served.folder, self.gatherings) if self._durable else None
        loop = asyncio.get_running_loop()
        fact: ReportsGathered = await loop.run_in_executor(
            self._thread, make_commit, self._served.plan, job, self._codecs, keep, self._served.noising
        )
        if fact.made is None:
            return fact, None
        return fact, await loop.run_in_executor(self._thread, offers.encode_model, fact.made.server)

    def on_commit_end(self) -> None:
        """A gathering is over."""
        self.gatherings += 1
        self.gathering, self._parts, self.committing, self._attempts = None, None, False, 0

    def close(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _wanted(self, admission: Admission) -> list[int]:
        assert self.gathering is not None
        return [task for task in self.gathering.tasks if task not in admission.rejections.reasons]


def make_commit(
    plan: Plan, job: CommitJob, codecs: Mapping[int, Codec], keep: tuple[Path, int] | None, noising: NoiseSource
) -> ReportsGathered:
    """The fact that follows from a closed bucket, with the model that it makes; its aggregate is on the disk before.

    `keep` is the folder of the run and the number of this gathering; `codecs` says in which code a client's reports came.
    """
    command = job.command
    cipher = cipher_of(noising.key)
    folded = _fold_spools(plan, job, codecs, cipher) if job.spools else _fold_sums(plan, job, cipher)
    fact = finish_gather(plan, ClientMemory(), command.contexts, folded, 0.0, (command.version, noising.key))
    if keep is not None:
        keep_aggregate(*keep, fact)
    commit = make_model(plan.algorithm, command.server, fact)
    if commit is not None:
        str(commit.name)  # hashing a large model takes milliseconds, which the loop shall not spend
    for path in job.sums:
        Path(path).unlink(missing_ok=True)
    return replace(fact, made=commit)


def _fold_sums(plan: Plan, job: CommitJob, cipher: SumCipher | None) -> FoldResult:
    fold, command = plan.algorithm.fold, job.command
    acc = aggregation.zero(fold, command.server)
    for path in job.sums:
        tree, meta = load_tree(Path(path))
        sums = tree if cipher is None else cipher.decrypt_tree(tree, meta)
        acc = aggregation.merge(fold, acc, aggregation.load(fold, command.server, sums))
    tasks = [task for task in command.tasks if task not in job.refusals]
    if len(tasks) != job.count or acc.count != job.count:
        raise RunFailed(
            f"internal error: the sums of version {command.version} hold {acc.count} reports ({job.count} by the frontends' "
            f"count) and the journal {len(tasks)}; nothing was committed; please report this"
        )
    stats = stat_columns([job.metas[task].stats() for task in tasks])
    return FoldResult(acc, np.array(tasks, np.int64), stats, _rejections(job))


def _fold_spools(plan: Plan, job: CommitJob, codecs: Mapping[int, Codec], cipher: SumCipher | None) -> FoldResult:
    command, algorithm = job.command, plan.algorithm
    spooled = {entry.task: (entry, data) for folder in job.spools for entry, data in read_spool(Path(folder), job.bucket, cipher)}
    refusals = dict(job.refusals)
    reports: list[Report] = []
    nested = nested_pass(plan)
    contexts = [c for c in command.contexts if c.task not in job.refusals]
    waves = dict(zip(command.tasks, command.waves, strict=True)) if algorithm.fold.partial else {}
    for context in contexts:
        if context.task not in spooled:
            raise RunFailed(f"the report of task {context.task} is not in the spool: nothing was committed")
        entry, data = spooled[context.task]
        try:
            codec = codecs.get(context.client)
            like = {} if codec is None else sent_layout(plan, command.server, waves.get(context.task), context)
            update = _decode_update(data, codec, like)
            forwarded = None if nested is None else _forwarded_sums(plan, command.server, update)
        except Refused as error:
            refusals[context.task] = f"client {context.client}: {printable(str(error))}"
            continue
        stats = job.metas[context.task].stats()
        reports.append(Report(context.task, context.client, update, entry.weight, stats, forwarded=forwarded))
    usable = [c for c in contexts if c.task not in refusals]
    folded = fold_in_order(algorithm.fold, command.server, reports, usable, algorithm.accept)
    # What a fold says of a report may quote it.
    quoted = (replace(r, reason=printable(r.reason)) for r in folded.rejected)
    rejections = _rejections(replace(job, refusals=refusals))
    return replace(folded, rejected=tuple(sorted((*quoted, *rejections), key=lambda r: r.task)))


def _forwarded_sums(plan: Plan, server: ServerState, update: Tree) -> aggregation.Folding | None:
    """The exact sums that an edge sent; None if it sent an update. `Refused` if they are of another shape."""
    if not any(name.startswith("|") for name in update):
        return None
    fold = plan.algorithm.fold
    empty = aggregation.zero(fold, server)
    aggregation.sum_for(empty, "")
    odd = mismatch(update, aggregation.save(empty))
    if odd is not None:
        raise Refused(f"its sums are of another shape: {odd}")
    return aggregation.load(fold, server, update)


def sent_layout(plan: Plan, server: ServerState, wave: Wave | None, context: Context) -> Tree:
    """Names, shapes and types of what the client of this task sends: where methods cut the model, that is a part of it."""
    algorithm, client, settings = plan.algorithm, context.client, context.settings
    whole = algorithm.fold.like(server)
    if wave is None or not algorithm.fold.partial:
        return whole
    offer, local = algorithm.offer(wave.server, client, settings), algorithm.local(client, settings)
    key = int(wave.keys[context.task - wave.first])
    job = Job(context.task, client, key, plan.seed, offer, local, np.zeros(1, np.int64), settings=settings, round=wave.round)
    for hook in local.before if isinstance(local, LocalPass) else ():
        job = hook(job)
    if not isinstance(job.local, LocalPass):
        return whole
    offered = job.offer.params
    sent = {n: np.zeros(offered[n].shape, whole[n].dtype) for n in job.local.sent_names(offered) if n in whole}
    return {n: sent.get(n, v) for n, v in whole.items() if n in sent or n not in offered}


def _decode_update(data: bytes, codec: Codec | None, like: Tree) -> Tree:
    if codec is None:
        return unpack_tree(data) if data else {}
    from fedfleet.learn.codecs.messages import decode_bytes

    return decode_bytes(codec, data, like)


def _rejections(job: CommitJob) -> tuple[Rejection, ...]:
    clients = {context.task: context.client for context in job.command.contexts}
    return tuple(Rejection(task, clients[task], why) for task, why in sorted(job.refusals.items()) if task in clients)
