"""Links: messages come whole and in order, however the bytes are cut; the end is told once."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import RunFailed
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol import process_link as blobs
from fedfleet.network.protocol.frames import crc32c
from fedfleet.network.protocol.process_link import (
    Link,
    connect_link,
    drop_blob,
    make_shared_folder,
    map_blob,
    remove_folder,
    write_blob,
)


def test_messages_cross_in_order_and_the_end_is_told_once() -> None:
    async def played() -> None:
        ours, theirs = socket.socketpair()
        came: list[inside.ToProcessor] = []
        lost: list[str] = []
        here = await connect_link(ours, Link(inside.ToProcessor, came.append, lambda: lost.append("here")))
        there = await connect_link(theirs, Link(inside.ToTransmitter, lambda m: None, lambda: lost.append("there")))
        sent = [inside.ToProcessor(safe=range(n * 50_000)) for n in range(4)]
        for message in sent:
            there.send(message)
        while len(came) < 4:
            await asyncio.sleep(0.001)
        assert came == sent
        there.close()
        while len(lost) < 2:
            await asyncio.sleep(0.001)
        here.send(inside.ToTransmitter(over="x"))  # to nobody
        here.close()
        assert sorted(lost) == ["here", "there"]

    asyncio.run(played())


@given(st.lists(st.lists(st.integers(0, 2**60), max_size=5), max_size=6), st.integers(1, 40))
def test_however_the_bytes_are_cut(messages: list[list[int]], size: int) -> None:
    class Kept(asyncio.WriteTransport):
        def __init__(self) -> None:
            super().__init__()
            self.data = b""

        def write(self, data: bytes) -> None:
            self.data += data

        def is_closing(self) -> bool:
            return False

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            pass

    kept, came = Kept(), list[inside.ToProcessor]()
    out: Link[inside.ToProcessor] = Link(inside.ToProcessor, came.append, lambda: None)
    out.connection_made(kept)
    for tasks in messages:
        out.send(inside.ToProcessor(safe=tasks))
    for a in range(0, len(kept.data), size):
        out.data_received(kept.data[a : a + size])
    assert [list(message.safe) for message in came] == messages


CHILD = """
import sys, time
from pathlib import Path
from fedfleet.network.protocol import process_link
process_link._SHARED = Path(sys.argv[1])
print(process_link.make_shared_folder(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(blobs, "_SHARED", tmp_path)
    return tmp_path


def test_bytes_are_written_once_and_read_without_a_copy(tmp_path):
    blob = write_blob(tmp_path, b"a model")
    before = Path(blob.path).stat().st_ino
    assert write_blob(tmp_path, b"a model") == blob
    assert Path(blob.path).stat().st_ino == before
    assert write_blob(tmp_path, b"another").name != blob.name
    assert bytes(map_blob(blob)) == b"a model"
    assert (blob.nbytes, blob.crc32c) == (7, crc32c(b"a model"))


def test_a_dropped_blob_can_still_be_sent_by_who_has_it(tmp_path):
    blob = write_blob(tmp_path, b"a model")
    view = map_blob(blob)
    drop_blob(blob)
    drop_blob(blob)
    assert bytes(view) == b"a model"
    assert not Path(blob.path).exists()


def test_nothing_is_a_blob_too(tmp_path):
    assert bytes(map_blob(write_blob(tmp_path, b""))) == b""


def test_a_model_that_does_not_fit_says_so(tmp_path):
    with pytest.raises(RunFailed, match="does not fit into shared memory"):
        write_blob(tmp_path / "missing", b"a model")


def test_the_memory_of_a_killed_server_is_given_back_and_that_of_a_living_one_is_not(memory):
    folders, children = [], []
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(memory)], stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout is not None
        folders.append(Path(child.stdout.readline().strip()))
    try:
        write_blob(folders[0], b"left behind")
        children[0].send_signal(signal.SIGKILL)
        children[0].wait()
        mine = make_shared_folder()
        assert not folders[0].exists()
        assert folders[1].exists()
        assert mine.stat().st_mode & 0o777 == 0o700
        another = make_shared_folder()  # of the same process: neither sweeps the other away
        assert mine.exists()
        remove_folder(mine)
        remove_folder(another)
        assert not mine.exists()
    finally:
        for child in children:
            child.kill()
            child.wait()
            child.stdout.close()
