"""One sentence in every phase: what has to happen before the run goes on."""

from __future__ import annotations

from pathlib import Path

from fedfleet.network.server.waits import waiting_for
from tests.network.scene import Scene, play
from tests.network.server.test_commit import all_granted, opened
from tests.network.toys import Toy

TOY = Toy(clients=5, rounds=1)


def test_people_hear_what_is_waited_for(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        processor = scene.processor
        assert waiting_for(processor) == "model 0 to be judged"
        scene.ready(0)
        scene.ready(1)
        await scene.until(processor.is_asking)
        scene.here(3)
        await scene.turn()
        assert waiting_for(processor) == "devices: 1 of 5 are here"
        tasks = await opened(scene, 5)
        assert waiting_for(processor).startswith("5 reports: of clients ") and "and others" in waiting_for(processor)
        for task in tasks[:4]:
            scene.claim(task % 2, task)
        await scene.turn()
        for index in (0, 1):
            scene.grants(index)
        assert waiting_for(processor) == f"1 reports: of client {scene.client(tasks[4])}"
        at = {index: [t for t in tasks if t % 2 == index] for index in (0, 1)}
        await all_granted(scene, [tasks[4]])
        assert waiting_for(processor) == "model 1 to be made"
        for index, own in at.items():
            scene.safe(index, *own)
            scene.closed(index, 0, own)
        await scene.until(lambda: processor.end_reason)
        assert waiting_for(processor) == "nothing: the run is over (rounds)"

    play(tmp_path, TOY, act)
