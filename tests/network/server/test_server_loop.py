"""The processor: nothing leaves before its cause is on the disk, time never falls, leases end, failed rounds leave nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    Evaluated,
    ModelCommitted,
    ReportRejected,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksSpent,
)
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision
from fedfleet.engine.state import Phase
from fedfleet.network.operations.monitor import waiting_for
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.rules.task_table import Phase as TaskPhase
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
        assert not scene.processor.candidates.busy.any() or scene.running

    play(tmp_path, TOY, act, lease=30.0)


def test_a_wake_up_that_is_due_when_the_run_has_just_ended_is_not_heard(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        processor = scene.processor
        processor.run.state, processor.run.wake_at = processor.state._replace(phase=Phase.DONE), 0.0
        processor.turns._take_turn()
        assert processor.turns.done is not None and not processor.turns.done.done()  # nothing failed

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

    play(tmp_path, Toy(clients=4, rounds=3), act, plan=first_loss_ends_it(plan_of(Toy(clients=4, rounds=3))), lease=30.0)


def test_an_evaluation_that_ends_with_a_lease_never_lets_time_fall(tmp_path: Path) -> None:
    """Both are looked at in one turn: the lease first, and the clock goes on meanwhile."""

    async def act(scene: Scene) -> None:
        await opened(scene)
        processor = scene.processor
        before = processor.now()
        scene.pass_by(31.0)
        processor.run._facts.append(Evaluated(before, 9, 0, 0, 0.0))  # heard of late; none is awaited
        with pytest.raises(RunFailed, match="internal error: model 9"):  # not that time fell
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
        admission = scene.processor.admission
        assert admission.weights and admission.rejections.reasons and admission.metas
        scene.claim(1, tasks[2], declined="no")
        await scene.turn()
        assert len(scene.events(RoundFailed)) == 1
        for index in (0, 1):
            assert 0 in [b for m in scene.told(index) for b in m.discard]
        assert not (admission.weights or admission.rejections.reasons or admission.metas or admission.costs)

    play(tmp_path, TOY, act, plan=plan)


def test_a_transmitter_that_dies_is_started_again_and_people_hear_of_it(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        scene.die(1)
        await scene.turn()
        assert scene.desk.started == [1] and "frontend 1 died and was started again" in scene.remarks()

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
        assert scene.processor.turns.done is not None
        await scene.processor.turns.done
        assert [m.over for m in scene.told(0) if m.over] == ["rounds"]
        assert len(scene.events(ModelCommitted)) == 2

    play(tmp_path, TOY, act)


def test_what_fails_beside_the_loop_ends_the_run(tmp_path: Path) -> None:
    async def broken() -> None:
        raise RunFailed("the disk is full")

    async def act(scene: Scene) -> None:
        scene.processor.turns.run_in_background(broken())
        await scene.until(lambda: False)

    with pytest.raises(RunFailed, match="the disk is full"):
        play(tmp_path, TOY, act)


def test_people_hear_what_is_waited_for(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        processor = scene.processor
        assert waiting_for(processor) == "evaluating model 0"
        scene.ready(0)
        scene.ready(1)
        await scene.until(processor.is_asking)
        scene.here(3)
        await scene.turn()
        assert waiting_for(processor) == "devices: 1 of 5 are here"
        tasks = await opened(scene, 5)
        assert waiting_for(processor).startswith("5 reports of clients ") and "and others" in waiting_for(processor)
        for task in tasks[:4]:
            scene.claim(task % 2, task)
        await scene.turn()
        for index in (0, 1):
            scene.grants(index)
        assert waiting_for(processor) == f"1 report of client {scene.client(tasks[4])}"
        at = {index: [t for t in tasks if t % 2 == index] for index in (0, 1)}
        await all_granted(scene, [tasks[4]])
        assert waiting_for(processor) == "making model 1"
        for index, own in at.items():
            scene.safe(index, *own)
            scene.closed(index, 0, own)
        await scene.until(lambda: processor.end_reason)
        assert waiting_for(processor) == "nothing: the run is over (rounds)"

    play(tmp_path, Toy(clients=5, rounds=1), act)


def told(scene: Scene, index: int) -> list[float]:
    return [m.come_back for m in scene.told(index) if m.HasField("come_back")]


def test_news_is_told_and_what_is_not_new_is_not(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.pass_by(10.0)
        await scene.turn()
        told(scene, 0)
        scene.pass_by(0.6)
        await scene.turn()
        assert told(scene, 0) == []
        scene.claim(0, tasks[0])
        await scene.turn()
        scene.pass_by(1.0)
        await scene.turn()
        (likely,) = told(scene, 0)
        assert 0 < likely < 300

    play(tmp_path, TOY, act)


def test_work_is_likely_at_once_while_devices_are_waited_for(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        scene.ready(1)
        await scene.until(scene.processor.is_asking)
        scene.pass_by(1.0)
        await scene.turn()
        scene.told(0)
        scene.die(0)
        scene.ready(0)
        await scene.turn()
        (out,) = [m for m in scene.told(0) if m.HasField("come_back")]
        assert out.come_back == 0.0 and out.round == 0

    play(tmp_path, TOY, act)


def tasks_in(message: inside.ToTransmitter) -> list[int]:
    """The tasks that a transmitter would hand out after this message."""
    result: set[int] = set()
    for wave in message.waves:
        result |= set(range(wave.first, wave.first + len(np.frombuffer(wave.clients, np.uint32))))
    return sorted(result - set(message.withdrawn))


def test_one_that_starts_again_hears_all_that_the_others_know(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        known = [blob.name for message in scene.told(0) for blob in message.blobs]
        scene.claim(0, tasks[0])
        await scene.turn()
        scene.die(1)
        await scene.turn()
        assert scene.desk.started == [1]
        scene.claim(0, tasks[1])  # while it was away
        await scene.turn()
        scene.desk.drain()
        scene.ready(1)
        await scene.turn()
        told = scene.told(1)
        assert tasks_in(told[-1]) == tasks[2:]
        assert [blob.name for blob in told[-1].blobs] == known
        assert told[-1].drain and told[-1].HasField("come_back")

    play(tmp_path, TOY, act)


def test_the_end_of_the_run_is_told_to_one_that_starts_after_it(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        scene.processor.end_reason = "rounds"
        scene.die(0)
        scene.ready(0)
        await scene.turn()
        assert [m.over for m in scene.told(0) if m.over] == ["rounds"]

    play(tmp_path, TOY, act)


def test_what_a_disk_holds_is_safe_and_what_it_lacks_is_released(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        scene.die(0)
        scene.ready(0, {0: [scene.granted[at[0][0]][1]]})
        await scene.turn()
        phases = {task: scene.processor.admission.tasks.phase(task) for task in scene.granted}
        assert phases == {
            at[0][0]: TaskPhase.SAFE,
            at[0][1]: TaskPhase.RELEASED,
            at[1][0]: TaskPhase.GRANTED,
            at[1][1]: TaskPhase.GRANTED,
        }
        assert at[0][0] in [t for m in scene.told(1) for t in m.withdrawn]

    play(tmp_path, TOY, act)


def test_buckets_of_rounds_that_are_over_are_thrown_away_before_anything_else_is_said(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.claim(0, tasks[0])
        await scene.turn()
        scene.grants(0)
        entry = scene.granted[tasks[0]][1]
        scene.die(0)
        scene.ready(0, {7: [entry._replace(task=99)], 0: [entry._replace(task=98)]})
        scene.claim(0, tasks[1])
        await scene.turn()
        told = scene.desk.told[0]
        assert list(told[0].discard) == [7, 0] and not told[0].grants
        assert not any(message.discard for message in told[1:])
        assert [g.granted for g in scene.grants(0)] == [True]
        assert "missing in the journal" in scene.remarks()

    play(tmp_path, TOY, act)


def test_a_report_on_a_disk_of_which_the_journal_lost_the_arrival_arrives_now(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        entries = []
        for n, task in enumerate(tasks):
            report = scene.report(task)
            scene.granted[task] = 0, entry_of(task, report, n), report
            entries.append(scene.granted[task][1])
        scene.die(0)
        scene.ready(0, {0: entries})
        await scene.turn()
        assert len(scene.events(TaskArrived)) == 4
        scene.closed(0, 0, tasks)
        scene.closed(1, 0, [])
        await scene.until(lambda: scene.processor.state.book.version == 1)

    play(tmp_path, TOY, act)


def entry_of(task: int, report, order: int):
    from fedfleet.network.frontend.report_log import LogEntry
    from tests.network.toys import payload_of

    size = len(payload_of(report))
    return LogEntry(task, report.client, order, 0.1, report.weight, 1.0, "", 5, size, ("loss", "compute"), (1.0, 0.01), 1)


def test_presence_follows_what_is_heard(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        scene.here(0, 1)
        await scene.turn()
        scene.say(0, gone=[1])
        await scene.turn()
        assert scene.processor.candidates.present(scene.processor.now()).tolist() == [True, False, False, False]

    play(tmp_path, TOY, act)


def test_frontends_are_told_the_status_and_the_samples_of_a_rehearsal(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        scene.told(0)
        for number, shard in ((1, None), (2, lambda client: b"of %d" % client)):
            scene.processor.served = replace(scene.processor.served, shard=shard)
            scene.say(0, asking=[inside.Asking(number=number, shard_of=3), inside.Asking(number=number + 10)])
            await scene.turn()
        told = {answer.number: answer for message in scene.told(0) for answer in message.told}
        assert {number: answer.shard for number, answer in told.items()} == {1: b"", 2: b"of 3", 11: b"", 12: b""}
        assert '"round"' in told[11].json and not told[1].json

    play(tmp_path, TOY, act)
