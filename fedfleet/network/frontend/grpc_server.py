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
from fedfleet.network.frontend.frontend import Frontend
from fedfleet.network.frontend.handlers import Context, Handlers, RateLimited, Unauthenticated
from fedfleet.network.operations.counters import count_call
from fedfleet.network.protocol.frames import CHANNEL_OPTIONS, INLINE_BYTES, MAX_HEAD_BYTES, SERVICE
from fedfleet.network.security.sanitiser import printable

_PENDING = 200_000  # calls that may wait for their handlers: a burst must not lose any
_STREAMS = 4096  # calls at once on one connection


def _error_status(frontend: Frontend, wrong: Unauthenticated | RateLimited | Refused) -> tuple[grpc.StatusCode, str]:
    """What is foreign or strange becomes a status; it is counted."""
    match wrong:
        case Unauthenticated():
            frontend.counters["strangers"] += 1
            return grpc.StatusCode.UNAUTHENTICATED, str(wrong)
        case RateLimited():
            frontend.counters["slowed"] += 1
            return grpc.StatusCode.RESOURCE_EXHAUSTED, str(wrong)
        case Refused():
            frontend.counters["malformed"] += 1
            return grpc.StatusCode.INVALID_ARGUMENT, printable(f"this is no message of FedFleet: {wrong}")


def _guard(frontend: Frontend, name: str, method: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """The method as gRPC calls it; how each call ended is counted."""

    async def call(data: Any, context: Context) -> bytes:
        code = "UNKNOWN"
        try:
            answer = await method(data, context)
            code = "OK"
            return answer
        except (Unauthenticated, RateLimited, Refused) as error:
            status, why = _error_status(frontend, error)
            code = status.name
            await context.abort(status, why)
        except grpc.aio.AbortError:  # the method itself said why
            code = _code_name(context.code())
            raise
        except asyncio.CancelledError:  # the device hung up
            code = "CANCELLED"
            raise
        finally:
            count_call(frontend.counters, name, code)

    return call


def _guard_stream(frontend: Frontend, name: str, method: Callable[..., AsyncIterator[bytes]]) -> Any:
    async def call(data: Any, context: Context) -> AsyncIterator[bytes]:
        code = "UNKNOWN"
        try:
            async for chunk in method(data, context):
                yield chunk
            code = "OK"
        except (Unauthenticated, RateLimited, Refused) as error:
            status, why = _error_status(frontend, error)
            code = status.name
            await context.abort(status, why)
        except grpc.aio.AbortError:
            code = _code_name(context.code())
            raise
        except (asyncio.CancelledError, GeneratorExit):
            code = "CANCELLED"
            raise
        finally:
            count_call(frontend.counters, name, code)

    return call


def _code_name(code: Any) -> str:
    return code.name if isinstance(code, grpc.StatusCode) else "UNKNOWN"


def method_handlers(handlers: Handlers, frontend: Frontend) -> dict[str, Any]:
    """The methods by name, on raw bytes."""
    unary = {
        "Enrol": handlers.enrol, "Check": handlers.check, "Hand": handlers.hand, "Held": handlers.upload_offset,
        "Leave": handlers.leave, "Status": handlers.status,
    }  # fmt: skip
    rpc_handlers: dict[str, Any] = {
        n: grpc.unary_unary_rpc_method_handler(_guard(frontend, n, m)) for n, m in unary.items()
    }  # type: ignore[arg-type]
    rpc_handlers["Fetch"] = grpc.unary_stream_rpc_method_handler(_guard_stream(frontend, "Fetch", handlers.fetch))
    rpc_handlers["HandStream"] = grpc.stream_unary_rpc_method_handler(
        _guard(frontend, "HandStream", handlers.hand_stream)
    )  # type: ignore[arg-type]
    return rpc_handlers


@asynccontextmanager
async def serve_grpc(frontend: Frontend) -> AsyncIterator[None]:
    """Answer devices at the shared port; on the way out calls in flight get a moment to end."""
    options = (
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
    server = grpc.aio.server(options=options)
    handlers = method_handlers(Handlers(frontend), frontend)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    credentials = None
    if frontend.config.tls:
        from fedfleet.network.security.tls import ServerFiles, server_credentials

        credentials = server_credentials(
            ServerFiles(**{name: Path(path) for name, path in frontend.config.tls.items()})
        )
    address = frontend.config.address
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
