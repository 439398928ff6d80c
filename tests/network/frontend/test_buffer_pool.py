import numpy as np

from fedfleet.network.frontend.buffer_pool import Chunks, Rooms
from fedfleet.network.protocol.frames import CHUNK


def test_a_room_is_used_again_for_its_own_size_only():
    rooms = Rooms(100)
    first = rooms.take(40)
    rooms.give_back(first)
    assert rooms.take(30) is not first
    assert rooms.take(40) is first
    assert rooms.take(40) is not first
    assert len(first) == 40


def test_a_room_that_somebody_looks_into_is_left_alone():
    rooms = Rooms(100)
    for look in (memoryview, lambda room: np.frombuffer(room, np.uint8)[3:5]):
        room = rooms.take(8)
        view = look(room)
        rooms.give_back(room)
        assert rooms.nbytes == 0
        del view
        rooms.give_back(room)
        assert rooms.take(8) is room


def test_no_more_is_kept_than_allowed_and_the_oldest_goes():
    rooms = Rooms(100)
    old, new, large = bytearray(60), bytearray(50), bytearray(101)
    for room in (old, new, large):
        rooms.give_back(room)
    assert rooms.nbytes == 0  # the large one has put the others out, and is too large itself
    rooms.give_back(old)
    rooms.give_back(new)
    assert rooms.nbytes == 50
    assert rooms.take(60) is not old
    assert rooms.take(50) is new


def test_chunks_are_made_once_and_are_the_bytes_of_the_model():
    data = memoryview(np.random.default_rng(1).bytes(CHUNK + 500))
    chunks = Chunks(1 << 30)
    whole = b"".join(chunks.at("a", data, at) for at in range(0, len(data), CHUNK))
    assert whole == bytes(data)
    assert chunks.at("a", data, 0) is chunks.at("a", data, 0)
    assert chunks.at("a", data, 7) == bytes(data[7 : 7 + CHUNK])  # a resumed download may begin anywhere


def test_only_the_newest_models_are_kept_and_none_that_is_too_large():
    data, chunks = memoryview(bytes(10)), Chunks(10)
    first = chunks.at("a", data, 0)
    chunks.at("b", data, 0)
    assert chunks.at("a", data, 0) is first
    chunks.at("c", data, 0)
    assert chunks.at("a", data, 0) is not first
    large = memoryview(bytes(11))
    assert chunks.at("d", large, 0) is not chunks.at("d", large, 0)
