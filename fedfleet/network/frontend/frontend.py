"""A transmitter: the process that holds the devices' calls. It receives, checks, folds what is granted, and decides nothing.

Run as a module it takes its end of a socket pair from standard input's number and lives as long as the processor does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.codec import Codec
from fedfleet.core.errors import FedFleetError, RunFailed
from fedfleet.network.frontend.downloads import Outgoing
from fedfleet.network.frontend.garbage_collector import seldom_collected
from fedfleet.network.frontend.group_commit import Committing
from fedfleet.network.frontend.long_poll import Waiters, wake
from fedfleet.network.frontend.partial_sums import PartialSums, sheet_from_json
from fedfleet.network.frontend.report_decoder import Taken, codec_from
from fedfleet.network.frontend.report_log import Entered, entry_bytes
from fedfleet.network.frontend.spool import Spool
from fedfleet.network.frontend.work_queue import Errands, blob_of, work_of
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import SMALL
from fedfleet.network.protocol.process_link import Link, linked
from fedfleet.network.rules.pace_steering import come_back
from fedfleet.network.rules.peer_limits import Door, Limits
from fedfleet.network.security.secrets import RunKey, nonce_of
from fedfleet.network.server.blobs import Blob, mapped
from fedfleet.network.server.options import Start, start_from

# Between two messages to the processor: each costs both a turn, and the journal a sync, whatever it holds. Longer where reports
# come so fast that a message holds several.
_GATHER_SECONDS, _BUSY_SECONDS = 0.004, 0.01
_GONE_SECONDS = 1.0
GIVEN_UP = 3  # the exit code of one that cannot go on, and that to start again would not help
_MOST_OUTGOING = 32 << 20  # bytes of models on their way beside answers; large models are fetched in chunks
_LATER_SECONDS = 2.0  # come back after so long, where the processor has not said when


@dataclass(slots=True)
class Pending:
    """A report that waits for the processor's word, and for whoever handed it in."""

    claim: inside.Claim
    taken: Taken
    payload: memoryview | bytes
    answer: asyncio.Future[inside.Grant]


@dataclass(slots=True)
class Tables:
    """What a transmitter knows: the work, the blobs, who may call, who waits."""

    errands: Errands
    generations: np.ndarray[Any, Any]
    blobs: dict[str, tuple[Blob, memoryview]] = field(default_factory=dict[str, tuple[Blob, memoryview]])
    frozen: Blob | None = None
    waiters: Waiters = field(default_factory=Waiters)
    claims: dict[int, Pending] = field(default_factory=dict[int, Pending])
    asked: dict[int, asyncio.Future[Any]] = field(default_factory=dict[int, "asyncio.Future[Any]"])
    come_back: float = _LATER_SECONDS
    round: int = 0
    over: str = ""
    draining: bool = False


class Transmitter:
    """The state of one transmitter and its talk with the processor; `handlers` turns calls into its methods."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.key = RunKey(bytes.fromhex(start.key))
        self.sheet = sheet_from_json(start.sheet)
        self.codecs: list[Codec | None] = [None, *map(codec_from, start.codecs)]
        self.codec_of = {client: which for client, which in start.codec_of}  # noqa: C416 - lists, as JSON has them
        folder = Path(start.folder) if start.durable else None
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as wrong:
                raise RunFailed(f"{folder} cannot be made ({wrong.strerror}); see to the disk, then resume") from wrong
        self.sums = PartialSums(self.sheet, folder) if start.stream else None
        self.spool = Spool(Path(start.folder), lasting=start.durable) if start.spool else None
        self.committing = Committing(
            self.sums, self.spool, durable=start.durable, seconds=start.commit_seconds, safe=self._are_safe
        )
        self.tables = Tables(Errands(start.clients), np.ones(start.clients, np.uint32))
        self.counters: Counter[str] = Counter()
        self.outgoing = Outgoing(min(_MOST_OUTGOING, start.in_flight_bytes))
        self.door = Door(Limits(all_bytes=start.in_flight_bytes, peer_bytes=start.in_flight_bytes // 2 + start.largest))
        self.link: Link[inside.ToTransmitter] | None = None
        self.seconds = 0.0  # that receiving took, in all
        self.over = asyncio.Event()
        self.failure = ""
        self._out = inside.ToProcessor()
        self._left: set[int] = set()  # who is gone, in the message that goes out next
        self._scheduled, self._sent_at, self._gather = False, 0.0, _GATHER_SECONDS
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- what goes to the processor: one message a turn of the loop -----------------------------------------------

    def say(self) -> inside.ToProcessor:
        """The message that goes out at the end of this turn; under load what a few milliseconds bring goes together."""
        if not self._scheduled:
            self._scheduled = True
            loop = asyncio.get_running_loop()
            wait = self._sent_at + self._gather - loop.time()
            if wait <= 0:
                loop.call_soon(self._send)
            else:
                loop.call_later(wait, self._send)
        return self._out

    def _send(self) -> None:
        self._scheduled = False
        self._sent_at = asyncio.get_running_loop().time()
        out, self._out = self._out, inside.ToProcessor()
        self._gather = _BUSY_SECONDS if len(out.claims) > 1 else _GATHER_SECONDS
        self._left.clear()
        if self.link is not None:
            self.link.send(out)

    def heard(self, client: int, back: float) -> None:
        """A device called; `back` is when it was told to come back, 0 while it is on the line."""
        out = self.say()
        if client in self._left:  # it hung up, and is here again
            self._left.discard(client)
            out.gone.remove(client)
        out.heard.append(client)
        out.heard_back.append(back)

    def gone(self, client: int) -> None:
        """A device hung up or took its leave."""
        if client not in self._left:
            self._left.add(client)
            self.say().gone.append(client)

    def strike(self, client: int, reason: str) -> None:
        """Something came that no honest device sends, or that was damaged on its way."""
        self.counters["strikes"] += 1
        self.door.strike(client, time.monotonic())
        self.say().strikes.append(inside.Strike(client=client, reason=reason))

    def _are_safe(self, tasks: list[int]) -> None:
        self.tables.errands.end(tasks)
        self.say().safe.extend(tasks)

    async def claim(self, claim: inside.Claim, taken: Taken, payload: memoryview | bytes) -> inside.Grant:
        """The processor's word on a report; if it was granted, the report is safe when this returns."""
        self._numbers += 1
        claim.number = self._numbers
        pending = Pending(claim, taken, payload, asyncio.get_running_loop().create_future())
        self.tables.claims[claim.number] = pending
        self.say().claims.append(claim)
        return await pending.answer

    async def ask(self, fill: Callable[[inside.ToProcessor, int], None]) -> Any:
        """The processor's answer to a question that only it can answer."""
        self._numbers += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.tables.asked[self._numbers] = answer
        fill(self.say(), self._numbers)
        return await answer

    # ---- what comes from the processor ----------------------------------------------------------------------------

    def on_message(self, message: inside.ToTransmitter) -> None:
        """Take the processor's word in, in the order in which one part may need another."""
        tables = self.tables
        for client, generation in zip(message.revoked, message.generations, strict=True):
            tables.generations[client] = generation
            wake(tables.waiters, client)  # whoever is on the line with the old secret hears of it
        for name in message.dropped_blobs:  # first: the same bytes may be wanted again
            tables.blobs.pop(name, None)
        for new in message.blobs:
            blob = Blob(new.name, new.path, new.nbytes, new.crc32c)
            with suppress(FileNotFoundError):  # it was dropped meanwhile: nobody will be sent it
                tables.blobs[new.name] = blob, mapped(blob)
        if message.frozen:
            tables.frozen = tables.blobs[message.frozen][0]
        for grant in message.grants:
            self._granted(grant)
        for wave in message.waves:
            for client in tables.errands.add(wave):
                wake(tables.waiters, client)
        if message.withdrawn:
            tables.errands.end(message.withdrawn)
        for answer in (*message.enrolled, *message.told):
            asked = tables.asked.pop(answer.number, None)
            if asked is not None and not asked.done():
                asked.set_result(answer)
        for bucket in message.close:
            self._later(self._close(bucket))
        for bucket in message.discard:
            self.committing.discard(bucket)
        if message.HasField("come_back"):
            tables.come_back, tables.round = message.come_back, message.round
        tables.draining = tables.draining or message.drain
        if message.over:
            tables.over = message.over
            for client in list(tables.waiters):
                wake(tables.waiters, client)

    def _granted(self, grant: inside.Grant) -> None:
        pending = self.tables.claims.pop(grant.number, None)
        if pending is None:
            return
        claim, answer = pending.claim, pending.answer

        def acknowledge() -> None:
            if not answer.done():
                answer.set_result(grant)

        if not grant.granted:
            acknowledge()
            return
        names, values = tuple(claim.names), tuple(claim.values)
        entry = Entered(
            claim.task, claim.client, grant.order, grant.time, grant.weight, grant.factor, grant.sum, claim.crc32c,
            claim.nbytes, names, values, claim.stats,
        )  # fmt: skip
        found = pending.taken
        self.committing.add(grant.bucket, entry, found.tree, pending.payload, acknowledge, found.whole)

    async def _close(self, bucket: int) -> None:
        path = Path(self.start.shared) / f"sums-{self.start.index}-{bucket}.safetensors"
        where, count = await self.committing.close(bucket, path)
        self.say().closed.append(inside.Closed(bucket=bucket, path=where, count=count))

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A commit that fails (a full disk) ends this process with its sentence: nothing unsafe is ever acknowledged."""
        if not task.cancelled() and (wrong := task.exception()) is not None:
            self.fail(wrong)

    def fail(self, wrong: BaseException) -> None:
        """This transmitter cannot go on."""
        self.failure = self.failure or str(wrong) or type(wrong).__name__
        self.over.set()

    # ---- answers to devices ---------------------------------------------------------------------------------------

    def inline_bytes(self, client: int) -> int:
        """The bytes of the model that would go along with an answer to this device now."""
        errand = None if self.tables.over or self.tables.draining else self.tables.errands.of(client)
        found = None if errand is None else self.tables.blobs.get(blob_of(errand))
        return found[0].nbytes if found is not None and found[0].nbytes <= SMALL else 0

    def next_work(self, client: int, held: float = 0.0) -> tuple[pb.Answer, memoryview | bytes]:
        """Work, when to come back, or that it is over; and the payload that goes with it."""
        tables = self.tables
        if tables.over:
            self.counters["told_over"] += 1
            return pb.Answer(over=pb.Over(reason=tables.over)), b""
        errand = None if tables.draining else tables.errands.of(client)
        found = None if errand is None else tables.blobs.get(blob_of(errand))
        if errand is None or found is None:  # a model that is gone is of work that will be withdrawn in a moment
            return pb.Answer(later=pb.Later(seconds=self.back_in(client) if errand is None else _GONE_SECONDS)), b""
        blob, data = found
        if not self.start.encode_once:  # what a server pays that encodes its model for every device
            from fedfleet.core.container import packed, unpacked

            data = memoryview(packed(unpacked(bytes(data))))
        inline = blob.nbytes <= SMALL
        work = work_of(errand, nonce_of(self.key, errand.task), blob, tables.frozen, held, inline=inline)
        self.counters["bytes_down"] += blob.nbytes if inline else 0
        return pb.Answer(work=work), data if inline else b""

    def back_in(self, client: int) -> float:
        """When a device without work should call again: at once, if it may wait on the line."""
        if self.tables.draining:
            return 30.0
        if len(self.tables.waiters) < self.start.hold:
            return 0.0
        likely, fleet = self.tables.come_back, self.start.clients
        return float(come_back(np.array([client]), self.tables.round, likely=likely, fleet=fleet)[0])

    def ready(self) -> inside.Ready:
        """What this transmitter found on its disk."""
        held = (
            self.sums or self.spool
        )  # beside sums a spool is for keeping: what it has and they lack was not made safe
        found = {b: {e.task: entry_bytes(e) for e in entries} for b, entries in held.found().items()} if held else {}
        return inside.Ready(
            pid=os.getpid(),
            found=[inside.Found(bucket=b, tasks=list(e), entries=list(e.values())) for b, e in found.items()],
            damages=[damage for source in (self.sums, self.spool) if source is not None for damage in source.damages],
        )


async def transmit(end: socket.socket) -> None:
    """Be a transmitter on this end of a socket pair until the processor lets go."""
    first: asyncio.Future[Transmitter] = asyncio.get_running_loop().create_future()
    gone = asyncio.Event()

    def heard(message: inside.ToTransmitter) -> None:
        try:
            if not first.done():
                first.set_result(Transmitter(start_from(message.start)))
            if first.exception() is None:
                first.result().on_message(message)
        except Exception as wrong:  # the loop would swallow it, and nobody would hear why
            if first.done():
                first.result().fail(wrong)
            else:
                first.set_exception(wrong)

    link = await linked(end, Link(inside.ToTransmitter, heard, gone.set))
    left = asyncio.create_task(gone.wait())
    try:
        await asyncio.wait({first, left}, return_when=asyncio.FIRST_COMPLETED)
        if first.done():
            transmitter = first.result()
            transmitter.link = link
            await _transmitting(transmitter, left)
    finally:
        left.cancel()
        link.close()


async def _transmitting(transmitter: Transmitter, left: asyncio.Task[bool]) -> None:
    """Answer devices until the processor is gone or nothing can be made safe any more: then `RunFailed` says why."""
    from fedfleet.network.frontend.grpc_server import listening

    committing = asyncio.create_task(transmitter.committing.run())
    committing.add_done_callback(transmitter._ended)  # pyright: ignore[reportPrivateUsage]
    telling = asyncio.create_task(_tell_counters(transmitter))
    ended = asyncio.create_task(transmitter.over.wait())
    try:
        async with listening(transmitter):
            transmitter.say().ready.CopyFrom(transmitter.ready())
            await asyncio.wait({left, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ended, committing, telling):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    if transmitter.failure:
        raise RunFailed(transmitter.failure)


async def _tell_counters(transmitter: Transmitter) -> None:
    before: Mapping[str, float] = {}
    while True:
        await asyncio.sleep(0.5)
        now: dict[str, float] = {
            **transmitter.counters,
            "open_calls": len(transmitter.tables.waiters),
            "in_flight_bytes": transmitter.door.bytes_in_flight,
            "snapshots": transmitter.committing.commits,
            "receive_seconds_sum": transmitter.seconds,
        }
        if now != before:
            before = now
            transmitter.say().counters.update(now)


def main() -> None:
    """The process: its end of the socket pair is the file that the first argument numbers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the processor, which lets go of us in order
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = socket.socket(fileno=int(sys.argv[1]))
    try:
        with seldom_collected():
            asyncio.run(transmit(end))
    except FedFleetError as wrong:
        sys.stderr.write(f"{wrong}\n")
        raise SystemExit(GIVEN_UP) from None


if __name__ == "__main__":
    main()
