"""Calls served from gRPC's completion queue: whatever is promised here, grpc.aio, which may take its place, keeps too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc._cython import cygrpc

from fedfleet.network.frontend import grpc_door, grpc_server
from fedfleet.network.frontend.grpc_server import GrpcServer, missing_internals
from fedfleet.network.protocol.frames import method_path

OURS, AIO = "ours", "grpc.aio"
OPTIONS = (("grpc.max_receive_message_length", 1 << 20), ("grpc.so_reuseport", 0))


class Handlers:
    """What is served, and what became of calls that were held."""

    def __init__(self) -> None:
        self.held, self.cancelled, self.ended = 0, 0, 0
        self.release = asyncio.Event()

    async def echo(self, data: bytes, call: Any) -> bytes:
        return data

    async def who(self, data: bytes, call: Any) -> bytes:
        return call.peer().encode()

    async def abort(self, data: bytes, call: Any) -> bytes:
        await call.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now, \N{SNOWMAN}")
        return b"never"

    async def fail(self, data: bytes, call: Any) -> bytes:
        raise ZeroDivisionError(1)

    async def hold(self, data: bytes, call: Any) -> bytes:
        def end(_: object) -> None:
            self.ended += 1

        call.add_done_callback(end)
        self.held += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return data

    async def join(self, requests: AsyncIterator[bytes], call: Any) -> bytes:
        first = await asyncio.wait_for(anext(requests, b""), 5.0)
        return first + b"".join([part async for part in requests])

    async def count(self, data: bytes, call: Any) -> AsyncIterator[bytes]:
        for i in range(int(data)):
            yield b"%d" % i
        if data == b"3":
            await call.abort(grpc.StatusCode.NOT_FOUND, "no fourth")

    def methods(self) -> dict[str, Any]:
        one = {name: grpc.unary_unary_rpc_method_handler(getattr(self, name)) for name in ("echo", "who", "abort", "fail", "hold")}
        return {
            **one,
            "join": grpc.stream_unary_rpc_method_handler(self.join),  # type: ignore[arg-type]
            "count": grpc.unary_stream_rpc_method_handler(self.count),
        }


Act = Callable[[grpc.aio.Channel, Handlers, Any], Awaitable[None]]


@pytest.fixture(params=[OURS, AIO])
def serve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
    """Lets a test call a server of either kind, and stops it."""
    if request.param == AIO:
        monkeypatch.setattr(grpc_door, "missing_internals", lambda: ["something"])

    async def run(act: Act) -> None:
        handlers = Handlers()
        server = grpc_door.make_server(handlers.methods(), OPTIONS)
        assert isinstance(server, GrpcServer) is (request.param == OURS)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await asyncio.wait_for(act(channel, handlers, server), 30)
        finally:
            await server.stop(0.0)
        if isinstance(server, GrpcServer):
            assert not server._calls and not server._thread.is_alive()  # pyright: ignore[reportPrivateUsage]

    return lambda act: asyncio.run(run(act))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


def ask(channel: grpc.aio.Channel, method: str, data: bytes = b"", **options: Any) -> Any:
    return channel.unary_unary(method_path(method))(data, **options)


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


def test_the_installed_grpc_has_what_the_server_needs() -> None:
    assert missing_internals() == []


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_SERVER_METHODS", ("start", "begin"))
    assert missing_internals() == ["Server.begin"]
    monkeypatch.setattr(grpc_server, "_INTERNALS", ("Server", "Serverless"))
    assert missing_internals() == ["Serverless"]


def test_single_messages_are_answered_however_large_and_many(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        sizes = [0, 1, 100_000, (1 << 20) - 100]
        assert [len(await ask(channel, "echo", b"x" * size)) for size in sizes] == sizes
        assert (await ask(channel, "who")).startswith(b"ipv4:127.0.0.1:")
        answers = await asyncio.gather(*(ask(channel, "echo", b"%d" % i) for i in range(500)))
        assert answers == [b"%d" % i for i in range(500)]

    serve(act)


def test_streams_keep_their_messages_and_order(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        async def parts(count: int) -> AsyncIterator[bytes]:
            for i in range(count):
                yield b"%04d" % i

        join = channel.stream_unary(method_path("join"))
        assert await join(parts(0)) == b""
        assert await join(parts(300)) == b"".join([b"%04d" % i for i in range(300)])
        count = channel.unary_stream(method_path("count"))
        assert [part async for part in count(b"0")] == []
        assert [part async for part in count(b"100")] == [b"%d" % i for i in range(100)]

    serve(act)


def test_a_handler_ends_its_call_with_a_status(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        assert await refusal(ask(channel, "abort")) == (grpc.StatusCode.FAILED_PRECONDITION, "not now, \N{SNOWMAN}")
        stream = channel.unary_stream(method_path("count"))(b"3")
        assert [await stream.read() for _ in range(3)] == [b"0", b"1", b"2"]
        with pytest.raises(grpc.aio.AioRpcError, match="no fourth"):
            await stream.read()

    serve(act)


def test_what_is_wrong_ends_one_call_and_not_the_server(serve: Callable[[Act], None], caplog: pytest.LogCaptureFixture) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        assert (await refusal(ask(channel, "nothing")))[0] is grpc.StatusCode.UNIMPLEMENTED
        assert (await refusal(ask(channel, "fail")))[0] is grpc.StatusCode.UNKNOWN
        assert (await refusal(ask(channel, "echo", b"x" * (2 << 20))))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await ask(channel, "echo", b"still here") == b"still here"

    serve(act)
    assert "ZeroDivisionError" in caplog.text


def test_a_method_whose_name_is_no_text_is_unknown() -> None:
    async def run() -> None:
        handlers = Handlers()
        server = GrpcServer({method_path("echo"): handlers.methods()["echo"]}, OPTIONS)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                for _ in range(100):  # more than calls may be handed over without being asked for again
                    unknown = channel.unary_unary(b"/\xff\xfe/\x80")  # type: ignore[arg-type]
                    assert (await refusal(unknown(b"", metadata=(("x-odd-bin", b"\xff"),))))[0] is grpc.StatusCode.UNIMPLEMENTED
                assert await ask(channel, "echo", b"still here") == b"still here"
        finally:
            await server.stop(0.0)

    asyncio.run(run())


def test_an_event_that_cannot_be_read_costs_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Queue:
        """Fails now and then, as if a call were not readable."""

        def __init__(self, queue: Any) -> None:
            self.queue, self.polls, self.failed = queue, 0, 0

        def poll(self, deadline: float | None) -> Any:
            event, self.polls = self.queue.poll(deadline), self.polls + 1
            if isinstance(event, cygrpc.RequestCallEvent) and event.success and self.polls % 2:
                self.failed += 1
                raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")
            return event

    async def run() -> int:
        server = GrpcServer({method_path("echo"): Handlers().methods()["echo"]}, OPTIONS)
        queue = server._queue  # pyright: ignore[reportPrivateUsage]
        reader = Queue(queue)
        monkeypatch.setattr(server, "_poll", reader.poll)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                answers = await asyncio.gather(*(ask(channel, "echo", b"1", timeout=5) for _ in range(200)), return_exceptions=True)
        finally:
            await server.stop(0.0)
        assert sum(answer == b"1" for answer in answers) == 200 - reader.failed
        return reader.failed

    assert asyncio.run(run()) > 64


def test_a_stream_without_any_message_is_no_single_message(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        async def nothing() -> AsyncIterator[bytes]:
            return
            yield b""

        code, _ = await refusal(channel.stream_unary(method_path("echo"))(nothing(), timeout=1))
        assert code is not grpc.StatusCode.OK

    serve(act)


def test_who_hangs_up_or_is_too_slow_ends_its_handler(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        calls = [ask(channel, "hold") for _ in range(20)]
        slow = asyncio.create_task(refusal(ask(channel, "hold", timeout=0.2)))
        await until(lambda: handlers.held == 21)
        for call in calls:
            call.cancel()
        assert (await slow)[0] is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: handlers.ended == 21)
        assert handlers.cancelled == 21

    serve(act)


def test_who_hangs_up_at_once_leaves_nothing_behind(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        for pause in (0.0, 0.001, 0.003) * 10:
            call = ask(channel, "hold", b"x" * 1000)
            await asyncio.sleep(pause)
            call.cancel()
        assert await ask(channel, "echo", b"1") == b"1"
        await until(lambda: handlers.ended == handlers.held)
        if isinstance(server, GrpcServer):
            await until(lambda: not server._calls)  # pyright: ignore[reportPrivateUsage]

    serve(act)


def test_calls_that_are_held_are_answered_together(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        calls = [asyncio.ensure_future(ask(channel, "hold", b"%d" % i)) for i in range(90)]
        await until(lambda: handlers.held == 90)
        assert await ask(channel, "echo", b"others go on") == b"others go on"
        assert handlers.ended == 0
        handlers.release.set()
        assert await asyncio.gather(*calls) == [b"%d" % i for i in range(90)]
        await until(lambda: handlers.ended == 90)

    serve(act)


def test_a_server_that_stops_lets_calls_end_and_cancels_the_rest(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        call = asyncio.ensure_future(ask(channel, "hold", b"done"))
        await until(lambda: handlers.held == 1)
        stopping = asyncio.create_task(server.stop(5.0))
        await asyncio.sleep(0.02)
        handlers.release.set()
        assert await call == b"done"
        await stopping

    serve(act)


def test_a_server_that_stops_waits_no_longer_than_it_is_told(serve: Callable[[Act], None]) -> None:
    async def act(channel: grpc.aio.Channel, handlers: Handlers, server: Any) -> None:
        call = asyncio.ensure_future(refusal(ask(channel, "hold")))
        await until(lambda: handlers.held == 1)
        await server.stop(0.05)
        assert (await call)[0] in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)
        assert handlers.cancelled == 1

    serve(act)
