"""Listening: the gRPC server of a transmitter, whose calls are guarded, counted, and handed to the methods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fedfleet.core.errors import BadInput, Refused
from fedfleet.network.frontend.frontend import Transmitter
from fedfleet.network.frontend.handlers import Context, Handlers, Slow, Stranger
from fedfleet.network.operations.counters import count_call
from fedfleet.network.protocol.frames import CHANNEL_OPTIONS, MOST_HEAD, SERVICE, SMALL
from fedfleet.network.security.sanitiser import shown

_PENDING = 200_000  # calls that may wait for their handlers: a burst must not lose any
_STREAMS = 4096  # calls at once on one connection


def _explained(of: Transmitter, wrong: Stranger | Slow | Refused) -> tuple[grpc.StatusCode, str]:
    """What is foreign or strange becomes a status; it is counted."""
    match wrong:
        case Stranger():
            of.counters["strangers"] += 1
            return grpc.StatusCode.UNAUTHENTICATED, str(wrong)
        case Slow():
            of.counters["slowed"] += 1
            return grpc.StatusCode.RESOURCE_EXHAUSTED, str(wrong)
        case Refused():
            of.counters["malformed"] += 1
            return grpc.StatusCode.INVALID_ARGUMENT, shown(f"this is no message of FedFleet: {wrong}")


def _guarded(of: Transmitter, name: str, method: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """The method as gRPC calls it; how each call ended is counted."""

    async def call(data: Any, context: Context) -> bytes:
        code = "UNKNOWN"
        try:
            answer = await method(data, context)
            code = "OK"
            return answer
        except (Stranger, Slow, Refused) as wrong:
            status, why = _explained(of, wrong)
            code = status.name
            await context.abort(status, why)
        except grpc.aio.AbortError:  # the method itself said why
            code = _name_of(context.code())
            raise
        except asyncio.CancelledError:  # the device hung up
            code = "CANCELLED"
            raise
        finally:
            count_call(of.counters, name, code)

    return call


def _guarded_stream(of: Transmitter, name: str, method: Callable[..., AsyncIterator[bytes]]) -> Any:
    async def call(data: Any, context: Context) -> AsyncIterator[bytes]:
        code = "UNKNOWN"
        try:
            async for chunk in method(data, context):
                yield chunk
            code = "OK"
        except (Stranger, Slow, Refused) as wrong:
            status, why = _explained(of, wrong)
            code = status.name
            await context.abort(status, why)
        except grpc.aio.AbortError:
            code = _name_of(context.code())
            raise
        except (asyncio.CancelledError, GeneratorExit):
            code = "CANCELLED"
            raise
        finally:
            count_call(of.counters, name, code)

    return call


def _name_of(code: Any) -> str:
    return code.name if isinstance(code, grpc.StatusCode) else "UNKNOWN"


def method_handlers(handlers: Handlers, of: Transmitter) -> dict[str, Any]:
    """The methods by name, on raw bytes."""
    unary = {
        "Enrol": handlers.enrol, "Check": handlers.check, "Hand": handlers.hand, "Held": handlers.held,
        "Leave": handlers.leave, "Status": handlers.status,
    }  # fmt: skip
    found: dict[str, Any] = {n: grpc.unary_unary_rpc_method_handler(_guarded(of, n, m)) for n, m in unary.items()}  # type: ignore[arg-type]
    found["Fetch"] = grpc.unary_stream_rpc_method_handler(_guarded_stream(of, "Fetch", handlers.fetch))
    found["HandStream"] = grpc.stream_unary_rpc_method_handler(_guarded(of, "HandStream", handlers.hand_stream))  # type: ignore[arg-type]
    return found


@asynccontextmanager
async def listening(of: Transmitter) -> AsyncIterator[None]:
    """Answer devices at the shared port; on the way out calls in flight get a moment to end."""
    options = (
        *CHANNEL_OPTIONS,
        ("grpc.max_receive_message_length", SMALL + 2 * MOST_HEAD),
        ("grpc.so_reuseport", 1),
        ("grpc.max_concurrent_streams", _STREAMS),
        ("grpc.server.max_pending_requests", _PENDING),
        ("grpc.server.max_pending_requests_hard_limit", _PENDING),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    )
    server = grpc.aio.server(options=options)
    handlers = method_handlers(Handlers(of), of)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    credentials = None
    if of.start.tls:
        from fedfleet.network.security.tls import ServerFiles, server_credentials

        credentials = server_credentials(ServerFiles(**{name: Path(path) for name, path in of.start.tls.items()}))
    address = of.start.address
    bound = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    if not bound:
        raise BadInput(
            f"cannot listen on {address}: the port is taken or the host is not here; name another with --address"
        )
    await server.start()
    try:
        yield
    finally:
        await server.stop(grace=1.0)
