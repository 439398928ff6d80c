from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.network.frontend.payloads import BufferPool, ChunkCache, DownloadGate, PartialUploads
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK


def test_a_room_is_used_again_for_its_own_size_only():
    rooms = BufferPool(100)
    first = rooms.acquire(40)
    rooms.release(first)
    assert rooms.acquire(30) is not first
    assert rooms.acquire(40) is first
    assert rooms.acquire(40) is not first
    assert len(first) == 40


def test_a_room_that_somebody_looks_into_is_left_alone():
    rooms = BufferPool(100)
    for look in (memoryview, lambda room: np.frombuffer(room, np.uint8)[3:5]):
        room = rooms.acquire(8)
        view = look(room)
        rooms.release(room)
        assert rooms.nbytes == 0
        del view
        rooms.release(room)
        assert rooms.acquire(8) is room


def test_no_more_is_kept_than_allowed_and_the_oldest_goes():
    rooms = BufferPool(100)
    old, new, large = bytearray(60), bytearray(50), bytearray(101)
    for room in (old, new, large):
        rooms.release(room)
    assert rooms.nbytes == 0  # the large one has put the others out, and is too large itself
    rooms.release(old)
    rooms.release(new)
    assert rooms.nbytes == 50
    assert rooms.acquire(60) is not old
    assert rooms.acquire(50) is new


def test_chunks_are_made_once_and_are_the_bytes_of_the_model():
    data = memoryview(np.random.default_rng(1).bytes(CHUNK + 500))
    chunks = ChunkCache(1 << 30)
    whole = b"".join(chunks.chunk_at("a", data, at) for at in range(0, len(data), CHUNK))
    assert whole == bytes(data)
    assert chunks.chunk_at("a", data, 0) is chunks.chunk_at("a", data, 0)
    assert chunks.chunk_at("a", data, 7) == bytes(data[7 : 7 + CHUNK])  # a resumed download may begin anywhere


def test_only_the_newest_models_are_kept_and_none_that_is_too_large():
    data, chunks = memoryview(bytes(10)), ChunkCache(10)
    first = chunks.chunk_at("a", data, 0)
    chunks.chunk_at("b", data, 0)
    assert chunks.chunk_at("a", data, 0) is first
    chunks.chunk_at("c", data, 0)
    assert chunks.chunk_at("a", data, 0) is not first
    large = memoryview(bytes(11))
    assert chunks.chunk_at("d", large, 0) is not chunks.chunk_at("d", large, 0)


class Call:
    """A call that ends when it is told to."""

    def __init__(self):
        self.after = []

    def add_done_callback(self, callback):
        self.after.append(callback)

    def end(self):
        for callback in self.after:
            callback(self)


def test_what_fits_passes_at_once_and_the_rest_in_the_order_of_its_coming():
    async def run():
        gate, calls, passed = DownloadGate(100), [Call() for _ in range(4)], []

        async def one(i):
            await gate.acquire(50, calls[i])
            passed.append(i)

        tasks = [asyncio.create_task(one(i)) for i in range(4)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (passed, gate.nbytes) == ([0, 1], 100)
        for i in range(4):
            calls[i].end()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert (passed, gate.nbytes) == ([0, 1, 2, 3], 0)
        await asyncio.gather(*tasks)

    asyncio.run(run())


def test_one_that_is_larger_than_the_gate_passes_alone():
    async def run():
        gate, large, small = DownloadGate(10), Call(), Call()
        await gate.acquire(1000, large)
        waiting = asyncio.create_task(gate.acquire(1, small))
        await asyncio.sleep(0)
        assert not waiting.done()
        large.end()
        await waiting
        assert gate.nbytes == 1

    asyncio.run(run())


def test_a_call_that_ends_in_line_takes_no_room():
    async def run():
        gate, first, second = DownloadGate(10), Call(), Call()
        await gate.acquire(10, first)
        waiting = asyncio.create_task(gate.acquire(10, second))
        await asyncio.sleep(0)
        second.end()
        first.end()
        await waiting
        assert gate.nbytes == 0

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(["end", "cancel", "both"])), max_size=30), st.randoms())
def test_nothing_is_lost_or_kept_whatever_becomes_of_the_calls(asked, random):
    async def run():
        gate, calls, tasks = DownloadGate(50), [], []
        for nbytes, _ in asked:
            call = Call()
            calls.append(call)
            tasks.append(asyncio.create_task(gate.acquire(nbytes, call)))
            await asyncio.sleep(0)
            assert gate.nbytes <= 50
        order = list(range(len(asked)))
        random.shuffle(order)
        for i in order:
            if asked[i][1] != "end":
                tasks[i].cancel()
            await asyncio.sleep(0)
            calls[i].end()  # gRPC tells of the end of cancelled calls too
            await asyncio.sleep(0)
            assert gate.nbytes <= 50
        await asyncio.gather(*tasks, return_exceptions=True)
        assert gate.nbytes == 0

    asyncio.run(run())


def head(task: int = 1, nbytes: int = 10, crc: int = 7, offset: int = 0) -> pb.Report:
    return pb.Report(task=task, nbytes=nbytes, crc32c=crc, offset=offset)


def test_what_came_is_there_for_whoever_resumes_the_same_report(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path / "p", 100)
    partials.keep(head(), memoryview(b"abcd"))
    other = PartialUploads(tmp_path / "p", 100)  # another transmitter
    assert other.stored_bytes(1, 7, 10) == 4
    assert other.start_upload(head(offset=4)) == (bytearray(b"abcd" + bytes(6)), 4)
    assert other.start_upload(head()) == (bytearray(10), 0)  # it begins anew
    assert other.stored_bytes(1, 8, 10) == other.stored_bytes(2, 7, 10) == other.stored_bytes(1, 7, 11) == 0
    assert other.start_upload(head(crc=8, offset=4)) == (bytearray(10), 0)
    other.forget(head())
    assert partials.stored_bytes(1, 7, 10) == 0


def test_less_than_what_is_there_is_not_kept(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 100)
    partials.keep(head(), memoryview(b"abcdef"))
    partials.keep(head(), memoryview(b"abc"))
    assert partials.stored_bytes(1, 7, 10) == 6


def test_the_oldest_goes_when_there_is_too_much(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 10)
    for task in range(4):
        partials.keep(head(task), memoryview(b"abcd"))
        os.utime(partials._path(task, 7, 10), ns=(task, task))
    assert [partials.stored_bytes(task, 7, 10) for task in range(4)] == [0, 0, 4, 4]
    partials.keep(head(9, nbytes=20), memoryview(bytes(11)))
    assert partials.stored_bytes(9, 7, 20) == 0


def test_a_file_that_claims_more_than_the_report_has_harms_nobody(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 100)
    partials._path(1, 7, 10).write_bytes(bytes(50))
    assert partials.stored_bytes(1, 7, 10) == 10
    buffer, have = partials.start_upload(head(offset=10))
    assert len(buffer) == have == 10
