"""Offers: each version is encoded once, and goes when nobody can ask for it any more."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedfleet.core.records import ServerState
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import offer_from_bytes
from fedfleet.network.protocol.process_link import map_blob
from tests.network.scene import Scene, play
from tests.network.server.test_commit import all_granted, committed, opened
from tests.network.server.test_server_loop import tasks_in
from tests.network.toys import Toy

TOY = Toy(clients=4, rounds=3)


def blobs(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.blob"))


def test_a_wave_of_one_model_has_one_blob_with_its_bytes(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await opened(scene)
        (message,) = [m for m in scene.told(0) if m.waves]
        (blob,) = message.blobs
        (wave,) = message.waves
        assert list(wave.blobs) == [blob.name] and wave.blob == b"" and len(wave.heaviest) == 32
        known = scene.processor.offers.announced_blobs[blob.name]
        assert (known.nbytes, known.crc32c) == (blob.nbytes, blob.crc32c)
        assert np.array_equal(offer_from_bytes(bytes(map_blob(known))).params["w"], scene.plan.params["w"])
        assert blobs(tmp_path / "shared") == [blob.name]

    play(tmp_path, TOY, act)


def test_old_versions_go_when_nobody_runs_with_them(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        first = blobs(tmp_path / "shared")
        for index, own in at.items():
            scene.safe(index, *own)
            scene.closed(index, 0, own)
        scene.here(*range(4))
        await committed(scene, 1)
        await scene.until(lambda: scene.running)
        assert len(blobs(tmp_path / "shared")) == 1 and blobs(tmp_path / "shared") != first
        assert [n for m in scene.told(1) for n in m.dropped_blobs] == first

    play(tmp_path, TOY, act)


def test_versions_that_were_prepared_and_never_sent_go_too_and_judged_ones_stay(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        offering, state = scene.processor.offers, scene.processor.state
        for version in range(1, 6):
            made = ServerState({"w": np.full(4, version, np.float32)})
            offering.register_version(offering.encode_model(made), version)
        now = state._replace(book=state.book._replace(version=5))
        effects = offering.drop_unused(now, {3})
        assert sorted(offering.version_of.values()) == [3, 5] and len(offering.blobs) == 2
        assert len(blobs(tmp_path / "shared")) == 2
        assert effects == []  # no frontend had been told of them
        offering.drop_unused(now)
        assert list(offering.version_of.values()) == [5]

    play(tmp_path, TOY, act)


def test_a_model_that_comes_back_with_the_same_bytes_is_of_its_newest_version(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        offering, state = scene.processor.offers, scene.processor.state
        one, same = ({"w": np.full(4, 7, np.float32)} for _ in range(2))
        blob = offering.encode_model(ServerState(one))
        offering.register_version(blob, 1)
        assert offering.encode_model(ServerState(same)) == blob
        offering.register_version(blob, 2)
        offering.register_version(blob, 1)  # a transmitter is told of an old wave again
        offering.drop_unused(state._replace(book=state.book._replace(version=2)))
        assert blobs(tmp_path / "shared") == [blob.name]

    play(tmp_path, TOY, act)


def test_who_starts_again_is_told_of_what_runs_and_of_nothing_else(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.claim(0, tasks[2])
        await scene.turn()
        out = inside.ToTransmitter()
        processor = scene.processor
        processor.offers.add_full_state(out, processor.state)
        assert tasks_in(out) == [t for t in tasks if t != tasks[2]]
        assert [b.name for b in out.blobs] == list(processor.offers.announced_blobs) and out.frozen == ""

    play(tmp_path, TOY, act)
