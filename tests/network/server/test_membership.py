"""Membership: who may be a client, who is told why not, and what a device that takes a place over begins with."""

from __future__ import annotations

from pathlib import Path

from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import PROTOCOL
from fedfleet.network.security.tokens import TokenRequest, make_token
from tests.network.scene import Scene, play
from tests.network.toys import Toy

TOY = Toy(clients=4, rounds=2)


def enrol(scene: Scene, number: int, **said: object) -> pb.EnrolReply:
    request = pb.EnrolRequest(protocol=PROTOCOL, **said)  # type: ignore[arg-type]
    scene.say(0, enrolling=[inside.Enrolling(number=number, request=request.SerializeToString(), peer="here")])
    return request  # type: ignore[return-value]


def test_a_device_that_takes_a_place_over_begins_without_memory_and_the_old_secret_holds_no_more(
    tmp_path: Path,
) -> None:
    async def act(scene: Scene) -> None:
        for index in (0, 1):
            scene.ready(index)
        enrol(scene, 1, client=2)
        await scene.turn()
        scene.processor.offers.client_state.record_folded(2, 0)
        token, _ = make_token(scene.processor.served.registry._db, TokenRequest(client=2), 0.0)
        scene.told(0)
        scene.told(1)
        enrol(scene, 2, token=token)
        await scene.turn()
        (answer,) = [a for m in scene.desk.told[0] for a in m.enrolled]
        assert answer.refused == "" and pb.EnrolReply.FromString(answer.reply).client == 2
        assert scene.processor.offers.client_state.memory_task[2] == -1
        for index in (0, 1):
            assert [(c, g) for m in scene.told(index) for c, g in zip(m.revoked, m.generations, strict=True)] == [
                (2, 2)
            ]

    play(tmp_path, TOY, act)


def test_a_device_that_is_not_admitted_hears_why(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        enrol(scene, 1, client=99)
        await scene.turn()
        (answer,) = [a for m in scene.told(0) for a in m.enrolled]
        assert "there is no client 99" in answer.refused and not answer.reply

    play(tmp_path, TOY, act)
