"""Saving: checkpoints are of a state that the journal holds, the newest two are kept, and a disk that is full ends the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.network.server import checkpoint_writer
from fedfleet.simulation.checkpoints import checkpoint_files
from fedfleet.store.files import load_tree
from tests.network.scene import Scene, play
from tests.network.server.test_commit import all_granted, committed, opened
from tests.network.toys import Toy

TOY = Toy(clients=2, rounds=5)


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

    play(tmp_path, TOY, act)
    result = checkpoint_files(tmp_path)
    assert len(result) == 2
    for path in result:
        arrays, meta = load_tree(path)
        assert sorted(arrays["wire/memory_task"].tolist()) == [2 * meta["gatherings"] - 2, 2 * meta["gatherings"] - 1]


def test_a_run_that_asks_for_few_has_few(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await rounds(scene, 3)
        await scene.turn()

    play(tmp_path, TOY, act, checkpoint_every=2)
    assert [path.name for path in checkpoint_files(tmp_path)] == ["checkpoint-00000002.safetensors"]


def test_without_durability_nothing_is_saved(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await rounds(scene, 1)
        await scene.turn()

    play(tmp_path, TOY, act, durable=False)
    assert checkpoint_files(tmp_path) == []


def test_a_checkpoint_that_cannot_be_written_ends_the_run_with_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise RunFailed("the disk is full; free some space, then resume")

    monkeypatch.setattr(checkpoint_writer, "save_tree", full)

    async def act(scene: Scene) -> None:
        await rounds(scene, 3)

    with pytest.raises(RunFailed, match="the disk is full"):
        play(tmp_path, TOY, act)


def test_when_devices_were_there_is_written_down(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await rounds(scene, 1)

    play(tmp_path, TOY, act)
    assert (tmp_path / "wire" / "checkins.bin").stat().st_size > 0
