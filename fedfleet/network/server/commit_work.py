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
from fedfleet.core.container import unpacked
from fedfleet.core.errors import Refused, RunFailed
from fedfleet.core.events import ReportsGathered
from fedfleet.core.parts import Folded, Plan
from fedfleet.core.records import Rejected, Report
from fedfleet.core.trees import Tree
from fedfleet.engine.coordinator import make
from fedfleet.executors.gather import fold_in_order, settled, stat_columns
from fedfleet.network.frontend.spool import read_spool
from fedfleet.store.aggregates import keep_aggregate
from fedfleet.store.client_memory import ClientMemory
from fedfleet.store.files import load_tree
from fedfleet.store.noise_source import Noising


class Told(NamedTuple):
    """What a device said beside its update: the weight, and statistics by name. Small, since there is one for every report."""

    weight: float
    names: tuple[str, ...]
    values: tuple[float, ...]

    def stats(self) -> dict[str, float]:
        """By name."""
        return dict(zip(self.names, self.values, strict=True))


@dataclass(frozen=True, slots=True)
class Bucket:
    """Everything that a commit needs: what is asked for, who was refused already, and where the reports are."""

    command: Gather
    number: int
    refused: Mapping[int, str]
    told: Mapping[int, Told]
    sums: Sequence[str]  # files of partial sums
    count: int  # of reports in them
    spools: Sequence[str]  # folders, where reports were spooled instead


def gathered(
    plan: Plan, bucket: Bucket, codecs: Mapping[int, Codec], keep: tuple[Path, int] | None, noising: Noising
) -> ReportsGathered:
    """The fact that follows from a closed bucket, with the model that it makes; its aggregate is on the disk before.

    `keep` is the folder of the run and the number of this gathering; `codecs` says in which code a client's reports came.
    """
    command = bucket.command
    done = _from_spools(plan, bucket, codecs) if bucket.spools else _from_sums(plan, bucket)
    fact = settled(plan, ClientMemory(), command.contexts, done, 0.0, (command.version, noising.key))
    if keep is not None:
        keep_aggregate(*keep, fact)
    made = make(plan.algorithm, command.server, fact)
    if made is not None:
        str(made.name)  # hashing a large model takes milliseconds, which the loop shall not spend
    for path in bucket.sums:
        Path(path).unlink(missing_ok=True)
    return replace(fact, made=made)


def _from_sums(plan: Plan, bucket: Bucket) -> Folded:
    fold, command = plan.algorithm.fold, bucket.command
    acc = aggregation.zero(fold, command.server)
    for path in bucket.sums:
        acc = aggregation.merge(fold, acc, aggregation.load(fold, command.server, load_tree(Path(path))[0]))
    came = [task for task in command.tasks if task not in bucket.refused]
    if len(came) != bucket.count or acc.count != bucket.count:
        raise RunFailed(
            f"the sums of version {command.version} hold {acc.count} reports ({bucket.count} by the transmitters' count) and the "
            f"journal {len(came)}: the server is broken, and nothing was committed"
        )
    stats = stat_columns([bucket.told[task].stats() for task in came])
    return Folded(acc, np.array(came, np.int64), stats, _rejected(bucket))


def _from_spools(plan: Plan, bucket: Bucket, codecs: Mapping[int, Codec]) -> Folded:
    command, algorithm = bucket.command, plan.algorithm
    found = {
        entry.task: (entry, data) for folder in bucket.spools for entry, data in read_spool(Path(folder), bucket.number)
    }
    refused = dict(bucket.refused)
    reports: list[Report] = []
    contexts = [c for c in command.contexts if c.task not in bucket.refused]
    for context in contexts:
        if context.task not in found:
            raise RunFailed(f"the report of task {context.task} is not in the spool: nothing was committed")
        entry, data = found[context.task]
        stats = dict(zip(entry.names[: entry.stats], entry.values[: entry.stats], strict=True))
        try:
            update = _update(data, codecs.get(context.client), algorithm.fold.like(command.server))
        except Refused as wrong:
            refused[context.task] = f"client {context.client}: {wrong}"
            continue
        reports.append(Report(context.task, context.client, update, entry.weight, stats))
    usable = [c for c in contexts if c.task not in refused]
    done = fold_in_order(algorithm.fold, command.server, reports, usable, algorithm.accept)
    more = _rejected(replace(bucket, refused=refused))
    return replace(done, rejected=tuple(sorted((*done.rejected, *more), key=lambda r: r.task)))


def _update(data: bytes, codec: Codec | None, like: Tree) -> Tree:
    if codec is None:
        return unpacked(data) if data else {}
    from fedfleet.learn.codecs.messages import received

    return received(codec, data, like)


def _rejected(bucket: Bucket) -> tuple[Rejected, ...]:
    clients = {context.task: context.client for context in bucket.command.contexts}
    return tuple(Rejected(task, clients[task], why) for task, why in sorted(bucket.refused.items()) if task in clients)


def will_commit(plan: Plan, command: Gather, refused: Mapping[int, str]) -> bool:
    """Is it certain that this gathering makes a model? Only for folds that stream: what they refuse is known beforehand."""
    left = sum(task not in refused for task in command.tasks)
    return left >= max(1, plan.algorithm.fold.least)
