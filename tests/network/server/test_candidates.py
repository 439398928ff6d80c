"""Candidates: an ask waits for the declared fleet, or for as long as patience lasts, and says so.

Membership: who may be a client, who is told why not, and what a device that takes a place over begins with.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.events import CandidatesSeen
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import PROTOCOL
from fedfleet.network.security.tokens import TokenRequest, make_token
from fedfleet.network.server.candidates import Presence, available_clients, missing_devices, patience_end
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


def test_patience_goes_on_when_the_first_device_leaves(tmp_path: Path) -> None:
    """Devices that come one after another, each for less than the patience of the server."""

    async def act(scene: Scene) -> None:
        await asked(scene)
        for client in (0, 1, 2):
            scene.here(client)
            await scene.turn()
            assert not scene.running
            scene.pass_by(25.0)
            scene.say(0, gone=[client])
            await scene.turn()
        scene.here(3)
        await scene.turn()
        assert [scene.client(task) for task in scene.running] == [3]

    play(tmp_path, TOY, act, patience=60.0)


def test_a_round_that_needs_two_at_once_says_so_after_patience_and_again_after_pauses_that_double(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await asked(scene)
        for _ in range(20):
            scene.here(1)
            await scene.turn()
            assert not scene.running
            scene.pass_by(20.0)
            await scene.turn()
        said = [line for line in scene.remarks().splitlines() if "for 2 devices at the same time; 1 is connected" in line]
        assert len(said) == 3, scene.remarks()  # after 60, 120 and 240 of 400 seconds
        assert "--devices 1" in said[0] and len(said[0]) < 300, "a log cuts longer lines"
        scene.here(2)
        await scene.turn()
        assert sorted(map(scene.client, scene.running)) == [1, 2]

    play(tmp_path, Toy(clients=4, rounds=2, min_clients=2), act, patience=60.0)


def test_who_was_told_to_come_back_is_there_until_then_and_a_little_longer(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        await asked(scene)
        scene.here(0, 1, 2, back=100.0)
        scene.pass_by(90.0)
        scene.here(3)
        await scene.turn()
        assert len(scene.running) == 4

    play(tmp_path, TOY, act, patience=600.0)


seconds = st.floats(0, 1000)


def ints(*values):
    return np.array(values, np.int64)


def test_nobody_is_there_who_never_called():
    there = Presence(3)
    assert not there.present(0.0).any()


def test_a_device_is_expected_until_it_should_be_back_and_some_grace_longer():
    there = Presence(2, grace=5.0, hold=30.0)
    there.record_calls(ints(0, 1), np.array([20.0, 0.0]), 100.0)
    assert there.present(125.0).tolist() == [True, True]
    assert there.present(125.1).tolist() == [False, True]
    assert there.present(135.0).tolist() == [False, True]
    assert there.present(135.1).tolist() == [False, False]


def test_who_hangs_up_is_gone_until_it_calls_again():
    there = Presence(1)
    there.record_calls(ints(0), np.array([100.0]), 0.0)
    there.record_departures(ints(0))
    assert not there.present(0.0)[0]
    there.record_calls(ints(0), np.array([0.0]), 1.0)
    assert there.present(1.0)[0]


@given(st.lists(st.tuples(st.sampled_from(["line", "later", "gone"]), st.integers(0, 3), st.floats(0, 5))), seconds)
def test_nobody_on_the_line_is_forgotten_and_nobody_else_stays(steps, back):
    """Against a literal list of what each client last did."""
    there, now, last = Presence(4, grace=2.0, hold=3.0), 0.0, {}
    for what, client, wait in steps:
        now += wait
        if what == "gone":
            there.record_departures(ints(client))
        else:
            there.record_calls(ints(client), np.array([0.0 if what == "line" else back + 0.5]), now)
        last[client] = (what, now)
        for other, (did, at) in last.items():
            until = {"gone": -math.inf, "line": at + 3.0, "later": at + (back + 0.5)}[did] + 2.0
            assert there.present(now)[other] == (now <= until)


def test_who_can_be_asked():
    there, busy = np.array([1, 1, 0, 1], bool), np.array([0, 1, 0, 0], bool)
    assert available_clients(there, busy).tolist() == [0, 3]
    assert available_clients(there, busy, np.array([1, 1, 1, 0], bool)).tolist() == [0]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 5), seconds, seconds, seconds)
def test_an_ask_is_never_answered_short_before_patience_ends(present, busy, declared, least, asked_at, wait, patience):
    now = asked_at + wait
    answer = missing_devices(
        present=present,
        busy=busy,
        declared=declared,
        at_least=least,
        asked_at=asked_at,
        now=now,
        patience=patience,
    )
    again = patience_end(asked_at=asked_at, now=now, patience=patience)
    if answer is None:
        assert present < max(1, least) or (present + busy < declared and again is not None and again > now)
    else:
        assert present >= max(1, least)
        assert answer == max(0, declared - present - busy)
        assert answer == 0 or now >= asked_at + patience


def test_boundless_patience_never_looks_again_by_itself():
    assert patience_end(asked_at=0.0, now=1e9, patience=math.inf) is None
    said = {"present": 9, "busy": 0, "declared": 10, "at_least": 1, "asked_at": 0.0, "patience": math.inf}
    assert missing_devices(**said, now=1e9) is None
    assert missing_devices(**said | {"present": 10}, now=0.0) == 0


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
            assert [(c, g) for m in scene.told(index) for c, g in zip(m.revoked, m.generations, strict=True)] == [(2, 2)]

    play(tmp_path, TOY, act)


def test_a_device_that_is_not_admitted_hears_why(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        enrol(scene, 1, client=99)
        await scene.turn()
        (answer,) = [a for m in scene.told(0) for a in m.enrolled]
        assert "there is no client 99" in answer.refused and not answer.reply

    play(tmp_path, TOY, act)
