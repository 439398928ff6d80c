"""A load generator: thousands of clients in one process that check in, take work, and hand in one and the same update.

Every client obeys the protocol (when to come back, busy, retry, over), shows its own secret, and is answered its own task; what it
leaves out is the training. Channels are few, calls are bounded: `in_flight` payloads at once, and `waiting` calls that a server may
hold. The module is also the program of its processes (see `children`): told a `Load`, it answers "ready", starts when told to,
and gives its `Tally` at the end.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import Any

import grpc
from google_crc32c import extend as extended

from fedfleet.core.errors import Refused
from fedfleet.network.frontend.garbage_collector import seldom_collected
from fedfleet.network.protocol.fleet_pb2 import Answer, Caller, CheckIn, FetchRequest, Receipt, Report, Work
from fedfleet.network.protocol.frames import CHUNK, SMALL, crc32c, framed, opened, path_of
from fedfleet.network.security.secrets import run_key, secret_of
from fedfleet.network.stress.channels import Reached, channel_to
from fedfleet.network.stress.child_processes import heard, say
from fedfleet.network.stress.latency_histogram import Latency
from fedfleet.network.stress.stress_plan import dummy_update

_AGAIN = 0.2  # seconds before a call that failed is tried again, at first
_LONGEST = 5.0
_FAREWELL = 1.0  # seconds for calls that are open when the run is over
_NOT_HELD = 0.5  # seconds, where a client should wait on the line and this process has no line left
_TRIES = 30  # of handing in one report
_HANDED = {Receipt.SAFE, Receipt.REFUSED, Receipt.UNWANTED}


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


class Line:
    """Clients by the moment at which they come back."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int]] = []
        self._waiter: asyncio.Future[None] | None = None

    def join(self, client: int, due: float) -> None:
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
            left = self._due[0][0] - perf_counter() if self._due else None
            if left is not None and left <= 0:
                return heapq.heappop(self._due)[1]
            self._waiter = loop.create_future()
            handle = None if left is None else loop.call_later(left, self._wake)
            try:  # not `wait_for`, which can lose a cancellation
                await self._waiter
            finally:
                if handle is not None:
                    handle.cancel()


class Generator:
    """All clients of one process; a class, since it holds channels."""

    def __init__(self, load: Load, secret: Callable[[int], bytes]) -> None:
        self.load, self.tally, self.over = load, Tally(), asyncio.Event()
        self._secret, self._line = secret, Line()
        self._calls = asyncio.Semaphore(load.in_flight + load.waiting)
        self._payloads = asyncio.Semaphore(load.in_flight)
        self._update = dummy_update(load.payload_bytes)
        self._crc = crc32c(self._update)
        self._chunks = [self._update[i : i + CHUNK] for i in range(0, len(self._update), CHUNK)]
        self._held = 0  # calls that the server may hold now
        self._known: set[str] = set()  # models whose bytes were checked
        self._turns: set[asyncio.Task[None]] = set()
        self._open()

    def _open(self) -> None:
        reach = Reached(self.load.address, self.load.ca)
        self._channels = [channel_to(reach) for _ in range(self.load.channels)]
        self._check = [channel.unary_unary(path_of("Check")) for channel in self._channels]
        self._hand = [channel.unary_unary(path_of("Hand")) for channel in self._channels]
        self._stream = [channel.stream_unary(path_of("HandStream")) for channel in self._channels]
        self._fetch = [channel.unary_stream(path_of("Fetch")) for channel in self._channels]

    async def ready(self) -> None:
        """Wait until all channels are connected."""
        await asyncio.gather(*(channel.channel_ready() for channel in self._channels))

    async def attend(self) -> None:
        """Be all clients until the run is over."""
        start = perf_counter()
        for i in range(self.load.clients):
            self._line.join(self.load.first + i * self.load.step, start)
        walking = asyncio.create_task(self._walk())
        await self.over.wait()
        walking.cancel()
        if self._turns:  # whoever is handing in hears of it
            await asyncio.wait([*self._turns], timeout=_FAREWELL)
        for turn in [*self._turns]:
            turn.cancel()
        await asyncio.gather(walking, *self._turns, return_exceptions=True)

    async def close(self) -> None:
        """Hang up."""
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _walk(self) -> None:
        while True:
            await self._calls.acquire()
            turn = asyncio.create_task(self._turn(await self._line.next()))
            self._turns.add(turn)
            turn.add_done_callback(self._ended)

    def _ended(self, turn: asyncio.Task[None]) -> None:
        self._calls.release()
        self._turns.discard(turn)
        if not turn.cancelled() and (wrong := turn.exception()) is not None:
            self.tally.failures[type(wrong).__name__] += 1
            self.over.set()  # a fault of the generator or of the protocol: a figure without it would lie
            raise wrong

    async def _turn(self, client: int) -> None:
        """One client's call, and all that follows from it at once: work, its report, the next work."""
        caller = Caller(client=client, secret=self._secret(client))
        try:
            answer, payload = await self._checked(caller)
        except grpc.aio.AioRpcError as wrong:
            self._failed(wrong)
            self._line.join(client, perf_counter() + _AGAIN)
            return
        while answer.HasField("work"):
            work = answer.work
            if self.load.trace:
                self.tally.taken.append((work.round, monotonic()))
            self._look(work, payload)
            payload = memoryview(b"")  # nobody trains on it
            if self.load.train_seconds:
                await asyncio.sleep(self.load.train_seconds)
            async with self._payloads:
                if not work.inline:
                    await self._fetched(caller, work)
                answer, payload = await self._handed(caller, work)
        if answer.HasField("over"):
            self.over.set()
        else:
            self._line.join(client, perf_counter() + self._back(answer.later.seconds))

    def _back(self, seconds: float) -> float:
        """When to come back: at once means on a call that may be held, of which there are only so many."""
        return seconds if seconds or self._held < self.load.waiting else _NOT_HELD

    async def _checked(self, caller: Caller) -> tuple[Answer, memoryview]:
        """Check in: the answer and what came with it; the time for which the server held the call does not count."""
        start = perf_counter()
        self.tally.checks += 1
        hold = self._held < self.load.waiting
        self._held += hold
        try:
            call = self._check[caller.client % len(self._check)]
            said = await call(CheckIn(caller=caller, hold=hold).SerializeToString())
        finally:
            self._held -= hold
        answer, payload = opened(said, Answer)
        if answer.HasField("work"):  # for how long any other answer was held is not told
            self.tally.check.add(perf_counter() - start - answer.work.held_seconds)
        return answer, payload

    def _look(self, work: Work, payload: memoryview) -> None:
        """Every model has its size; its bytes are summed once per model, since that is the devices' work, not the server's."""
        if not work.inline:
            return
        if len(payload) != work.model.nbytes:
            raise Refused(f"task {work.task} came with {len(payload)} bytes of a model of {work.model.nbytes}")
        if work.model.name not in self._known:
            if crc32c(bytes(payload)) != work.model.crc32c:
                raise Refused(f"the model of task {work.task} came damaged")
            self._known.add(work.model.name)

    async def _fetched(self, caller: Caller, work: Work) -> None:
        """The model of a task in chunks."""
        ask = FetchRequest(caller=caller, name=work.model.name).SerializeToString()
        for attempt in range(_TRIES):
            got, crc, check = 0, 0, work.model.name not in self._known
            try:
                async for chunk in self._fetch[caller.client % len(self._fetch)](ask):
                    got += len(chunk)
                    crc = extended(crc, chunk) if check else 0
            except grpc.aio.AioRpcError as wrong:
                self._failed(wrong)
                await asyncio.sleep(_pause(attempt))
                continue
            if got != work.model.nbytes or (check and crc != work.model.crc32c):
                raise Refused(f"the model of task {work.task} came damaged, or {got} bytes of {work.model.nbytes}")
            self._known.add(work.model.name)
            self.tally.fetched_bytes += got
            return

    async def _handed(self, caller: Caller, work: Work) -> tuple[Answer, memoryview]:
        """Hand in until it is safe or not wanted: what comes next, and the payload that came with it."""
        report = Report(
            caller=caller, task=work.task, nonce=work.nonce, nbytes=len(self._update), crc32c=self._crc, weight=1.0
        )
        start = perf_counter()
        for attempt in range(_TRIES):
            try:
                receipt, payload = opened(await self._sent(caller.client, report), Receipt)
            except grpc.aio.AioRpcError as wrong:
                self._failed(wrong)
                await asyncio.sleep(_pause(attempt))
                continue
            self.tally.statuses[Receipt.Status.Name(receipt.status)] += 1
            if receipt.status in _HANDED:
                self.tally.updates += receipt.status == Receipt.SAFE
                self.tally.hand.add(perf_counter() - start)
                return receipt.next, payload
            await asyncio.sleep(receipt.seconds or _AGAIN)
        self.tally.failures["given up"] += 1
        return Answer(), memoryview(b"")

    async def _sent(self, client: int, report: Report) -> bytes:
        if len(self._update) <= SMALL:
            return await self._hand[client % len(self._hand)](framed(report, self._update))
        return await self._stream[client % len(self._stream)](self._pieces(report))

    async def _pieces(self, report: Report) -> AsyncIterator[bytes]:
        yield framed(report)
        for chunk in self._chunks:
            yield chunk

    def _failed(self, wrong: grpc.aio.AioRpcError) -> None:
        if not self.over.is_set():  # a server that has ended hangs up
            self.tally.failures[wrong.code().name] += 1


def _pause(attempt: int) -> float:
    return min(_LONGEST, _AGAIN * 2**attempt)


async def generate(load: Load, secret: Callable[[int], bytes], started: Callable[[], object]) -> Tally:
    """Be all clients of this load from when `started()` returns until the run is over or nothing more is to be heard."""
    generator = Generator(load, secret)
    await generator.ready()
    say({"ready": True})
    await asyncio.to_thread(started)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    ended.add_done_callback(lambda _: generator.over.set())
    before = process_time()
    await generator.attend()
    generator.tally.cpu_seconds = process_time() - before
    await generator.close()
    return generator.tally


def shown(tally: Tally) -> dict[str, Any]:
    """A tally as JSON."""
    kept = {name: getattr(tally, name).shown() for name in ("check", "hand")}
    return {
        "updates": tally.updates,
        "checks": tally.checks,
        "fetched_bytes": tally.fetched_bytes,
        "cpu_seconds": tally.cpu_seconds,
        "taken": tally.taken,
        "statuses": dict(tally.statuses),
        "failures": dict(tally.failures),
        **kept,
    }


def told(load: Load) -> dict[str, Any]:
    """What a generator process is told first."""
    return asdict(load)


def main() -> None:
    """Read a load, wait for the start, be its clients, answer with the tally."""
    load = Load(**heard())
    key = run_key(Path(load.key))
    with seldom_collected():
        tally = asyncio.run(generate(load, lambda client: secret_of(key, client, 1), heard))
    say({"tally": shown(tally)})


if __name__ == "__main__":
    main()
