from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from fedfleet.network.frontend.payloads import BufferPool, ChunkCache, PartialUploads
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK
from fedfleet.network.security.sum_cipher import cipher_of


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
    old, new, large = (rooms.acquire(size) for size in (60, 50, 101))
    for room in (old, new, large):
        rooms.release(room)
    assert rooms.nbytes == 0  # the large one has put the others out, and is too large itself
    old, new = rooms.acquire(60), rooms.acquire(50)
    rooms.release(old)
    rooms.release(new)
    assert rooms.nbytes == 50
    assert rooms.acquire(50) is new
    rooms.release(new)
    assert rooms.acquire(60) is not old


def test_what_is_kept_and_what_is_in_use_fit_into_the_room_together():
    rooms = BufferPool(100)
    first, second, third = (rooms.acquire(40) for _ in range(3))
    rooms.release(first)
    assert rooms.nbytes == 0  # 80 are in use
    rooms.release(second)
    assert rooms.nbytes == 40
    rooms.release(third)
    assert rooms.nbytes == 80
    rooms.clear()
    assert rooms.nbytes == 0 and rooms.acquire(40) is not third


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


def head(task: int = 1, nbytes: int = 10, crc: int = 7, offset: int = 0) -> pb.Report:
    return pb.Report(task=task, nbytes=nbytes, crc32c=crc, offset=offset)


def test_what_came_is_there_for_whoever_resumes_the_same_report(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path / "p", 100, 100)
    partials.keep(head(), memoryview(b"abcd"))
    other = PartialUploads(tmp_path / "p", 100, 100)  # another transmitter
    assert other.stored_bytes(1, 7, 10) == 4
    assert other.start_upload(head(offset=4)) == (bytearray(b"abcd" + bytes(6)), 4)
    assert other.start_upload(head()) == (bytearray(10), 0)  # it begins anew
    assert other.stored_bytes(1, 8, 10) == other.stored_bytes(2, 7, 10) == other.stored_bytes(1, 7, 11) == 0
    assert other.start_upload(head(crc=8, offset=4)) == (bytearray(10), 0)
    other.forget(head())
    assert partials.stored_bytes(1, 7, 10) == 0


def test_less_than_what_is_there_is_not_kept(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 100, 100)
    partials.keep(head(), memoryview(b"abcdef"))
    partials.keep(head(), memoryview(b"abc"))
    assert partials.stored_bytes(1, 7, 10) == 6


def test_the_oldest_goes_when_there_is_too_much(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 10, 100)
    for task in range(4):
        partials.keep(head(task), memoryview(b"abcd"))
        os.utime(partials._path(task, 7, 10), ns=(task, task))
    assert [partials.stored_bytes(task, 7, 10) for task in range(4)] == [0, 0, 4, 4]
    partials.keep(head(9, nbytes=20), memoryview(bytes(11)))
    assert partials.stored_bytes(9, 7, 20) == 0


def test_a_file_that_claims_more_than_the_report_has_harms_nobody(tmp_path: Path) -> None:
    partials = PartialUploads(tmp_path, 100, 100)
    partials._path(1, 7, 10).write_bytes(bytes(50))
    assert partials.stored_bytes(1, 7, 10) == 10
    buffer, have = partials.start_upload(head(offset=10))
    assert len(buffer) == have == 10


def test_what_came_of_a_private_run_is_encrypted(tmp_path: Path) -> None:
    cipher = cipher_of(bytes(32))
    partials = PartialUploads(tmp_path, 100, 100, cipher)
    partials.keep(head(), memoryview(b"abcdef"))
    assert partials.stored_bytes(1, 7, 10) == 6
    assert PartialUploads(tmp_path, 100, 100, cipher).start_upload(head(offset=6)) == (bytearray(b"abcdef" + bytes(4)), 6)
    (path,) = tmp_path.iterdir()
    assert b"abc" not in path.read_bytes()
    path.write_bytes(b"short")
    assert partials.stored_bytes(1, 7, 10) == 0 and partials.start_upload(head(offset=1)) == (bytearray(10), 0)
