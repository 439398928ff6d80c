"""What transmitters say: presence, what their disks hold, who is admitted; one that starts again hears all that the others know."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedfleet.core.events import TaskArrived
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import PROTOCOL
from fedfleet.network.rules.task_table import Phase
from fedfleet.network.security.tokens import TokenRequest, make_token
from fedfleet.network.server.dispatch import send_full_state, uncommitted_arrivals
from tests.network.scene import Scene, play
from tests.network.server.test_commit import all_granted, opened
from tests.network.toys import Toy

TOY = Toy(clients=4, rounds=2)


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
        scene.processor.draining = True
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
        out = inside.ToTransmitter()
        send_full_state(scene.processor, out)
        assert out.over == "rounds"

    play(tmp_path, TOY, act)


def test_what_a_disk_holds_is_safe_and_what_it_lacks_is_released(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        at = await all_granted(scene, await opened(scene))
        scene.die(0)
        scene.ready(0, {0: [scene.granted[at[0][0]][1]]})
        await scene.turn()
        phases = {task: scene.processor.tasks.phase(task) for task in scene.granted}
        assert phases == {
            at[0][0]: Phase.SAFE,
            at[0][1]: Phase.RELEASED,
            at[1][0]: Phase.GRANTED,
            at[1][1]: Phase.GRANTED,
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
        assert "does not know any more" in scene.remarks()

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
    return LogEntry(
        task, report.client, order, 0.1, report.weight, 1.0, "", 5, size, ("loss", "compute"), (1.0, 0.01), 1
    )


def test_presence_follows_what_is_heard(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        scene.ready(0)
        scene.here(0, 1)
        await scene.turn()
        scene.say(0, gone=[1])
        await scene.turn()
        assert scene.processor.presence.present(scene.processor.now()).tolist() == [True, False, False, False]

    play(tmp_path, TOY, act)


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
        scene.processor.client_state.record_folded(2, 0)
        token, _ = make_token(scene.processor.served.registry._db, TokenRequest(client=2), 0.0)
        scene.told(0)
        scene.told(1)
        enrol(scene, 2, token=token)
        await scene.turn()
        (answer,) = [a for m in scene.desk.told[0] for a in m.enrolled]
        assert answer.refused == "" and pb.EnrolReply.FromString(answer.reply).client == 2
        assert scene.processor.client_state.memory_task[2] == -1
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


def test_arrived_are_those_that_came_and_are_not_committed(tmp_path: Path) -> None:
    async def act(scene: Scene) -> None:
        tasks = await opened(scene)
        scene.claim(0, tasks[1])
        scene.claim(0, tasks[0], declined="no")
        await scene.turn()
        assert [e.task for e in uncommitted_arrivals(scene.processor.state)] == [tasks[1]]

    play(tmp_path, TOY, act)
