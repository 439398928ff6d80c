"""Aggregates that were kept: what each gathering of a served run brought, so that its models can be made again without devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ReportsGathered
from fedfleet.core.parts import Plan
from fedfleet.core.records import Rejection, ServerState
from fedfleet.store.files import DamagedFile, load_tree, save_tree

_AGGREGATE, _STATS = "aggregate/", "stats/"  # how the arrays of a kept gathering are named


def keep_aggregate(folder: Path, number: int, fact: ReportsGathered) -> None:
    """Keep what the n-th gathering brought, so that a replay needs no client: the aggregate, and the statistics."""
    (folder / "aggregates").mkdir(exist_ok=True)
    tree = {} if fact.aggregate is None else aggregation.save(fact.aggregate)
    named = {f"{_AGGREGATE}{n}": v for n, v in tree.items()} | {f"{_STATS}{n}": v for n, v in fact.stats.items()}
    meta = {"tasks": fact.tasks.tolist(), "rejected": [[r.task, r.client, r.reason] for r in fact.rejected]}
    save_tree(_path(folder, number), named, meta)


def load_aggregate(plan: Plan, folder: Path, server: ServerState, number: int, now: float) -> ReportsGathered:
    """What the n-th gathering brought, as it was kept."""
    try:
        named, meta = load_tree(_path(folder, number))
        tasks = np.array(meta["tasks"], np.int64)
        rejected = tuple(Rejection(task, client, reason) for task, client, reason in meta["rejected"])
        tree, stats = (
            {n.removeprefix(prefix): v for n, v in named.items() if n.startswith(prefix)} for prefix in (_AGGREGATE, _STATS)
        )
        sums = aggregation.load(plan.algorithm.fold, server, tree) if len(tasks) else None
    except (DamagedFile, ValueError, KeyError, TypeError, IndexError) as error:
        raise RunFailed(f"the kept aggregate {number} is missing or damaged: {error}") from None
    return ReportsGathered(now, sums, tasks, stats, rejected)


def _path(folder: Path, number: int) -> Path:
    return folder / "aggregates" / f"{number:08d}.safetensors"
