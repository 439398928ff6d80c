"""The gRPC door of a frontend: it listens, and hands calls and their metadata to the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fedfleet.core.errors import BadInput
from fedfleet.network.frontend.grpc_server import GrpcServer, missing_internals
from fedfleet.network.frontend.refusals import CallRefused
from fedfleet.network.frontend.service import FleetService
from fedfleet.network.protocol.frames import CHANNEL_OPTIONS, INLINE_BYTES, MAX_HEAD_BYTES, SERVICE, method_path

Context = grpc.aio.ServicerContext[Any, Any]
_PENDING = 200_000  # calls that may wait for their handlers: a burst must not lose any
_STREAMS = 4096  # calls at once on one connection
_LOOK_SECONDS = 0.1  # between two looks whether the server still takes calls
_GRACE_SECONDS = 30.0  # for calls of a server that takes no more
_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", INLINE_BYTES + 2 * MAX_HEAD_BYTES),
    ("grpc.so_reuseport", 1),
    ("grpc.max_concurrent_streams", _STREAMS),
    ("grpc.server.max_pending_requests", _PENDING),
    ("grpc.server.max_pending_requests_hard_limit", _PENDING),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


def method_handlers(service: FleetService) -> dict[str, Any]:
    """The methods of the service by name, as gRPC calls them; a refusal becomes the status of its code."""

    def unary(method: str) -> Any:
        async def call(data: bytes, context: Context) -> bytes:
            try:
                return await service.answer(method, data, context)
            except CallRefused as error:
                await context.abort(grpc.StatusCode[error.code], str(error))

        return grpc.unary_unary_rpc_method_handler(call)  # type: ignore[arg-type]

    async def fetch(data: bytes, context: Context) -> AsyncIterator[bytes]:
        try:
            async for chunk in service.fetch(data, context):
                yield chunk
        except CallRefused as error:
            await context.abort(grpc.StatusCode[error.code], str(error))

    async def receive_stream(requests: AsyncIterator[bytes], context: Context) -> bytes:
        try:
            return await service.receive_stream(requests, context)
        except CallRefused as error:
            await context.abort(grpc.StatusCode[error.code], str(error))

    return {
        **{method: unary(method) for method in service.methods},
        "Fetch": grpc.unary_stream_rpc_method_handler(fetch),
        "HandStream": grpc.stream_unary_rpc_method_handler(receive_stream),  # type: ignore[arg-type]
    }


def make_server(methods: Mapping[str, Any], options: Sequence[tuple[str, Any]]) -> GrpcServer | grpc.aio.Server:
    """The server of the service: ours, or that of `grpc.aio` where the installed gRPC has not what ours needs."""
    if not missing_internals():
        return GrpcServer({method_path(name): handler for name, handler in methods.items()}, options)
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, dict(methods)),))
    return server


@asynccontextmanager
async def serve_grpc(service: FleetService) -> AsyncIterator[None]:
    """Answer devices at the shared port; on the way out calls in flight get a moment to end."""
    door = _Door(service)
    await door.open()
    watcher = asyncio.create_task(door.keep_open())
    watcher.add_done_callback(service.frontend.on_task_done)
    try:
        yield
    finally:
        watcher.cancel()
        await door.close()


class _Door:
    """The server of gRPC, and what keeps it listening.

    The name of a method that is not UTF-8 ends the loop in which grpc.aio takes calls: anyone could close the door with one call.
    Then another server listens in its place. Calls that the earlier one had taken end as they would have.
    """

    def __init__(self, service: FleetService) -> None:
        self._service = service
        self._server: Any = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen; refused if nobody can."""
        config, credentials = self._service.frontend.config, None
        server = make_server(method_handlers(self._service), _OPTIONS)
        if config.tls:
            from fedfleet.network.security.tls import ServerFiles, server_credentials

            credentials = server_credentials(ServerFiles(**{name: Path(path) for name, path in config.tls.items()}))
        address = config.address
        bound = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        if not bound:
            raise BadInput(
                f"cannot listen on {address}: the port is in use, or the host is not on this machine; "
                "give another address with --address"
            )
        await server.start()
        self._server = server

    async def keep_open(self) -> None:
        """Listen again whenever the server of grpc.aio ends by itself; ours does not."""
        if isinstance(self._server, GrpcServer):
            return
        asyncio.get_running_loop().set_exception_handler(_on_unretrieved)
        while True:
            try:
                await self._server.wait_for_termination(_LOOK_SECONDS)
            except Exception:
                self._service.frontend.counters["malformed"] += 1
                leaving = asyncio.create_task(self._server.stop(_GRACE_SECONDS))
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
                await self.open()

    async def close(self) -> None:
        """Stop listening; calls in flight get a moment."""
        for task in self._leaving:
            task.cancel()
        await self._server.stop(grace=1.0)


def _on_unretrieved(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what went wrong in a task that nobody waits for; gRPC's own end by such a name is no news."""
    if not isinstance(context.get("exception"), UnicodeDecodeError):
        loop.default_exception_handler(context)
