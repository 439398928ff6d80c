"""The processor: nothing leaves before its cause is on the disk, time never falls, leases end, failed rounds leave nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated, ModelCommitted, ReportRejected, RoundFailed, TaskLost, TasksSpent
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision
from fedfleet.engine.state import Phase
from tests.network.scene import Scene, play
from tests.network.server.test_commit import all_granted, committed, opened
from tests.network.toys import Toy, plan_of

TOY = Toy(clients=4, rounds=2)


def test_nothing_leaves_before_the_journal_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(scene: Scene) -> None:
        order: list[str] = []
        journal = scene.processor.served.journal
        flush, send = journal.flush, scene.desk.send
        monkeypatch.setattr(type(journal), "flush", lambda self: (order.append("flush"), flush())[1])
        monkeypatch.setattr(scene.desk, "send", lambda: (order.append("send"), send())[1])
        tasks = await opened(scene)
        order.clear()
        scene.claim(0, tasks[0])
        await scene.turn(1)
        assert order[:2] == ["flush", "send"]

    play(tmp_path, TOY, act)


def test_leases_end_and_the_round_goes_on_without_them(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.claim(0, tasks[0])
        scene.claim(0, tasks[1], fault="bad")
        await scene.turn()
        scene.grants(0)
        scene.pass_by(31.0)
        await scene.turn()
        assert sorted(e.task for e in scene.events(TaskLost)) == tasks[2:]
        assert all("lease of 30 s" in e.reason for e in scene.events(TaskLost))
        assert set(tasks[1:]) <= {t for m in scene.told(1) for t in m.withdrawn}
        scene.safe(0, tasks[0])
        scene.closed(0, 0, tasks[:1])
        scene.closed(1, 0, [])
        await committed(scene, 1)
        assert [e.task for e in scene.events(ReportRejected)] == [tasks[1]]
        assert not scene.processor.busy.any() or scene.running

    play(tmp_path, TOY, act, lease=30.0)


def test_a_wake_up_that_is_due_when_the_run_has_just_ended_is_not_heard(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        processor = scene.processor
        processor.state, processor.timer = processor.state._replace(phase=Phase.DONE), 0.0
        processor._turn()
        assert processor.done is not None and not processor.done.done()  # nothing failed

    play(tmp_path, TOY, act)


def first_loss_ends_it(plan):
    """A policy that gives a round up at its first loss: what is accounted then is heard of after later losses."""

    def decide(book: Book) -> Decision:
        if book.lost:
            return Decision(abandon="one was lost")
        if not book.running and not book.asking:
            return Decision(ask=4) if book.now > book.opened_at else NOTHING._replace(wake_at=book.now + 0.01)
        return NOTHING

    return replace(plan, pace=Policy("timid", decide, 4))


def test_leases_that_end_together_never_let_time_fall(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        scene.pass_by(31.0)
        await scene.until(lambda: scene.events(RoundFailed))
        await scene.turn()
        times = [e.time for e in scene.events()]
        assert times == sorted(times) and scene.events(TasksSpent)

    play(
        tmp_path, Toy(clients=4, rounds=3), act, plan=first_loss_ends_it(plan_of(Toy(clients=4, rounds=3))), lease=30.0
    )


def test_an_evaluation_that_ends_with_a_lease_never_lets_time_fall(tmp_path: Path) -> None:
    """Both are looked at in one turn: the lease first, and the clock goes on meanwhile."""

    async def act(scene: Scene) -> None:
        await opened(scene)
        processor = scene.processor
        before = processor.now()
        scene.pass_by(31.0)
        processor.facts.append(Evaluated(before, 9, 0, 0, 0.0))  # heard of late; none is awaited
        with pytest.raises(RunFailed, match="without being asked"):  # not that time fell
            await scene.turn()

    play(tmp_path, TOY, act, lease=30.0)


def test_a_round_that_is_given_up_leaves_no_bucket_no_refusal_and_no_weight(tmp_path: Path) -> None:
    plan = first_loss_ends_it(plan_of(TOY))

    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.claim(0, tasks[0])
        for crc in range(3):
            scene.claim(0, tasks[1], fault="bad", crc32c=crc)
        await scene.turn()
        assert scene.processor.weights and scene.processor.refusals.reasons and scene.processor.report_metas
        scene.claim(1, tasks[2], declined="no")
        await scene.turn()
        assert len(scene.events(RoundFailed)) == 1
        for index in (0, 1):
            assert 0 in [b for m in scene.told(index) for b in m.discard]
        processor = scene.processor
        assert not (
            processor.weights or processor.refusals.reasons or processor.report_metas or processor.reported_costs
        )

    play(tmp_path, TOY, act, plan=plan)


def test_a_transmitter_that_dies_is_started_again_and_people_hear_of_it(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        scene.die(1)
        await scene.turn()
        assert scene.desk.started == [1] and "transmitter 1 died and was started again" in scene.remarks()

    play(tmp_path, TOY, act)


def test_a_run_to_its_end_is_over_for_everybody(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        for version in (1, 2):
            tasks = await opened(scene) if version == 1 else await scene.until(lambda: scene.running)
            at = await all_granted(scene, tasks)
            for index, own in at.items():
                scene.safe(index, *own)
                scene.closed(index, version - 1, own)
            scene.here(*range(4))
            await committed(scene, version)
        assert scene.processor.done is not None
        await scene.processor.done
        assert [m.over for m in scene.told(0) if m.over] == ["rounds"]
        assert len(scene.events(ModelCommitted)) == 2

    play(tmp_path, TOY, act)


def test_what_fails_beside_the_loop_ends_the_run(tmp_path: Path) -> None:
    async def broken() -> None:
        raise RunFailed("the disk is full")

    async def act(scene: Scene) -> None:
        scene.processor.run_in_background(broken())
        await scene.until(lambda: False)

    with pytest.raises(RunFailed, match="the disk is full"):
        play(tmp_path, TOY, act)
