import numpy as np

from fedfleet.network.frontend.buffer_pool import BufferPool, ChunkCache
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
