"""A transmitter: takes the processor's word in the right order, acknowledges what is on the disk, and says what it found there."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.network.frontend import partial_sums as summing
from fedfleet.network.frontend.frontend import run_frontend
from fedfleet.network.frontend.report_log import entry_from_bytes
from fedfleet.network.frontend.spool import read_spool
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Link, connect_link
from fedfleet.network.server.options import config_to_bytes
from fedfleet.store.files import load_tree
from tests.network.stage import Stage, perform, start_in, until


async def granted(stage: Stage, client: int, task: int, bucket: int = 0) -> pb.Receipt:
    """A report is handed in, granted and acknowledged."""
    call = stage.hand(client, task)
    (claim,) = await stage.claims()
    stage.grant(claim, bucket)
    return await call


def test_claims_that_come_fast_gather_for_longer_and_a_single_one_goes_at_once(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.transmitter.on_message(stage.wave(0, 0, 1, 2, 3))
        began = asyncio.get_running_loop().time()
        stage.hand(0, 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [len(m.claims) for m in stage.said] == [1]  # at once
        for client in (1, 2):
            stage.hand(client, client)
        await until(lambda: len(stage.said) == 2)
        assert len(stage.said[1].claims) == 2 and asyncio.get_running_loop().time() - began >= 0.004
        second = stage.transmitter.uplink.sent_at
        stage.hand(3, 3)
        await until(lambda: len(stage.said) == 3)
        assert stage.transmitter.uplink.sent_at - second >= 0.0099

    perform(tmp_path, act)


def test_a_granted_report_is_acknowledged_when_a_restart_would_find_it(tmp_path: Path) -> None:
    async def first(stage: Stage) -> None:
        stage.transmitter.on_message(stage.wave(4, 2))
        assert (await granted(stage, 2, 4)).status == pb.Receipt.SAFE
        assert stage.transmitter.state.work_queue.next_item(2) is None
        await until(lambda: [t for m in stage.said for t in m.safe] == [4])

    async def second(stage: Stage) -> None:
        (result,) = stage.transmitter.ready_message().found
        assert (result.bucket, list(result.tasks)) == (0, [4])
        entry = entry_from_bytes(result.entries[0])
        assert (entry.task, entry.client, entry.names) == (4, 2, ("loss",))

    perform(tmp_path, first)
    perform(tmp_path, second)


def test_beside_sums_a_spool_does_not_say_what_is_safe(tmp_path: Path) -> None:
    """It may have what came after the sums were copied: who counted that as safe would miss it in the sums."""

    async def first(stage: Stage) -> None:
        await granted(stage, 1, 1)
        late = summing.LogEntry(9, 3, 9, 0.0, 1.0, 1.0, "", 0, 0, (), (), 0)
        assert stage.transmitter.group_commit.spool is not None
        stage.transmitter.group_commit.spool.add(0, late, b"late")
        stage.transmitter.group_commit.spool.sync()

    async def second(stage: Stage) -> None:
        (result,) = stage.transmitter.ready_message().found
        assert list(result.tasks) == [1]
        assert [e.task for e, _ in read_spool(Path(stage.transmitter.config.folder), 0)] == [1, 9]

    perform(tmp_path, first, spool=True)
    perform(tmp_path, second, spool=True)


def test_without_sums_the_spool_says_what_is_safe(tmp_path: Path) -> None:
    async def first(stage: Stage) -> None:
        await granted(stage, 1, 1)

    async def second(stage: Stage) -> None:
        assert [list(f.tasks) for f in stage.transmitter.ready_message().found] == [[1]]

    perform(tmp_path, first, stream=False, spool=True)
    perform(tmp_path, second, stream=False, spool=True)


def test_a_bucket_is_closed_with_everything_that_was_granted_in_it(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        calls = [stage.hand(client, client + 10) for client in range(3)]
        claims = await stage.claims(3)
        grants = [
            inside.Grant(number=c.number, granted=True, bucket=int(c.client == 2), weight=1.0, factor=1.0, order=n)
            for n, c in enumerate(claims)
        ]
        stage.tell(grants=grants, close=[0])  # in one message: first the grants, also that of the next bucket
        (part,) = await until(lambda: [p for m in stage.said for p in m.closed])
        assert (part.bucket, part.count) == (0, 2)
        assert load_tree(Path(part.path))[0]
        assert [(await call).status for call in calls] == [pb.Receipt.SAFE] * 3
        stage.tell(discard=[0], close=[0])
        parts = await until(lambda: [p for m in stage.said for p in m.closed][1:])
        assert (parts[0].path, parts[0].count) == ("", 0)

    perform(tmp_path, act)


def test_a_device_that_hung_up_before_its_grant_counts_all_the_same(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        call = stage.hand(1, 5)
        (claim,) = await stage.claims()
        call.cancel()
        await asyncio.sleep(0)
        assert stage.transmitter.limiter.bytes_in_flight == 0
        stage.grant(claim)
        await until(lambda: [t for m in stage.said for t in m.safe] == [5])
        assert stage.transmitter.uplink.claims == {}

    perform(tmp_path, act)


def test_a_grant_that_nobody_waits_for_is_passed_over(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.tell(grants=[inside.Grant(number=77, granted=True, weight=1.0, factor=1.0)])
        assert stage.transmitter.group_commit.sums is not None and stage.transmitter.group_commit.sums.count(0) == 0

    perform(tmp_path, act)


def test_the_same_blob_dropped_and_wanted_again_in_one_message_is_there(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        first = stage.wave(0, 1)
        stage.transmitter.on_message(first)
        again = stage.wave(1, 2)
        again.dropped_blobs.append(first.blobs[0].name)
        stage.transmitter.on_message(again)
        assert (await stage.check(2)).work.task == 1

    perform(tmp_path, act)


def test_a_blob_that_is_gone_costs_a_device_a_moment_and_nobody_else_anything(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        message = stage.wave(0, 1, data=b"short-lived")
        Path(message.blobs[0].path).unlink()
        stage.transmitter.on_message(message)
        answer = await stage.check(1)
        assert answer.later.seconds > 0
        stage.transmitter.on_message(stage.wave(7, 1))
        assert (await stage.check(1)).work.task == 7

    perform(tmp_path, act)


def test_withdrawn_with_a_new_wave_in_one_message(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.transmitter.on_message(stage.wave(0, 1))
        message = stage.wave(1, 1)
        message.withdrawn.append(0)
        stage.transmitter.on_message(message)
        assert (await stage.check(1)).work.task == 1
        stage.tell(withdrawn=[1])
        assert (await stage.check(1)).WhichOneof("what") == "later"
        assert len(stage.transmitter.state.work_queue) == 0

    perform(tmp_path, act)


def test_who_hung_up_and_is_here_again_is_here(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        of = stage.transmitter
        of.uplink.record_call(1, 0.0)
        of.uplink.record_departure(1)
        of.uplink.record_call(1, 0.0)
        of.uplink.record_departure(2)
        of.uplink.record_call(3, 0.0)
        of.uplink.record_departure(3)
        of.uplink.record_departure(3)
        await until(lambda: stage.said)
        (message,) = stage.said
        assert sorted(message.gone) == [2, 3] and list(message.heard) == [1, 1, 3]

    perform(tmp_path, act)


def test_a_disk_that_is_full_acknowledges_nothing_and_has_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise RunFailed("no room; make some, then resume")

    monkeypatch.setattr(summing.SnapshotStore, "write", full)

    async def act(stage: Stage) -> None:
        call = stage.hand(1, 1)
        (claim,) = await stage.claims()
        stage.grant(claim)
        await asyncio.wait_for(stage.transmitter.stopped.wait(), 5)
        assert stage.transmitter.failure == "no room; make some, then resume"
        assert not call.done() and [t for m in stage.said for t in m.safe] == []
        call.cancel()

    perform(tmp_path, act)


def test_a_report_that_is_granted_twice_is_never_counted_twice(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await granted(stage, 1, 1)
        stage.hand(1, 1)
        (claim,) = await stage.claims()
        with pytest.raises(RunFailed, match="accepted twice"):
            stage.grant(claim)

    perform(tmp_path, act)


def test_one_that_cannot_begin_says_why_and_lets_go(tmp_path: Path) -> None:
    async def played() -> None:
        (tmp_path / "t0").write_text("not a folder")
        ours, theirs = socket.socketpair()
        lost = asyncio.Event()
        link = await connect_link(ours, Link(inside.ToProcessor, lambda message: None, lost.set))
        running = asyncio.create_task(run_frontend(theirs))
        link.send(inside.ToTransmitter(start=config_to_bytes(start_in(tmp_path, address="127.0.0.1:0"))))
        with pytest.raises(RunFailed, match="check disk space"):
            await asyncio.wait_for(running, 5)
        await asyncio.wait_for(lost.wait(), 5)

    asyncio.run(played())


def test_it_ends_when_the_processor_lets_go(tmp_path: Path) -> None:
    async def played() -> None:
        ours, theirs = socket.socketpair()
        heard: list[inside.ToProcessor] = []
        link = await connect_link(ours, Link(inside.ToProcessor, heard.append, lambda: None))
        running = asyncio.create_task(run_frontend(theirs))
        link.send(inside.ToTransmitter(start=config_to_bytes(start_in(tmp_path, address="127.0.0.1:0"))))
        await until(lambda: any(m.HasField("ready") for m in heard))
        link.close()
        await asyncio.wait_for(running, 5)

    asyncio.run(played())


def test_drained_and_over_are_heard_by_everybody(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        stage.transmitter.on_message(stage.wave(0, 1))
        stage.tell(drain=True)
        assert (await stage.check(1)).later.seconds > 1
        stage.tell(over="rounds")
        assert (await stage.check(1)).over.reason == "rounds"
        assert stage.transmitter.counters["told_over"] == 1

    perform(tmp_path, act)
