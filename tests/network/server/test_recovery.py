"""Saving: checkpoints are of a state that the journal holds, the newest two are kept, and a disk that is full ends the run.

A killed server goes on in every phase in which it can be killed, and ends with the models of the simulation.

Lines outlive a kill: what was torn is passed over, and what is added after it is whole.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ModelCommitted, ReportsGathered, RoundFailed, TaskArrived
from fedfleet.engine.state import Phase
from fedfleet.network.rules.task_table import Phase as TaskPhase
from fedfleet.network.server import recovery
from fedfleet.network.server.recovery import ClientState, Rejections, add_line, read_lines, recover
from fedfleet.simulation.checkpoints import checkpoint_files
from fedfleet.store.files import load_tree
from tests.network.scene import Scene, play
from tests.network.server.test_commit import all_granted, committed, opened
from tests.network.toys import Toy, plan_of, reference, world_for

LONG_TOY = Toy(clients=2, rounds=5)


async def rounds(scene: Scene, count: int) -> None:
    for version in range(1, count + 1):
        tasks = await opened(scene, 2) if version == 1 else await scene.until(lambda: scene.running)
        at = await all_granted(scene, tasks)
        for index, own in at.items():
            scene.safe(index, *own)
            scene.closed(index, version - 1, own)
        scene.here(0, 1)
        await committed(scene, version)


def test_the_newest_two_are_kept_and_fit_the_journal(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await rounds(scene, 4)
        await scene.until(lambda: any("00000004" in p.name for p in checkpoint_files(tmp_path)))
        await scene.turn()

    play(tmp_path, LONG_TOY, act)
    result = checkpoint_files(tmp_path)
    assert len(result) == 2
    for path in result:
        arrays, meta = load_tree(path)
        assert sorted(arrays["wire/memory_task"].tolist()) == [2 * meta["gatherings"] - 2, 2 * meta["gatherings"] - 1]


def test_a_run_that_asks_for_few_has_few(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await rounds(scene, 3)
        await scene.turn()

    play(tmp_path, LONG_TOY, act, checkpoint_every=2)
    assert [path.name for path in checkpoint_files(tmp_path)] == ["checkpoint-00000002.safetensors"]


def test_without_durability_nothing_is_saved(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await rounds(scene, 1)
        await scene.turn()

    play(tmp_path, LONG_TOY, act, durable=False)
    assert checkpoint_files(tmp_path) == []


def test_a_checkpoint_that_cannot_be_written_ends_the_run_with_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise RunFailed("the disk is full; free some space, then resume")

    monkeypatch.setattr(recovery, "save_tree", full)

    async def act(scene: Scene) -> None:
        await rounds(scene, 3)

    with pytest.raises(RunFailed, match="the disk is full"):
        play(tmp_path, LONG_TOY, act)


def test_when_devices_were_there_is_written_down(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await rounds(scene, 1)

    play(tmp_path, LONG_TOY, act)
    assert (tmp_path / "wire" / "checkins.bin").stat().st_size > 0


TOY = Toy(clients=4, rounds=2)


async def finish(scene: Scene, held: dict[int, list[int]]) -> None:
    """Play on to the end; `held` is what the disks of both transmitters have of the open round."""
    for index in (0, 1):
        own = {}
        for task in held.get(index, []):
            own.setdefault(scene.granted[task][0], []).append(scene.granted[task][1])
        scene.ready(index, own)
    at = {index: list(tasks) for index, tasks in held.items()}
    while not scene.processor.end_reason:
        scene.here(*range(4))
        await scene.turn()
        scene.pass_by(0.01)
        for task in scene.running:
            if task in scene.granted:
                continue
            scene.claim(task % 2, task)
            at.setdefault(task % 2, []).append(task)
        await scene.turn()
        for index in (0, 1):
            closing = [b for m in scene.desk.told[index] for b in m.close]
            scene.grants(index)
            scene.safe(index, *(t for t in at.get(index, []) if t in scene.granted))
            for bucket in closing:
                scene.closed(index, bucket, [t for t in at.get(index, []) if scene.granted[t][0] == bucket])
        await scene.until(lambda: scene.processor.commits.gathering is None or not scene.processor.commits.committing)


def checked(tmp_path: Path, moment) -> None:
    """Kill at a moment, go on, and compare."""
    names, _ = reference(TOY)
    kept: dict = {}

    async def first(scene: Scene) -> None:
        kept["held"] = await moment(scene)
        kept["granted"] = dict(scene.granted)
        scene.processor.served.journal.flush()
        shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("shared", "*.part"))  # as a kill leaves it

    async def second(scene: Scene) -> None:
        scene.granted.update(kept["granted"])
        await finish(scene, kept["held"])
        assert [str(e.model_hash) for e in scene.events(ModelCommitted)] == names
        assert len(scene.events(TaskArrived)) == 8 == len({e.task for e in scene.events(TaskArrived)})
        assert scene.events(RoundFailed) == []

    play(tmp_path / "a", TOY, first)
    play(tmp_path / "b", TOY, second, resume=True)


async def nothing_yet(scene: Scene) -> dict[int, list[int]]:
    """Before anything was evaluated."""
    assert scene.processor.state.phase is Phase.EVALUATING
    return {}


async def asking(scene: Scene) -> dict[int, list[int]]:
    """An ask is out, and nobody is there."""
    scene.ready(0)
    await scene.until(scene.processor.is_asking)
    return {}


async def sent(scene: Scene) -> dict[int, list[int]]:
    """Tasks are out."""
    await opened(scene)
    return {}


async def some_arrived(scene: Scene) -> dict[int, list[int]]:
    """Two reports came, and are on disks."""
    tasks = await opened(scene)
    scene.claim(0, tasks[0])
    scene.claim(1, tasks[3])
    await scene.turn()
    scene.grants(0)
    scene.grants(1)
    return {0: [tasks[0]], 1: [tasks[3]]}


async def gathering(scene: Scene) -> dict[int, list[int]]:
    """All reports came, and none of the sums."""
    at = await all_granted(scene, await opened(scene))
    assert scene.processor.state.phase is Phase.GATHERING
    return at


async def made(scene: Scene) -> dict[int, list[int]]:
    """The first model is made and journalled; transmitters still have what it was made of."""
    at = await gathering(scene)
    for index, own in at.items():
        scene.safe(index, *own)
        scene.closed(index, 0, own)
    await committed(scene, 1)
    return at


@pytest.mark.parametrize("moment", [nothing_yet, asking, sent, some_arrived, gathering, made])
def test_a_server_that_is_killed_goes_on(moment, tmp_path: Path) -> None:
    checked(tmp_path, moment)


def test_reports_that_no_disk_has_are_released_and_may_come_again(tmp_path: Path) -> None:
    async def first(scene: Scene) -> None:
        await some_arrived(scene)
        scene.processor.served.journal.flush()
        shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("shared", "*.part"))

    async def second(scene: Scene) -> None:
        tasks = scene.processor.admission.tasks
        assert tasks.phase(0) is TaskPhase.GRANTED and tasks.phase(1) is TaskPhase.OPEN
        scene.ready(0)
        await scene.turn()
        assert tasks.phase(0) is TaskPhase.GRANTED  # transmitter 1 may have it
        scene.ready(1)
        await scene.turn()
        assert tasks.phase(0) is tasks.phase(3) is TaskPhase.RELEASED
        assert scene.processor.candidates.busy.tolist().count(True) == 2

    play(tmp_path / "a", TOY, first)
    play(tmp_path / "b", TOY, second, resume=True)


def test_refusals_and_memories_are_taken_up(tmp_path: Path) -> None:
    async def first(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.claim(0, tasks[0], fault="bad")
        scene.claim(0, tasks[0], fault="bad")
        await scene.turn()
        scene.processor.served.journal.flush()
        shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("shared", "*.part"))

    async def second(scene: Scene) -> None:
        assert scene.processor.admission.tasks.phase(0) is TaskPhase.REFUSED
        assert list(scene.processor.admission.rejections.reasons) == [0]

    play(tmp_path / "a", TOY, first)
    play(tmp_path / "b", TOY, second, resume=True)


def test_memories_follow_the_journal_also_without_a_checkpoint(tmp_path: Path) -> None:
    async def first(scene: Scene) -> None:
        await made(scene)
        await scene.turn()
        scene.processor.served.journal.flush()
        assert sorted(scene.processor.offers.client_state.memory_task.tolist()) == [0, 1, 2, 3]

    play(tmp_path, TOY, first)
    with_checkpoint = recover(plan_of(TOY), world_for(TOY), tmp_path)
    with_checkpoint[0].close()
    for path in tmp_path.glob("checkpoint-*"):
        path.unlink()
    journal, back = recover(plan_of(TOY), world_for(TOY), tmp_path)
    journal.close()
    assert np.array_equal(back.memory_task, with_checkpoint[1].memory_task)
    assert back.gatherings == with_checkpoint[1].gatherings == 1 and back.started and back.damages == ()


def test_a_journal_that_cannot_be_followed_goes_back_to_where_it_can_and_says_so(tmp_path: Path) -> None:
    async def first(scene: Scene) -> None:
        await made(scene)
        await scene.turn()

    play(tmp_path, TOY, first, checkpoint_every=100)
    for path in (tmp_path / "aggregates").iterdir():
        path.write_bytes(b"damaged")
    journal, back = recover(plan_of(TOY), world_for(TOY), tmp_path)
    assert back.state.book.version == 0 and not back.started
    assert any("cannot be followed" in said for said in back.damages)
    assert journal.position == 0
    journal.close()


def test_nothing_is_gathered_twice_by_a_server_that_goes_on(tmp_path: Path) -> None:
    async def first(scene: Scene) -> None:
        await made(scene)

    async def second(scene: Scene) -> None:
        scene.ready(0)
        scene.ready(1)
        await scene.turn()
        assert len(scene.events(ReportsGathered)) == 1 and scene.processor.commits.gatherings == 1

    play(tmp_path, TOY, first)
    play(tmp_path, TOY, second, resume=True)


def test_lines_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    assert read_lines(path) == []
    for said in ([1, "a\nb"], {"b": 2}, None):
        add_line(path, said)
    assert read_lines(path) == [[1, "a\nb"], {"b": 2}, None]


def test_a_torn_line_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    add_line(path, [1])
    add_line(path, [2])
    path.write_bytes(path.read_bytes()[:-3])
    assert read_lines(path) == [[1]]
    add_line(path, [3])
    assert read_lines(path) == [[1], [3]]


def test_a_disk_that_will_not_have_it_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="free some space, then resume"):
        add_line(tmp_path / "nowhere" / "said.jsonl", 1)


def test_a_rejection_is_there_after_a_kill_and_gone_after_its_commit(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    rejections = Rejections(path)
    rejections.add(3, "client 1: it is not finite")
    rejections.add(5, "client 2: no\nbetter")
    assert Rejections(path).reasons == rejections.reasons == {3: "client 1: it is not finite", 5: "client 2: no\nbetter"}
    rejections.forget([3, 4])
    assert rejections.reasons == {5: "client 2: no\nbetter"}
    rejections.forget([5])
    assert not path.exists() and Rejections(path).reasons == {}


def test_those_of_commits_that_were_made_are_forgotten_and_torn_lines_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    path.write_text('[1, "a"]\n[2, "b"]\n{"odd": 1}\n[3, "to')
    rejections = Rejections(path)
    rejections.keep_only([2, 9])
    assert rejections.reasons == {2: "b"}
    rejections.add(4, "d")
    assert Rejections(path).reasons[4] == "d"


def test_the_last_folded_task_is_remembered(tmp_path: Path) -> None:
    memories = ClientState(3, tmp_path / "m")
    memories.record_folded(1, 4)
    memories.record_folded(1, 9)
    assert memories.memory_task.tolist() == [-1, 9, -1]


def test_a_takeover_forgets_and_so_does_a_report_of_the_device_before(tmp_path: Path) -> None:
    memories = ClientState(2, tmp_path / "m")
    memories.record_folded(0, 4)
    memories.record_takeover(0, 10)
    assert memories.memory_task.tolist() == [-1, -1]
    memories.record_folded(0, 9)  # of the device before, folded later
    assert memories.memory_task[0] == -1
    memories.record_folded(0, 10)
    assert memories.memory_task[0] == 10


def test_a_restart_knows_of_takeovers_and_believes_nothing_else(tmp_path: Path) -> None:
    ClientState(3, tmp_path / "m").record_takeover(1, 6)
    with (tmp_path / "m").open("a") as file:
        file.write('[99, 1]\n"odd"\n[1]\n[1, "x"]\n')
    back = ClientState(3, tmp_path / "m")
    journalled = np.array([2, 5, 7])
    back.restore(journalled)
    assert back.memory_task.tolist() == [2, -1, 7] and journalled.tolist() == [2, 5, 7]
    back.restore(np.array([2, 6, 7]))
    assert back.memory_task.tolist() == [2, 6, 7]
