"""A load generator: thousands of clients in one process that check in, take work, and hand in one and the same update.

Every client obeys the protocol (when to come back, busy, retry, over), shows its own secret, and is answered its own task; what it
leaves out is the training. Channels are few, calls are bounded: `in_flight` payloads at once, and `waiting` calls that a server may
hold. The module is also the program of its processes (see `child_process`): told a `Load`, it answers "ready", starts when told to,
and gives its `Tally` at the end.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Any

import grpc
from google_crc32c import extend as extended

from fedfleet.core.errors import Refused
from fedfleet.executors.child_process import read_message, send_message
from fedfleet.network.operations.process_memory import infrequent_gc, keep_freed_memory
from fedfleet.network.protocol.fleet_pb2 import Answer, Caller, CheckIn, FetchRequest, Receipt, Report, Work
from fedfleet.network.protocol.frames import CHUNK, INLINE_BYTES, crc32c, decode_frame, encode_frame
from fedfleet.network.security.secrets import run_key, secret_of
from fedfleet.network.stress.channels import Line, Target, channel_to
from fedfleet.network.stress.event_loop import run
from fedfleet.network.stress.meters import Latency
from fedfleet.network.stress.stress_plan import dummy_update

_RETRY_SECONDS = 0.2  # seconds before a call that failed is tried again, at first
_MAX_RETRY_SECONDS = 5.0
_FAREWELL = 1.0  # seconds for calls that are open when the run is over
_NOT_HELD = 0.5  # seconds, where a client should wait on the line and this process has no line left
_TRIES = 30  # of handing in one report
_FINAL = {Receipt.SAFE, Receipt.REFUSED, Receipt.UNWANTED}


@dataclass(frozen=True, slots=True)
class Load:
    """What one generator does: clients `first`, `first + step`, .. to which server, with which bounds."""

    address: str
    key: str  # the file of the run's key: secrets follow from it
    payload_bytes: int
    first: int
    step: int
    clients: int
    in_flight: int = 64
    waiting: int = 256
    channels: int = 8
    trace: bool = False  # note when each task was in hand
    train_seconds: float = 0.0  # between a task in hand and its report
    ca: str = ""  # that the server's certificate is trusted by; "": no TLS


@dataclass(slots=True)
class Tally:
    """What a generator has seen."""

    updates: int = 0
    checks: int = 0
    fetched_bytes: int = 0
    cpu_seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter[str])
    failures: Counter[str] = field(default_factory=Counter[str])
    taken: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])  # round and moment, if traced
    check: Latency = field(default_factory=Latency)
    hand: Latency = field(default_factory=Latency)


class DueQueue:
    """Clients by the moment at which they come back."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int]] = []
        self._waiter: asyncio.Future[None] | None = None

    def add(self, client: int, due: float) -> None:
        """This client comes back then."""
        heapq.heappush(self._due, (due, client))
        if self._due[0][1] == client:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> int:
        """The next client, when it is due."""
        loop = asyncio.get_running_loop()
        while True:
            wait_seconds = self._due[0][0] - perf_counter() if self._due else None
            if wait_seconds is not None and wait_seconds <= 0:
                return heapq.heappop(self._due)[1]
            self._waiter = loop.create_future()
            handle = None if wait_seconds is None else loop.call_later(wait_seconds, self._wake)
            try:  # not `wait_for`, which can lose a cancellation
                await self._waiter
            finally:
                if handle is not None:
                    handle.cancel()


class Payload:
    """The update that all clients hand in: whole, its checksum, and in chunks."""

    def __init__(self, nbytes: int) -> None:
        self.data = dummy_update(nbytes)
        self.crc32c = crc32c(self.data)
        self.chunks = [self.data[i : i + CHUNK] for i in range(0, len(self.data), CHUNK)]


class Generator:
    """All clients of one process; a class, since it holds channels."""

    def __init__(self, load: Load, secret: Callable[[int], bytes]) -> None:
        self.load, self.tally, self.over = load, Tally(), asyncio.Event()
        self._secret, self._due = secret, DueQueue()
        self._calls = asyncio.Semaphore(load.in_flight + load.waiting)
        self._payloads = asyncio.Semaphore(load.in_flight)
        self._payload = Payload(load.payload_bytes)
        self._held_calls = 0  # calls that the server may hold now
        self._checked_models: set[str] = set()  # models whose bytes were checked
        self._turns: set[asyncio.Task[None]] = set()
        target = Target(load.address, load.ca)
        self._lines = [Line(channel_to(target)) for _ in range(load.channels)]

    def _line(self, client: int) -> Line:
        return self._lines[client % len(self._lines)]

    async def ready(self) -> None:
        """Wait until all channels are connected."""
        await asyncio.gather(*(line.channel.channel_ready() for line in self._lines))

    async def run(self) -> None:
        """Be all clients until the run is over."""
        start = perf_counter()
        for i in range(self.load.clients):
            self._due.add(self.load.first + i * self.load.step, start)
        runner = asyncio.create_task(self._run_turns())
        await self.over.wait()
        runner.cancel()
        if self._turns:  # whoever is handing in hears of it
            await asyncio.wait([*self._turns], timeout=_FAREWELL)
        for turn in [*self._turns]:
            turn.cancel()
        await asyncio.gather(runner, *self._turns, return_exceptions=True)

    async def close(self) -> None:
        """Hang up."""
        await asyncio.gather(*(line.channel.close() for line in self._lines))

    async def _run_turns(self) -> None:
        while True:
            await self._calls.acquire()
            turn = asyncio.create_task(self._turn(await self._due.next()))
            self._turns.add(turn)
            turn.add_done_callback(self._end_turn)

    def _end_turn(self, turn: asyncio.Task[None]) -> None:
        self._calls.release()
        self._turns.discard(turn)
        if not turn.cancelled() and (error := turn.exception()) is not None:
            self.tally.failures[type(error).__name__] += 1
            self.over.set()  # a fault of the generator or of the protocol: a figure without it would lie
            raise error

    async def _turn(self, client: int) -> None:
        """One client's call, and all that follows from it at once: work, its report, the next work."""
        caller = Caller(client=client, secret=self._secret(client))
        try:
            answer, payload = await self._check_in(caller)
        except grpc.aio.AioRpcError as error:
            self._count_failure(error)
            self._due.add(client, perf_counter() + _RETRY_SECONDS)
            return
        while answer.HasField("work"):
            work = answer.work
            if self.load.trace:
                self.tally.taken.append((work.round, monotonic()))
            self._check_model(work, payload)
            payload = memoryview(b"")  # nobody trains on it
            if self.load.train_seconds:
                await asyncio.sleep(self.load.train_seconds)
            async with self._payloads:
                if not work.inline:
                    await self._fetch_model(caller, work)
                answer, payload = await self._hand_in(caller, work)
        if answer.HasField("over"):
            self.over.set()
        else:
            self._due.add(client, perf_counter() + self._return_delay(answer.later.seconds))

    def _return_delay(self, seconds: float) -> float:
        """When to come back: at once means on a call that may be held, of which there are only so many."""
        return seconds if seconds or self._held_calls < self.load.waiting else _NOT_HELD

    async def _check_in(self, caller: Caller) -> tuple[Answer, memoryview]:
        """Check in: the answer and what came with it; the time for which the server held the call does not count."""
        start = perf_counter()
        self.tally.checks += 1
        hold = self._held_calls < self.load.waiting
        self._held_calls += hold
        try:
            call = self._line(caller.client).check
            reply = await call(CheckIn(caller=caller, hold=hold).SerializeToString())
        finally:
            self._held_calls -= hold
        answer, payload = decode_frame(reply, Answer)
        if answer.HasField("work"):  # for how long any other answer was held is not told
            self.tally.check.add(perf_counter() - start - answer.work.held_seconds)
        return answer, payload

    def _check_model(self, work: Work, payload: memoryview) -> None:
        """Every model has its size; its bytes are summed once per model, since that is the devices' work, not the server's."""
        if not work.inline:
            return
        if len(payload) != work.model.nbytes:
            raise Refused(f"task {work.task} arrived with {len(payload)} of {work.model.nbytes} bytes of its model")
        if work.model.name not in self._checked_models:
            if crc32c(bytes(payload)) != work.model.crc32c:
                raise Refused(f"the model of task {work.task} arrived damaged")
            self._checked_models.add(work.model.name)

    async def _fetch_model(self, caller: Caller, work: Work) -> None:
        """The model of a task in chunks."""
        ask = FetchRequest(caller=caller, name=work.model.name).SerializeToString()
        for attempt in range(_TRIES):
            nbytes, crc, check = 0, 0, work.model.name not in self._checked_models
            try:
                async for chunk in self._line(caller.client).fetch(ask):
                    nbytes += len(chunk)
                    crc = extended(crc, chunk) if check else 0
            except grpc.aio.AioRpcError as error:
                self._count_failure(error)
                await asyncio.sleep(_pause(attempt))
                continue
            if nbytes != work.model.nbytes or (check and crc != work.model.crc32c):
                raise Refused(f"the model of task {work.task} arrived damaged, or only {nbytes} of its {work.model.nbytes} bytes")
            self._checked_models.add(work.model.name)
            self.tally.fetched_bytes += nbytes
            return

    async def _hand_in(self, caller: Caller, work: Work) -> tuple[Answer, memoryview]:
        """Hand in until it is safe or not wanted: what comes next, and the payload that came with it."""
        report = Report(
            caller=caller, task=work.task, nonce=work.nonce, nbytes=len(self._payload.data), crc32c=self._payload.crc32c, weight=1.0
        )
        start = perf_counter()
        for attempt in range(_TRIES):
            try:
                receipt, payload = decode_frame(await self._send(caller.client, report), Receipt)
            except grpc.aio.AioRpcError as error:
                self._count_failure(error)
                await asyncio.sleep(_pause(attempt))
                continue
            self.tally.statuses[Receipt.Status.Name(receipt.status)] += 1
            if receipt.status in _FINAL:
                self.tally.updates += receipt.status == Receipt.SAFE
                self.tally.hand.add(perf_counter() - start)
                return receipt.next, payload
            await asyncio.sleep(receipt.seconds or _RETRY_SECONDS)
        self.tally.failures["given up"] += 1
        return Answer(), memoryview(b"")

    async def _send(self, client: int, report: Report) -> bytes:
        if len(self._payload.data) <= INLINE_BYTES:
            return await self._line(client).hand(encode_frame(report, self._payload.data))
        return await self._line(client).stream(self._pieces(report))

    async def _pieces(self, report: Report) -> AsyncIterator[bytes]:
        yield encode_frame(report)
        for chunk in self._payload.chunks:
            yield chunk

    def _count_failure(self, error: grpc.aio.AioRpcError) -> None:
        if not self.over.is_set():  # a server that has ended hangs up
            self.tally.failures[error.code().name] += 1


def _pause(attempt: int) -> float:
    return min(_MAX_RETRY_SECONDS, _RETRY_SECONDS * 2**attempt)


async def generate(load: Load, secret: Callable[[int], bytes], started: Callable[[], object]) -> Tally:
    """Be all clients of this load from when `started()` returns until the run is over or nothing more is to be heard."""
    generator = Generator(load, secret)
    await generator.ready()
    send_message({"ready": True})
    await asyncio.to_thread(started)
    stdin_end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    stdin_end.add_done_callback(lambda _: generator.over.set())
    before = process_time()
    await generator.run()
    generator.tally.cpu_seconds = process_time() - before
    await generator.close()
    return generator.tally


def tally_json(tally: Tally) -> dict[str, Any]:
    """A tally as JSON."""
    values = {f.name: getattr(tally, f.name) for f in fields(tally)}
    return {**values, "check": tally.check.to_json(), "hand": tally.hand.to_json()}


def main() -> None:
    """Read a load, wait for the start, be its clients, answer with the tally."""
    load = Load(**read_message())
    key = run_key(Path(load.key))
    keep_freed_memory()
    with infrequent_gc():
        tally = run(generate(load, lambda client: secret_of(key, client, 1), read_message))
    send_message({"tally": tally_json(tally)})


if __name__ == "__main__":
    main()
