"""A commit beside the loop: sums are merged or spools folded to the same bits; what does not add up is never committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.commands import Gather
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Plan
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import content_hash
from fedfleet.network.frontend.partial_sums import PartialSums, fold_layout
from fedfleet.network.frontend.report_log import LogEntry
from fedfleet.network.frontend.spool import Spool
from fedfleet.network.server.commit_work import CommitJob, ReportMeta, make_commit, will_commit
from fedfleet.store.aggregates import load_aggregate
from fedfleet.store.files import save_tree
from fedfleet.store.noise_source import SEEDED
from tests.network.scene import summed
from tests.network.toys import Toy, payload_of, plan_of

TASKS = range(5)
SERVER = ServerState({"w": np.zeros(4, np.float32)})


def report(task: int) -> Report:
    return Report(
        task, task + 10, {"w": np.arange(4, dtype=np.float32) / (task + 3)}, 1.0 + task, {"loss": float(task)}
    )


def entry(task: int) -> LogEntry:
    one = report(task)
    return LogEntry(task, one.client, task, 0.0, one.weight, 1.0, "", 0, 0, ("loss",), (float(task),), 1)


def command() -> Gather:
    contexts = tuple(Context(0, 1.0, report(task).client, {}, task) for task in TASKS)
    return Gather(tuple(TASKS), (), contexts, SERVER, 1)  # type: ignore[arg-type]


def bucket(**changes: object) -> CommitJob:
    told = {task: ReportMeta(report(task).weight, ("loss",), (float(task),)) for task in TASKS}
    return replace(CommitJob(command(), 0, {}, told, [], 0, []), **changes)  # type: ignore[arg-type]


def sums_in(folder: Path, plan: Plan, *parts: list[int]) -> list[str]:
    paths: list[str] = []
    for n, tasks in enumerate(parts):
        sums = PartialSums(fold_layout(plan.algorithm.fold, SERVER), None)
        for task in tasks:
            sums.add(0, entry(task), report(task).update)
        saved = sums.bucket_sums(0)
        assert saved is not None
        paths.append(str(folder / f"sums-{n}"))
        save_tree(Path(paths[-1]), saved)
    return paths


@pytest.mark.parametrize("parts", [([4, 0, 1, 3, 2],), ([0, 4], [3, 1, 2]), ([2], [0, 1], [4, 3])])
def test_sums_of_any_number_of_transmitters_make_one_model(parts: tuple[list[int], ...], tmp_path: Path) -> None:
    plan = plan_of(Toy())
    (tmp_path / "aggregates").mkdir()
    paths = sums_in(tmp_path, plan, *parts)
    fact = make_commit(plan, bucket(sums=paths, count=5), {}, (tmp_path, 0), SEEDED)
    assert fact.tasks.tolist() == list(TASKS) and fact.stats["loss"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert fact.made is not None
    import fedfleet.core.aggregation as folding

    whole = folding.load(
        plan.algorithm.fold,
        SERVER,
        summed(plan, SERVER, list(zip(map(report, TASKS), command().contexts, strict=True))),
    )
    mean = folding.finish(plan.algorithm.fold, whole)
    assert mean is not None
    expected = plan.algorithm.apply(SERVER, mean)
    assert content_hash(fact.made.server.params) == content_hash(expected.params)
    kept = load_aggregate(plan, tmp_path, SERVER, 0, 0.0)
    assert kept.tasks.tolist() == list(TASKS)
    assert not any(Path(path).exists() for path in paths)


@pytest.mark.parametrize(
    ("parts", "count"), [(([0, 1, 2, 3],), 4), (([0, 1, 2, 3, 4],), 4), (([0, 1], [1, 2, 3, 4]), 6)]
)
def test_what_does_not_add_up_is_never_committed(parts: tuple[list[int], ...], count: int, tmp_path: Path) -> None:
    plan = plan_of(Toy())
    with pytest.raises(RunFailed, match="nothing was committed"):
        make_commit(plan, bucket(sums=sums_in(tmp_path, plan, *parts), count=count), {}, None, SEEDED)


def test_spools_give_the_same_bits_and_what_is_damaged_in_them_is_rejected(tmp_path: Path) -> None:
    plan = plan_of(Toy())
    folders = [tmp_path / "t0", tmp_path / "t1"]
    for n, folder in enumerate(folders):
        spool = Spool(folder)
        for task in TASKS:
            if task % 2 == n:
                spool.add(0, entry(task), b"no tensors" if task == 3 else payload_of(report(task)))
        spool.sync()
        spool.close()
    fact = make_commit(plan, bucket(spools=list(map(str, folders)), refusals={4: "client 14: no"}), {}, None, SEEDED)
    assert fact.tasks.tolist() == [0, 1, 2] and [r.task for r in fact.rejected] == [3, 4]
    sums = sums_in(tmp_path, plan, [0, 1, 2])
    other = make_commit(plan, bucket(sums=sums, count=3, refusals={3: "a", 4: "b"}), {}, None, SEEDED)
    assert fact.made is not None and other.made is not None
    assert str(fact.made.name) == str(other.made.name)


def test_a_report_that_is_in_no_spool_stops_the_commit(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="task 0 is not in the spool"):
        make_commit(plan_of(Toy()), bucket(spools=[str(tmp_path)]), {}, None, SEEDED)


def test_all_refused_makes_nothing_and_it_is_known_beforehand() -> None:
    plan = plan_of(Toy())
    refused = dict.fromkeys(TASKS, "no")
    fact = make_commit(plan, bucket(refusals=refused), {}, None, SEEDED)
    assert fact.made is None and len(fact.rejected) == 5
    assert not will_commit(plan, command(), refused)
    assert will_commit(plan, command(), {0: "no"})
    few = replace(plan, algorithm=replace(plan.algorithm, fold=replace(plan.algorithm.fold, least=5)))
    assert will_commit(few, command(), {}) and not will_commit(few, command(), {0: "no"})
