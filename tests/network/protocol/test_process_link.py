"""Links: messages come whole and in order, however the bytes are cut; the end is told once."""

from __future__ import annotations

import asyncio
import socket

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.process_link import Link, connect_link


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
