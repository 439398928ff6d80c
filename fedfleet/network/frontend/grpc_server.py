"""A gRPC server whose calls are served by the asyncio loop, straight from the completion queue of gRPC's core.

`grpc.aio` spends three tasks, five futures and a byte through a socket pair for each event of a call, which is more than everything
else that a server does. This one takes events from the queue as gRPC's own synchronous server does, and with the same internal
calls; where an installed gRPC lacks one of them, `missing_internals` says so, and `grpc.aio` serves instead. Handlers are those of
`grpc.aio`, without serialisers: bytes in, bytes out.

The queue is emptied by the loop, event after event, as long as there are any. Then a thread waits for the next, without the
interpreter's lock, and wakes the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import grpc
from grpc._cython import cygrpc

Option = tuple[str, Any]
_ARMED = 64  # calls that the core may hand over without being asked again
_EVENTS = 64  # taken before others of the loop have their turn
_INTERNALS = (
    "CompletionQueue", "CompletionType", "ReceiveCloseOnServerOperation", "ReceiveMessageOperation", "SendInitialMetadataOperation",
    "SendMessageOperation", "SendStatusFromServerOperation", "Server",
)  # fmt: skip
_SERVER_METHODS = (
    "add_http2_port",
    "cancel_all_calls",
    "destroy",
    "register_completion_queue",
    "request_call",
    "shutdown",
    "start",
)


def missing_internals() -> list[str]:
    """What this server needs of gRPC's core and the installed version does not have."""
    missing = [name for name in _INTERNALS if not hasattr(cygrpc, name)]
    return missing or [f"Server.{name}" for name in _SERVER_METHODS if not hasattr(cygrpc.Server, name)]


class CallAborted(Exception):
    """A handler ends its call with this status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class GrpcCall:
    """One call that is served; what handlers get as its context."""

    __slots__ = ("_callbacks", "_core", "_ended", "_hung_up", "_loop", "_metadata_sent", "_on_end", "_task")

    def __init__(self, core: Any, loop: asyncio.AbstractEventLoop, on_end: Callable[[GrpcCall], None]) -> None:
        self._core, self._loop, self._on_end = core, loop, on_end
        self._task: asyncio.Task[None] | None = None
        self._callbacks: list[Callable[[Any], None]] | None = None
        self._metadata_sent = self._hung_up = self._ended = False

    # ---- what handlers call ------------------------------------------------------------------------------------------

    def peer(self) -> str:
        """Where the call comes from, as gRPC writes addresses."""
        peer = self._core.peer()
        return peer.decode() if isinstance(peer, bytes) else peer

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call this with the call when it has ended, however it did."""
        if self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        """End the call with this status."""
        raise CallAborted(code, details)

    # ---- its life ----------------------------------------------------------------------------------------------------

    def start(self, handler: Any) -> None:
        """Serve it: receive what its handler needs first, then let the handler run in a task."""
        self._core.start_server_batch((cygrpc.ReceiveCloseOnServerOperation(0),), self._on_close)
        if handler is None:
            self._finish(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")
        elif handler.request_streaming:
            self._run(self._reply_once(handler.stream_unary, _Requests(self._core, self._loop)))
        else:
            receive = (cygrpc.ReceiveMessageOperation(0),)
            self._core.start_server_batch(receive, lambda event: self._on_request(handler, event))

    def _on_request(self, handler: Any, event: Any) -> None:
        data = event.batch_operations[0].message()
        if self._hung_up:
            self._end()
        elif data is None:
            self._finish(grpc.StatusCode.INVALID_ARGUMENT, "no message came, or one that is too long")
        elif handler.response_streaming:
            self._run(self._reply_in_parts(handler.unary_stream, data))
        else:
            self._run(self._reply_once(handler.unary_unary, data))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._loop.create_task(work)

    async def _reply_once(self, answer: Callable[[Any, GrpcCall], Awaitable[bytes]], request: Any) -> None:
        try:
            reply = await answer(request, self)
        except BaseException as error:
            self._fail(error)
        else:
            self._finish(grpc.StatusCode.OK, "", reply)

    async def _reply_in_parts(self, answer: Callable[[bytes, GrpcCall], AsyncIterator[bytes]], request: bytes) -> None:
        try:
            async for part in answer(request, self):
                sent: asyncio.Future[None] = self._loop.create_future()
                self._core.start_server_batch((*self._head(), cygrpc.SendMessageOperation(part, 0)), _setter(sent))
                await sent
        except BaseException as error:
            self._fail(error)
        else:
            self._finish(grpc.StatusCode.OK, "")

    def _fail(self, error: BaseException) -> None:
        """End a call whose handler raised: with the handler's status, or with one that shows nothing of the inside."""
        if isinstance(error, CallAborted):
            self._finish(error.code, error.details)
        elif isinstance(error, asyncio.CancelledError):
            self._finish(grpc.StatusCode.CANCELLED, "the call was cancelled")
        else:
            self._finish(grpc.StatusCode.UNKNOWN, f"the server failed ({type(error).__name__})")
            context = {"message": "a handler of a call failed", "exception": error}
            self._loop.call_exception_handler(context)
            if not isinstance(error, Exception):
                raise error

    def _head(self) -> tuple[Any, ...]:
        if self._metadata_sent:
            return ()
        self._metadata_sent = True
        return (cygrpc.SendInitialMetadataOperation(None, 0),)

    def _finish(self, code: grpc.StatusCode, details: str, reply: bytes | None = None) -> None:
        self._task = None
        if self._hung_up:
            self._end()
            return
        status = cygrpc.SendStatusFromServerOperation(None, code.value[0], details.encode(), 0)
        message = () if reply is None else (cygrpc.SendMessageOperation(reply, 0),)
        self._core.start_server_batch((*self._head(), *message, status), self._end)

    def _on_close(self, event: Any) -> None:
        if event.batch_operations[0].cancelled():
            self._hung_up = True
            if self._task is not None:
                self._task.add_done_callback(self._end)  # one that has not begun yet does not end its call
                self._task.cancel()

    def _end(self, *_: object) -> None:
        if self._ended:
            return
        self._ended, self._task = True, None
        callbacks, self._callbacks = self._callbacks, None
        self._on_end(self)
        for callback in callbacks or ():
            callback(self)


def _setter(future: asyncio.Future[None]) -> Callable[[Any], None]:
    """Ends the future when its batch is through; what a call that is over does not send is no error of the server."""

    def on_sent(event: Any) -> None:
        if not future.done():
            if event.success:
                future.set_result(None)
            else:
                future.cancel()

    return on_sent


class _Requests:
    """The messages of a stream as they come; the next is received while the one before is worked on."""

    def __init__(self, core: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._core, self._loop = core, loop
        self._next = self._receive()

    def _receive(self) -> asyncio.Future[bytes | None]:
        future: asyncio.Future[bytes | None] = self._loop.create_future()

        def on_message(event: Any) -> None:
            if not future.done():
                future.set_result(event.batch_operations[0].message())

        self._core.start_server_batch((cygrpc.ReceiveMessageOperation(0),), on_message)
        return future

    def __aiter__(self) -> _Requests:
        return self

    async def __anext__(self) -> bytes:
        data = await self._next
        if data is None:
            raise StopAsyncIteration
        self._next = self._receive()
        return data


class GrpcServer:
    """Serves the calls of one port. `methods` has handlers (`grpc.unary_unary_rpc_method_handler` and the like) by full names.

    A class, since it holds a port, a queue and a thread.
    """

    def __init__(self, methods: Mapping[str, Any], options: Sequence[Option] = ()) -> None:
        self._methods = {path.encode(): handler for path, handler in methods.items()}
        self._queue = cygrpc.CompletionQueue()
        self._server = cygrpc.Server(tuple(options), False)
        self._server.register_completion_queue(self._queue)
        self._poll = self._queue.poll
        self._calls: set[GrpcCall] = set()
        self._taken: deque[Any] = deque()  # the event that ended a wait
        self._unreadable: deque[Exception] = deque()
        self._idle = threading.Semaphore(0)  # released whenever the thread is to wait for the next event
        self._thread = threading.Thread(target=self._wait_for_events, name="fedfleet-grpc", daemon=True)
        self._stopping = self._closed = False

    def add_insecure_port(self, address: str) -> int:
        """Listen here without TLS; the port, or 0 if that is not possible."""
        return self._server.add_http2_port(address.encode())

    def add_secure_port(self, address: str, credentials: grpc.ServerCredentials) -> int:
        """Listen here with TLS; the port, or 0 if that is not possible."""
        return self._server.add_http2_port(address.encode(), credentials._credentials)  # pyright: ignore[reportAttributeAccessIssue]

    async def start(self) -> None:
        """Answer calls from now on."""
        self._loop = asyncio.get_running_loop()
        # As grpc.aio starts it: else it would wait until the clock of the wall, which may jump, shows what it shows now.
        self._server.start(backup_queue=False)
        for _ in range(_ARMED):
            self._server.request_call(self._queue, self._queue, self._on_call)
        self._idle.release()
        self._thread.start()

    async def stop(self, grace: float | None) -> None:
        """Take no more calls, let those that are open end for `grace` seconds, then cancel them. Once is enough."""
        if self._stopping:
            return
        self._stopping = True
        ended: asyncio.Future[None] = self._loop.create_future()
        self._server.shutdown(self._queue, lambda event: ended.set_result(None))
        if grace is not None:
            await asyncio.wait({ended}, timeout=grace)
        if not ended.done():
            self._server.cancel_all_calls()
            await ended
        self._closed = True
        self._server.destroy()
        self._queue.shutdown()
        self._idle.release()
        await asyncio.to_thread(self._thread.join)

    def _on_call(self, event: Any) -> None:
        if not event.success:  # the server is shutting down
            return
        if not self._stopping:
            self._server.request_call(self._queue, self._queue, self._on_call)
        call = GrpcCall(event.call, self._loop, self._calls.discard)
        self._calls.add(call)
        call.start(self._methods.get(event.call_details.method))

    # ---- the queue ---------------------------------------------------------------------------------------------------

    def _wait_for_events(self) -> None:
        """In a thread: wait for one event at a time, whenever the loop has taken all that there were."""
        while True:
            if not self._closed:
                self._idle.acquire()
            try:
                event = self._poll(None)
                if event.completion_type == cygrpc.CompletionType.queue_shutdown:
                    return
                self._taken.append(event)
            except Exception as error:
                self._unreadable.append(error)
            event = None  # a call that is over must not be held by whoever waits
            try:
                self._loop.call_soon_threadsafe(self._take_events)
            except RuntimeError:  # the loop is closed: nobody serves any more
                return

    def _take_events(self) -> None:
        """Take what the queue has; look again after others of the loop had their turn, or let the thread wait."""
        if self._closed:
            return
        taken = 0
        while self._taken:
            taken += 1
            self._take(self._taken.popleft())
        while taken < _EVENTS:
            try:
                event = self._poll(0.0)
            except Exception as error:
                self._unreadable.append(error)
                taken += 1
                continue
            if event.tag is None:
                break
            taken += 1
            self._take(event)
        event = None
        while self._unreadable:
            taken += 1
            self._on_unreadable(self._unreadable.popleft())
        if taken:
            self._loop.call_soon(self._take_events)
        else:
            self._idle.release()

    def _on_unreadable(self, error: Exception) -> None:
        """The binding could not read an event: of a new call, most likely, whose place another takes."""
        self._loop.call_exception_handler({"message": "an event of gRPC could not be read", "exception": error})
        if not self._stopping:
            self._server.request_call(self._queue, self._queue, self._on_call)

    def _take(self, event: Any) -> None:
        try:
            event.tag(event)
        except Exception as error:
            self._loop.call_exception_handler({"message": "an event of gRPC could not be handled", "exception": error})
