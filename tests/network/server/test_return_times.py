"""Guiding: transmitters hear when new work is likely, when that changes, and one that starts hears it at once."""

from __future__ import annotations

from pathlib import Path

from fedfleet.network.protocol import inside_pb2 as inside
from tests.network.scene import Scene, play
from tests.network.server.test_commit import opened
from tests.network.toys import Toy

TOY = Toy(clients=4, rounds=2)


def told(scene: Scene, index: int) -> list[float]:
    return [m.come_back for m in scene.told(index) if m.HasField("come_back")]


def test_news_is_told_and_what_is_not_new_is_not(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.pass_by(1.0)
        await scene.turn()
        told(scene, 0)
        scene.pass_by(1.0)
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
        out = inside.ToTransmitter()
        scene.processor.return_times.add_full_state(scene.processor, out)
        assert out.HasField("come_back") and out.come_back == 0.0 and out.round == 0

    play(tmp_path, TOY, act)
