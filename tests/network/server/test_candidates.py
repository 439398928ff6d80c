"""Candidates: an ask waits for the declared fleet, or for as long as patience lasts, and says so."""

from __future__ import annotations

from pathlib import Path

from fedfleet.core.events import CandidatesSeen
from tests.network.scene import Scene, play
from tests.network.toys import Toy

TOY = Toy(clients=4, rounds=2)


async def asked(scene: Scene) -> None:
    for index in (0, 1):
        scene.ready(index)
    await scene.until(scene.processor.is_asking)


def test_the_declared_fleet_is_waited_for(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await asked(scene)
        scene.here(0, 1, 2)
        await scene.turn()
        assert not scene.running and scene.processor.candidates.deadline(scene.processor.now()) is not None
        scene.here(3)
        await scene.turn()
        assert scene.running == [0, 1, 2, 3] and scene.processor.candidates.deadline(scene.processor.now()) is None
        assert "patience" not in scene.remarks()

    play(tmp_path, TOY, act, patience=60.0)


def test_patience_begins_with_the_first_and_its_end_is_remarked(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await asked(scene)
        scene.pass_by(500.0)
        await scene.turn()
        scene.here(0, 2)
        await scene.turn()
        assert not scene.running
        scene.pass_by(61.0)
        scene.here(0, 2)
        await scene.turn()
        assert scene.running == [0, 1] and sorted(map(scene.client, scene.running)) == [0, 2]
        assert "asked of 2 of the 4 declared devices" in scene.remarks()

    play(tmp_path, TOY, act, patience=60.0)


def test_nobody_at_all_is_no_answer(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await asked(scene)
        scene.here(0)
        scene.say(0, gone=[0])
        scene.pass_by(1000.0)
        await scene.turn()
        assert scene.events(CandidatesSeen) == []

    play(tmp_path, TOY, act, patience=60.0)


def test_who_was_told_to_come_back_is_there_until_then_and_a_little_longer(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await asked(scene)
        scene.here(0, 1, 2, back=100.0)
        scene.pass_by(90.0)
        scene.here(3)
        await scene.turn()
        assert len(scene.running) == 4

    play(tmp_path, TOY, act, patience=600.0)
