"""Claims: a report counts once, a retry hears the truth at every moment, sums hold what the commit will say of their reports."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedfleet.core.aggregation import Entry
from fedfleet.core.commands import Account
from fedfleet.core.cost import ReportedCost, tasks_spent
from fedfleet.core.errors import Refused
from fedfleet.core.events import ReportRejected, ReportUnwanted, TaskArrived, TaskLost
from fedfleet.core.parts import Plan
from fedfleet.engine.coordinator import begin
from fedfleet.engine.state import Phase as RunPhase
from fedfleet.engine.state import uncommitted_arrivals
from fedfleet.network.frontend.partial_sums import PartialSums, layout_from_json
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import FIRST_EVAL_TASK
from fedfleet.network.server import commit
from fedfleet.network.server.admission import current_bucket
from fedfleet.network.server.turns import CommitJob
from tests.network.scene import Scene, play, same_sums, summed
from tests.network.server.test_commit import committed, opened
from tests.network.toys import Toy, plan_of

pytestmark = pytest.mark.slow

TOY = Toy(clients=4, rounds=2)


def with_enter(plan: Plan, enter: Any, **more: Any) -> Plan:
    return replace(plan, algorithm=replace(plan.algorithm, fold=replace(plan.algorithm.fold, enter=enter, **more)))


async def answer(scene: Scene, index: int, task: int, **fields: Any) -> Any:
    """What a transmitter is told of one claim."""
    scene.told(index)
    number = scene.claim(index, task, **fields)
    await scene.turn()
    (grant,) = [g for g in scene.grants(index) if g.number == number]
    return grant


def withdrawn(scene: Scene, index: int) -> list[int]:
    return [task for message in scene.desk.told[index] for task in message.withdrawn]


def test_a_retry_is_busy_until_it_is_safe_and_safe_ever_after(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        task = (await opened(scene))[0]
        first = await answer(scene, 0, task)
        assert first.granted and first.status == pb.Receipt.SAFE and first.bucket == 0
        retry = await answer(scene, 1, task)
        assert (retry.granted, retry.status) == (False, pb.Receipt.BUSY) and retry.seconds > 0
        scene.safe(0, task)
        await scene.turn()
        again = await answer(scene, 1, task)
        assert (again.granted, again.status) == (False, pb.Receipt.SAFE)
        other = await answer(scene, 1, task, crc32c=12345)
        assert other.status == pb.Receipt.UNWANTED
        assert len(scene.events(TaskArrived)) == 1
        assert [e.reason for e in scene.events(ReportUnwanted)] == ["again"]

    play(tmp_path, TOY, act)


def test_who_is_told_that_it_is_done_is_not_given_it_again(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        task = (await opened(scene))[0]
        await answer(scene, 0, task)
        scene.safe(0, task)
        await scene.turn()
        assert task in withdrawn(scene, 1) and task not in withdrawn(scene, 0)
        scene.told(1)
        scene.claim(1, task)
        await scene.turn()
        assert task in withdrawn(scene, 1)

    play(tmp_path, TOY, act)


def test_three_faulty_tries_end_a_task_and_it_is_withdrawn_everywhere(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        task = (await opened(scene))[0]
        for n, status in enumerate((pb.Receipt.RETRY, pb.Receipt.RETRY, pb.Receipt.REFUSED)):
            assert (await answer(scene, 0, task, fault="bad", crc32c=n)).status == status
        assert task in withdrawn(scene, 1)
        assert scene.processor.admission.rejections.reasons.keys() == {task}
        assert len(scene.events(TaskArrived)) == 1
        assert (await answer(scene, 1, task)).status == pb.Receipt.UNWANTED

    play(tmp_path, TOY, act)


def test_a_device_that_declines_loses_its_task(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        task = (await opened(scene))[0]
        assert (await answer(scene, 0, task, declined="no power")).status == pb.Receipt.UNWANTED
        (lost,) = scene.events(TaskLost)
        assert lost.task == task and "no power" in lost.reason
        assert not scene.processor.candidates.busy[lost.client]

    play(tmp_path, TOY, act)


def test_a_stranger_costs_nobody_anything(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        task = (await opened(scene))[0]
        honest = scene.report(task)
        assert (await answer(scene, 0, task, client=(honest.client + 1) % 4)).status == pb.Receipt.REFUSED
        assert (await answer(scene, 0, 99, report=honest)).status == pb.Receipt.REFUSED
        assert scene.processor.admission.strike_count == 2
        assert (await answer(scene, 0, FIRST_EVAL_TASK + 1, report=honest)).status == pb.Receipt.UNWANTED
        assert (await answer(scene, 0, task)).granted

    play(tmp_path, TOY, act)


@pytest.mark.parametrize("how", ["says so", "factor", "weight"])
def test_what_the_fold_will_not_have_is_refused_counts_as_arrived_and_is_not_handed_out_again(how: str, tmp_path: Path) -> None:
    def enter(weight: float, stats: Any, context: Any) -> Entry:
        if how == "says so":
            raise Refused("no such client")
        return Entry(weight, 2.0) if how == "factor" else Entry(weight)

    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        refused, left = 0, 3.5
        for task in tasks:
            fits = how == "weight" and scene.report(task).weight <= left
            left -= scene.report(task).weight if fits else 0
            grant = await answer(scene, 0, task)
            assert grant.granted is fits
            refused += grant.status == pb.Receipt.REFUSED
            assert grant.granted is (grant.status == pb.Receipt.SAFE)
            assert (task in withdrawn(scene, 1)) is (grant.status == pb.Receipt.REFUSED)
        assert refused > 0
        assert len(scene.events(TaskArrived)) == 4
        good = [t for t in tasks if t in scene.granted]
        scene.safe(0, *good)
        scene.closed(0, 0, good)
        scene.closed(1, 0, [])
        await scene.until(lambda: scene.processor.state.book.round == 1)
        assert len(scene.events(ReportRejected)) == refused

    plan = with_enter(plan_of(TOY), enter, **({"total_weight": 3.5} if how == "weight" else {}))
    play(tmp_path, TOY, act, plan=plan)


def test_a_report_that_died_weighs_nothing_when_it_is_granted_again(tmp_path: Path) -> None:
    """The weights of one commit are bounded: what was lost, and what was found again, must count once."""

    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        for _ in range(4):
            for task in tasks:
                assert (await answer(scene, 0, task)).granted
            scene.safe(0, tasks[0])
            scene.die(0)
            scene.ready(0, {0: [scene.granted[tasks[0]][1]]})
            await scene.turn()
            for task in tasks[1:]:
                assert (await answer(scene, 1, task)).granted
            scene.die(1)
            scene.die(0)
            scene.ready(1)
            scene.ready(0)
            await scene.turn()
        assert scene.processor.admission.weights == {}

    play(tmp_path, TOY, act, plan=with_enter(plan_of(TOY), lambda w, s, c: Entry(w), total_weight=7.0))


def test_seconds_and_settings_of_a_report_are_those_of_its_arrival_also_when_it_is_granted_again(
    tmp_path: Path,
) -> None:
    seen: list[Any] = []

    def enter(weight: float, stats: Any, context: Any) -> Entry:
        seen.append(context)
        return Entry(weight)

    async def act(scene: Scene) -> None:
        task = (await opened(scene))[0]
        await answer(scene, 0, task)
        scene.pass_by(5.0)
        scene.die(0)
        scene.ready(0)
        await scene.turn()
        assert (await answer(scene, 1, task)).granted
        (arrived,) = scene.events(TaskArrived)
        assert seen[0] == seen[1] and seen[0].seconds == arrived.seconds

    play(tmp_path, TOY, act, plan=with_enter(plan_of(TOY), enter))


def test_while_one_bucket_is_gathered_reports_go_to_the_next() -> None:
    state = begin(plan_of(TOY)).state
    assert current_bucket(state) == 0
    assert current_bucket(state._replace(phase=RunPhase.GATHERING)) == 1


def test_after_the_end_nothing_follows_the_last_event(tmp_path: Path) -> None:
    toy = Toy(clients=2, rounds=1)

    async def act(scene: Scene) -> None:
        tasks = await opened(scene, 2)
        for task in tasks:
            assert (await answer(scene, 0, task)).granted
        scene.safe(0, *tasks)
        scene.closed(0, 0, tasks)
        scene.closed(1, 0, [])
        await committed(scene, 1)
        await scene.until(lambda: scene.processor.end_reason)
        count = len(scene.events())
        scene.processor.turns.done = None  # it stays, so that a late device can be answered
        grant = await answer(scene, 1, tasks[0], crc32c=1)
        assert grant.status == pb.Receipt.UNWANTED
        assert len(scene.events()) == count

    play(tmp_path, toy, act)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_streamed_sums_are_those_that_the_commits_contexts_give(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Asynchronous pacing: reports arrive in any order, while models are made and judged, from any version."""
    toy = Toy(clients=5, cohort=4, buffer=2, rounds=4, seed=seed)
    seen: dict[int, Any] = {}

    def enter(weight: float, stats: Any, context: Any) -> Entry:
        seen[context.task] = context
        return Entry(weight / (1 + context.staleness), 1.0 / (1 + context.staleness))

    plan = with_enter(plan_of(toy), enter, ages=True)
    rng, made = np.random.default_rng(seed), commit.make_commit
    buckets: list[CommitJob] = []

    def gathered(*args: Any) -> Any:
        buckets.append(args[1])
        return made(*args)

    async def act(scene: Scene) -> None:
        for index in (0, 1):
            scene.ready(index)
        at: dict[int, int] = {}
        asked: set[int] = set()
        # By the clock, not by turns: models are made in a thread, and a busy machine may give it little time.
        end = asyncio.get_running_loop().time() + 20.0
        while asyncio.get_running_loop().time() < end:
            scene.here(*range(5))
            scene.pass_by(float(rng.random()))
            await scene.turn(2)
            if scene.processor.end_reason:
                return
            if scene.running and rng.random() < 0.7:
                task = int(rng.choice(scene.running))
                at[task] = int(rng.integers(2))
                scene.claim(at[task], task)
                await scene.turn(1)
            for index in (0, 1):
                messages = list(scene.desk.told[index])
                scene.grants(index)
                scene.safe(index, *(t for t, i in at.items() if i == index and t in scene.granted))
                asked |= {(index, b) for m in messages for b in m.close}
            if rng.random() < 0.5:
                for index, bucket in sorted(asked):
                    own = sorted(t for t, i in at.items() if i == index and t in scene.granted and scene.granted[t][0] == bucket)
                    if bucket == scene.processor.state.book.round:
                        scene.closed(index, bucket, own)
                asked.clear()
        raise AssertionError("the run did not end")

    patched = pytest.MonkeyPatch()
    patched.setattr(commit, "make_commit", gathered)
    reports: dict[int, Any] = {}

    async def noting(scene: Scene) -> None:
        await act(scene)
        reports.update({task: (entry, report) for task, (_, entry, report) in scene.granted.items()})
        sheet = layout_from_json(scene.desk.frontends[0].config.sheet)
        for bucket in buckets:
            streamed = PartialSums(sheet, None)
            for task in bucket.command.tasks:
                streamed.add(0, *reports[task][:1], reports[task][1].update)
            pairs = [(reports[c.task][1], c) for c in bucket.command.contexts]
            claimed = {c.task: seen[c.task] for c in bucket.command.contexts}
            result = streamed.bucket_sums(0)
            assert result is not None
            assert same_sums(result, summed(plan, bucket.command.server, pairs))
            for context in bucket.command.contexts:
                assert claimed[context.task]._replace(start=None) == context._replace(start=None)

    try:
        play(tmp_path_factory.mktemp("law"), toy, noting, plan=plan)
    finally:
        patched.undo()
    assert len(buckets) == 4


def test_what_cannot_be_true_is_not_believed(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        scene.here(0, 1, 2, 3)
        await scene.until(lambda: scene.running)
        waves = tuple(scene.wave(task) for task in range(4))
        said = [
            ReportedCost(10.0, {"download": 1.0, "compute": 2.0}),
            ReportedCost(20.0, {"download": 1.0, "compute": 5.0}),  # more than passed
            ReportedCost(30.0, {"compute": math.nan}),
            None,
        ]
        result = tasks_spent(Account((0, 1, 2, 3), waves, (4.0,) * 4), said, 7.0)
        assert result.time == 7.0 and result.clients.tolist() == [scene.client(task) for task in range(4)]
        np.testing.assert_equal(result.spent["download"], [1.0, math.nan, math.nan, math.nan])
        np.testing.assert_equal(result.spent["compute"], [2.0, math.nan, math.nan, math.nan])
        np.testing.assert_equal(result.spent["bytes_up"], [10.0, 20.0, 30.0, math.nan])
        assert np.isnan(result.spent["upload"]).all() and np.isfinite(result.spent["bytes_down"]).tolist() == [True] * 3 + [False]

    play(tmp_path, Toy(clients=4), act, transmitters=1)


def test_arrived_are_those_that_came_and_are_not_committed(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.claim(0, tasks[1])
        scene.claim(0, tasks[0], declined="no")
        await scene.turn()
        assert [e.task for e in uncommitted_arrivals(scene.processor.state)] == [tasks[1]]

    play(tmp_path, TOY, act)
