"""Calls over HTTP with the interface of a channel of gRPC, at a server that is scripted."""

import asyncio
from collections import deque

import grpc
import pytest

from fedfleet.network.protocol.frames import CHUNK, method_path
from fedfleet.network.stress.http_channel import HttpChannel
from fedfleet.network.stress.raw_grpc import reserve_port


class Script:
    """Answers to requests, in their order; None hangs up in the middle of one."""

    def __init__(self, *answers):
        self.answers, self.requests, self.connections = deque(answers), [], 0

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
                self.requests.append((head.split(b" ")[1].decode(), await reader.readexactly(length)))
                answer = self.answers.popleft()
                if answer is None:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
                    return
                status, body, *lines = answer
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n" % (status, len(body), b"".join(lines)) + body)
        except asyncio.IncompleteReadError:  # the channel hung up
            return
        finally:
            writer.close()


def perform(script, act):
    async def run():
        server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
        channel = HttpChannel("127.0.0.1:{1}".format(*server.sockets[0].getsockname()))
        try:
            async with asyncio.timeout(60):
                return await act(channel)
        finally:
            await channel.close()
            server.close()

    return asyncio.run(run())


def test_the_three_kinds_of_calls_share_one_connection():
    large = bytes(range(256)) * (CHUNK // 128)
    script = Script((200, b"yes"), (200, b"ok"), (200, large), (200, b""))

    async def pieces():
        yield b"one "
        yield b"report"

    async def act(channel):
        await channel.channel_ready()
        assert await channel.unary_unary(method_path("Check"))(b"work?") == b"yes"
        assert await channel.stream_unary(method_path("HandStream"))(pieces()) == b"ok"
        chunks = [chunk async for chunk in channel.unary_stream(method_path("Fetch"))(b"m")]
        assert b"".join(chunks) == large and max(map(len, chunks)) <= CHUNK
        assert await channel.unary_unary(method_path("Leave"))(b"") == b""

    perform(script, act)
    assert script.connections == 1
    assert script.requests == [
        ("/v1/call/Check", b"work?"), ("/v1/call/HandStream", b"one report"), ("/v1/call/Fetch", b"m"), ("/v1/call/Leave", b""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (401, grpc.StatusCode.UNAUTHENTICATED),
        (404, grpc.StatusCode.NOT_FOUND),
        (500, grpc.StatusCode.UNKNOWN),
    ],
)
def test_a_refusal_has_the_status_that_grpc_would_give_and_the_line_goes_on(status, code):
    script = Script((status, b"why"), (200, b"yes"))

    async def act(channel):
        check = channel.unary_unary(method_path("Check"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await check(b"")
        assert refused.value.code() == code
        assert await check(b"") == b"yes"

    perform(script, act)
    assert script.connections == 1


def test_a_line_that_breaks_or_that_the_server_closes_is_not_used_again():
    script = Script(None, (200, b"last", b"Connection: close\r\n"), (200, b"yes"))

    async def act(channel):
        check = channel.unary_unary(method_path("Check"))
        with pytest.raises(grpc.aio.AioRpcError) as broken:
            await check(b"")
        assert broken.value.code() == grpc.StatusCode.UNAVAILABLE
        assert await check(b"") == b"last"
        assert await check(b"") == b"yes"

    perform(script, act)
    assert script.connections == 3


def test_calls_at_once_have_a_connection_each():
    script = Script((200, b"a"), (200, b"b"), (200, b"c"))

    async def act(channel):
        check = channel.unary_unary(method_path("Check"))
        assert sorted(await asyncio.gather(check(b""), check(b""))) == [b"a", b"b"]
        assert await check(b"") == b"c"

    perform(script, act)
    assert script.connections == 2


def test_a_server_that_is_not_there_is_unavailable():
    async def act():
        with reserve_port() as port:
            channel = HttpChannel("127.0.0.1:{1}".format(*port.getsockname()))
            with pytest.raises(grpc.aio.AioRpcError) as away:
                await channel.unary_unary(method_path("Check"))(b"")
        return away.value.code()

    assert asyncio.run(act()) == grpc.StatusCode.UNAVAILABLE
