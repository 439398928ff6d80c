"""Commits: sums are handed in once, whatever dies meanwhile; what was lost is waited for; old sums are not taken for new ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.commands import Gather
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ModelCommitted, ReportsGathered, RoundFailed, TaskArrived
from fedfleet.core.parts import Plan
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import content_hash
from fedfleet.network.frontend.partial_sums import PartialSums, fold_layout
from fedfleet.network.frontend.report_log import LogEntry
from fedfleet.network.frontend.spool import Spool
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.server import commit
from fedfleet.network.server.admission import will_commit
from fedfleet.network.server.commit import make_commit
from fedfleet.network.server.turns import CommitJob, ReportMeta
from fedfleet.store.aggregates import load_aggregate
from fedfleet.store.files import save_tree
from fedfleet.store.noise_source import SEEDED
from tests.network.scene import Scene, play, summed
from tests.network.toys import Toy, payload_of, plan_of, reference

TOY = Toy(clients=4, rounds=2)


async def opened(scene: Scene, clients: int = 4) -> list[int]:
    """Both transmitters are ready, all devices are there, and their tasks are out."""
    for index in range(len(scene.desk.frontends)):
        scene.ready(index)
    scene.here(*range(clients))
    return await scene.until(lambda: scene.running)


async def all_granted(scene: Scene, tasks: list[int]) -> dict[int, list[int]]:
    """Every report is granted, by turns at two transmitters; which has which."""
    at: dict[int, list[int]] = {0: [], 1: []}
    for n, task in enumerate(tasks):
        scene.claim(n % 2, task)
        at[n % 2].append(task)
    await scene.turn()
    for index in at:
        assert all(grant.granted for grant in scene.grants(index))
    return at


def closes(scene: Scene, index: int) -> list[int]:
    """The buckets that a transmitter was told to close since it was last looked at."""
    return [bucket for message in scene.told(index) for bucket in message.close]


async def committed(scene: Scene, version: int) -> None:
    """Until the model of this version is made."""
    await scene.until(lambda: scene.processor.state.book.version >= version)


def test_a_round_makes_the_model_of_the_simulation(tmp_path: Path) -> None:
    names, _ = reference(TOY)

    async def act(scene: Scene) -> None:
        for version in (1, 2):
            tasks = await opened(scene) if version == 1 else await scene.until(lambda: scene.running)
            at = await all_granted(scene, tasks)
            for index, own in at.items():
                scene.safe(index, *own)
                scene.closed(index, version - 1, own)
            scene.here(*range(4))
            await committed(scene, version)
        assert [str(e.model_hash) for e in scene.events(ModelCommitted)] == names

    play(tmp_path, TOY, act)


def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let commits wait until they are let go; counts them."""
    import threading

    go = threading.Event()
    made = commit.make_commit

    def waits(*args: object) -> ReportsGathered:
        assert go.wait(60)
        return made(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(commit, "make_commit", waits)
    return go.set


def test_a_transmitter_that_dies_while_a_model_is_made_does_not_make_it_be_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = slow(monkeypatch)

    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        for index, own in at.items():
            scene.safe(index, *own)
            scene.closed(index, 0, own)
        await scene.turn()
        scene.die(0)
        scene.ready(0, {0: [scene.granted[t][1] for t in at[0]]})
        await scene.turn()
        assert closes(scene, 0) == []
        scene.closed(0, 0, at[0])
        await scene.turn()
        go()
        await committed(scene, 1)
        await scene.turn()
        assert len(scene.events(ReportsGathered)) == 1
        assert [b for m in scene.told(0) for b in m.discard] == [0]

    play(tmp_path, TOY, act)


def test_what_died_with_its_transmitter_after_the_close_is_waited_for(tmp_path: Path) -> None:
    names, _ = reference(TOY)

    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        scene.safe(1, *at[1])
        scene.closed(1, 0, at[1])
        await scene.turn()
        scene.die(0)
        await scene.turn()
        scene.ready(0, {0: [scene.granted[at[0][0]][1]]})  # the other report was not on its disk
        await scene.turn()
        lost = at[0][1]
        assert scene.processor.admission.tasks.phase(lost) is Phase.RELEASED
        scene.closed(0, 0, at[0][:1])
        await scene.turn()
        assert scene.events(ReportsGathered) == []
        scene.told(1)
        scene.claim(1, lost)
        await scene.turn()
        told = scene.desk.told[1]
        assert [b for m in told for b in m.close] == [0]
        assert scene.grants(1)[0].granted
        scene.safe(1, lost)
        scene.closed(1, 0, [*at[1], lost])
        scene.closed(0, 0, at[0][:1])
        await committed(scene, 1)
        assert [str(e.model_hash) for e in scene.events(ModelCommitted)] == names[:1]
        assert len(scene.events(TaskArrived)) == 4

    play(tmp_path, TOY, act)


def test_sums_from_before_a_report_was_granted_again_are_not_taken(tmp_path: Path) -> None:
    names, _ = reference(TOY)

    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        scene.safe(1, *at[1])
        scene.closed(1, 0, at[1])
        await scene.turn()
        scene.die(0)
        scene.ready(0, {0: [scene.granted[at[0][0]][1]]})
        await scene.turn()
        lost = at[0][1]
        scene.claim(1, lost)
        await scene.turn()
        assert scene.grants(1)[0].granted
        scene.safe(1, lost)  # and now everything is safe, but what transmitter 1 handed in is older than that
        await scene.turn()
        scene.closed(0, 0, at[0][:1])
        await scene.turn()
        assert scene.events(ReportsGathered) == []
        scene.closed(1, 0, [*at[1], lost])
        scene.closed(0, 0, at[0][:1])
        await committed(scene, 1)
        assert [str(e.model_hash) for e in scene.events(ModelCommitted)] == names[:1]

    play(tmp_path, TOY, act)


def test_a_report_that_was_granted_again_and_is_not_safe_yet_does_not_hang_the_commit(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        scene.safe(1, *at[1])
        scene.closed(1, 0, at[1])
        await scene.turn()
        scene.die(0)
        scene.ready(0, {0: [scene.granted[at[0][0]][1]]})
        await scene.turn()
        lost = at[0][1]
        scene.claim(1, lost)
        await scene.turn()
        assert scene.grants(1)[0].granted
        scene.closed(0, 0, at[0][:1])
        await scene.turn()
        assert closes(scene, 1) == [0]
        scene.say(1, safe=[lost])
        scene.closed(1, 0, [*at[1], lost])
        scene.closed(0, 0, at[0][:1])
        await committed(scene, 1)

    play(tmp_path, TOY, act)


def test_sums_that_stay_wrong_end_the_run_with_a_sentence(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        for index, own in at.items():
            scene.safe(index, *own)
        for _ in range(20):
            scene.closed(0, 0, at[0][:1])
            scene.closed(1, 0, at[1])
            await scene.turn()
        await scene.until(lambda: False)

    with pytest.raises(Exception, match=r"3 reports .* the journal 4"):
        play(tmp_path, TOY, act)


def test_sums_of_another_round_and_those_that_nobody_asked_for_are_passed_over(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.say(0, closed=[{"bucket": 0, "path": "/nowhere", "count": 3}])
        at = await all_granted(scene, tasks)
        scene.say(1, closed=[{"bucket": 7, "path": "/nowhere", "count": 3}])
        await scene.turn()
        assert scene.events(ReportsGathered) == []
        for index, own in at.items():
            scene.safe(index, *own)
            scene.closed(index, 0, own)
        await committed(scene, 1)

    play(tmp_path, TOY, act)


def test_a_round_of_which_every_report_was_refused_fails_and_its_bucket_goes(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        for task in await opened(scene):
            for _ in range(2):
                scene.claim(task % 2, task, fault="leaf 'w' is not finite")
        await scene.turn()
        for index in (0, 1):
            assert [b for m in scene.desk.told[index] for b in m.close] == [0]
            scene.closed(index, 0, [])
        await scene.until(lambda: scene.events(RoundFailed))
        await scene.turn()
        for index in (0, 1):
            assert 0 in [b for m in scene.told(index) for b in m.discard]
        assert scene.processor.admission.rejections.reasons == {}

    play(tmp_path, TOY, act)


TASKS = range(5)
SERVER = ServerState({"w": np.zeros(4, np.float32)})


def report(task: int) -> Report:
    return Report(task, task + 10, {"w": np.arange(4, dtype=np.float32) / (task + 3)}, 1.0 + task, {"loss": float(task)})


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


@pytest.mark.parametrize(("parts", "count"), [(([0, 1, 2, 3],), 4), (([0, 1, 2, 3, 4],), 4), (([0, 1], [1, 2, 3, 4]), 6)])
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
