"""A commit, worked out beside the processor's loop: partial sums are merged, or spooled reports folded, and a model is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.codec import Codec
from fedfleet.core.commands import Gather
from fedfleet.core.container import unpack_tree
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.events import ReportsGathered
from fedfleet.core.parts import FoldResult, Plan
from fedfleet.core.records import Rejection, Report
from fedfleet.core.trees import Tree
from fedfleet.engine.coordinator import make_model
from fedfleet.executors.gather import finish_gather, fold_in_order, stat_columns
from fedfleet.network.frontend.spool import read_spool
from fedfleet.store.aggregates import keep_aggregate
from fedfleet.store.client_memory import ClientMemory
from fedfleet.store.files import load_tree
from fedfleet.store.noise_source import NoiseSource


class ReportMeta(NamedTuple):
    """What a device said beside its update: the weight, and statistics by name. Small, since there is one for every report."""

    weight: float
    names: tuple[str, ...]
    values: tuple[float, ...]

    def stats(self) -> dict[str, float]:
        """By name."""
        return dict(zip(self.names, self.values, strict=True))


@dataclass(frozen=True, slots=True)
class CommitJob:
    """Everything that a commit needs: what is asked for, who was refused already, and where the reports are."""

    command: Gather
    bucket: int
    refusals: Mapping[int, str]
    metas: Mapping[int, ReportMeta]
    sums: Sequence[str]  # files of partial sums
    count: int  # of reports in them
    spools: Sequence[str]  # folders, where reports were spooled instead


def make_commit(
    plan: Plan, job: CommitJob, codecs: Mapping[int, Codec], keep: tuple[Path, int] | None, noising: NoiseSource
) -> ReportsGathered:
    """The fact that follows from a closed bucket, with the model that it makes; its aggregate is on the disk before.

    `keep` is the folder of the run and the number of this gathering; `codecs` says in which code a client's reports came.
    """
    command = job.command
    folded = _fold_spools(plan, job, codecs) if job.spools else _fold_sums(plan, job)
    fact = finish_gather(plan, ClientMemory(), command.contexts, folded, 0.0, (command.version, noising.key))
    if keep is not None:
        keep_aggregate(*keep, fact)
    commit = make_model(plan.algorithm, command.server, fact)
    if commit is not None:
        str(commit.name)  # hashing a large model takes milliseconds, which the loop shall not spend
    for path in job.sums:
        Path(path).unlink(missing_ok=True)
    return replace(fact, made=commit)


def _fold_sums(plan: Plan, job: CommitJob) -> FoldResult:
    fold, command = plan.algorithm.fold, job.command
    acc = aggregation.zero(fold, command.server)
    for path in job.sums:
        acc = aggregation.merge(fold, acc, aggregation.load(fold, command.server, load_tree(Path(path))[0]))
    tasks = [task for task in command.tasks if task not in job.refusals]
    if len(tasks) != job.count or acc.count != job.count:
        raise RunFailed(
            f"the sums of version {command.version} hold {acc.count} reports ({job.count} by the transmitters' count) and the "
            f"journal {len(tasks)}: the server is broken, and nothing was committed"
        )
    stats = stat_columns([job.metas[task].stats() for task in tasks])
    return FoldResult(acc, np.array(tasks, np.int64), stats, _rejections(job))


def _fold_spools(plan: Plan, job: CommitJob, codecs: Mapping[int, Codec]) -> FoldResult:
    command, algorithm = job.command, plan.algorithm
    spooled = {
        entry.task: (entry, data) for folder in job.spools for entry, data in read_spool(Path(folder), job.bucket)
    }
    refusals = dict(job.refusals)
    reports: list[Report] = []
    contexts = [c for c in command.contexts if c.task not in job.refusals]
    for context in contexts:
        if context.task not in spooled:
            raise RunFailed(f"the report of task {context.task} is not in the spool: nothing was committed")
        entry, data = spooled[context.task]
        stats = dict(zip(entry.names[: entry.stats], entry.values[: entry.stats], strict=True))
        try:
            update = _decode_update(data, codecs.get(context.client), algorithm.fold.like(command.server))
        except Refused as error:
            refusals[context.task] = f"client {context.client}: {error}"
            continue
        reports.append(Report(context.task, context.client, update, entry.weight, stats))
    usable = [c for c in contexts if c.task not in refusals]
    folded = fold_in_order(algorithm.fold, command.server, reports, usable, algorithm.accept)
    rejections = _rejections(replace(job, refusals=refusals))
    return replace(folded, rejected=tuple(sorted((*folded.rejected, *rejections), key=lambda r: r.task)))


def _decode_update(data: bytes, codec: Codec | None, like: Tree) -> Tree:
    if codec is None:
        return unpack_tree(data) if data else {}
    from fedfleet.learn.codecs.messages import decode_bytes

    return decode_bytes(codec, data, like)


def _rejections(job: CommitJob) -> tuple[Rejection, ...]:
    clients = {context.task: context.client for context in job.command.contexts}
    return tuple(Rejection(task, clients[task], why) for task, why in sorted(job.refusals.items()) if task in clients)


def will_commit(plan: Plan, command: Gather, refusals: Mapping[int, str]) -> bool:
    """Is it certain that this gathering makes a model? Only for folds that stream: what they refuse is known beforehand."""
    remaining = sum(task not in refusals for task in command.tasks)
    return remaining >= max(1, plan.algorithm.fold.least)
