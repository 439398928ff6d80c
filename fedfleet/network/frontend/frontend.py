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
from fedfleet.network.frontend.downloads import DownloadGate
from fedfleet.network.frontend.garbage_collector import infrequent_gc
from fedfleet.network.frontend.group_commit import GroupCommit
from fedfleet.network.frontend.long_poll import Waiters, wake
from fedfleet.network.frontend.partial_sums import PartialSums, layout_from_json
from fedfleet.network.frontend.report_decoder import DecodedReport, codec_from
from fedfleet.network.frontend.report_log import LogEntry, entry_to_bytes
from fedfleet.network.frontend.spool import Spool
from fedfleet.network.frontend.work_queue import WorkQueue, blob_name, work_message
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import INLINE_BYTES
from fedfleet.network.protocol.process_link import Link, connect_link
from fedfleet.network.rules.pace_steering import return_delays
from fedfleet.network.rules.peer_limits import Limits, PeerLimiter
from fedfleet.network.security.secrets import RunKey, nonce_of
from fedfleet.network.server.blobs import Blob, map_blob
from fedfleet.network.server.options import FrontendConfig, config_from_bytes

# Between two messages to the processor: each costs both a turn, and the journal a sync, whatever it holds. Longer where reports
# come so fast that a message holds several.
_GATHER_SECONDS, _BUSY_SECONDS = 0.004, 0.01
_NO_MODEL_SECONDS = 1.0
FAILURE_EXIT_CODE = 3  # the exit code of one that cannot go on, and that to start again would not help
_MAX_DOWNLOAD_BYTES = 32 << 20  # bytes of models on their way beside answers; large models are fetched in chunks
_LATER_SECONDS = 2.0  # come back after so long, where the processor has not said when


@dataclass(slots=True)
class PendingClaim:
    """A report that waits for the processor's word, and for whoever handed it in."""

    claim: inside.Claim
    report: DecodedReport
    payload: memoryview | bytes
    answer: asyncio.Future[inside.Grant]


@dataclass(slots=True)
class FrontendState:
    """What a transmitter knows: the work, the blobs, who may call, who waits."""

    work_queue: WorkQueue
    generations: np.ndarray[Any, Any]
    blobs: dict[str, tuple[Blob, memoryview]] = field(default_factory=dict[str, tuple[Blob, memoryview]])
    frozen: Blob | None = None
    waiters: Waiters = field(default_factory=Waiters)
    claims: dict[int, PendingClaim] = field(default_factory=dict[int, PendingClaim])
    questions: dict[int, asyncio.Future[Any]] = field(default_factory=dict[int, "asyncio.Future[Any]"])
    return_seconds: float = _LATER_SECONDS
    round: int = 0
    end_reason: str = ""
    draining: bool = False


class Frontend:
    """The state of one transmitter and its talk with the processor; `handlers` turns calls into its methods."""

    def __init__(self, config: FrontendConfig) -> None:
        self.config = config
        self.key = RunKey(bytes.fromhex(config.key))
        self.layout = layout_from_json(config.sheet)
        self.codecs: list[Codec | None] = [None, *map(codec_from, config.codecs)]
        self.codec_of = {client: codec_index for client, codec_index in config.codec_of}  # noqa: C416 - lists, as JSON has them
        folder = Path(config.folder) if config.durable else None
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise RunFailed(f"{folder} cannot be made ({error.strerror}); see to the disk, then resume") from error
        self.sums = PartialSums(self.layout, folder) if config.stream else None
        self.spool = Spool(Path(config.folder), lasting=config.durable) if config.spool else None
        self.group_commit = GroupCommit(
            self.sums, self.spool, durable=config.durable, seconds=config.commit_seconds, on_safe=self._on_safe
        )
        self.state = FrontendState(WorkQueue(config.clients), np.ones(config.clients, np.uint32))
        self.counters: Counter[str] = Counter()
        self.downloads = DownloadGate(min(_MAX_DOWNLOAD_BYTES, config.in_flight_bytes))
        self.limiter = PeerLimiter(
            Limits(all_bytes=config.in_flight_bytes, peer_bytes=config.in_flight_bytes // 2 + config.largest)
        )
        self.link: Link[inside.ToTransmitter] | None = None
        self.seconds = 0.0  # that receiving took, in all
        self.stopped = asyncio.Event()
        self.failure = ""
        self._outbox = inside.ToProcessor()
        self._departed: set[int] = set()  # who is gone, in the message that goes out next
        self._scheduled, self._sent_at, self._send_interval = False, 0.0, _GATHER_SECONDS
        self._last_number = 0
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- what goes to the processor: one message a turn of the loop -----------------------------------------------

    def outbox(self) -> inside.ToProcessor:
        """The message that goes out at the end of this turn; under load what a few milliseconds bring goes together."""
        if not self._scheduled:
            self._scheduled = True
            loop = asyncio.get_running_loop()
            wait = self._sent_at + self._send_interval - loop.time()
            if wait <= 0:
                loop.call_soon(self._send)
            else:
                loop.call_later(wait, self._send)
        return self._outbox

    def _send(self) -> None:
        self._scheduled = False
        self._sent_at = asyncio.get_running_loop().time()
        out, self._outbox = self._outbox, inside.ToProcessor()
        self._send_interval = _BUSY_SECONDS if len(out.claims) > 1 else _GATHER_SECONDS
        self._departed.clear()
        if self.link is not None:
            self.link.send(out)

    def record_call(self, client: int, return_seconds: float) -> None:
        """A device called; `back` is when it was told to come back, 0 while it is on the line."""
        out = self.outbox()
        if client in self._departed:  # it hung up, and is here again
            self._departed.discard(client)
            out.gone.remove(client)
        out.heard.append(client)
        out.heard_back.append(return_seconds)

    def record_departure(self, client: int) -> None:
        """A device hung up or took its leave."""
        if client not in self._departed:
            self._departed.add(client)
            self.outbox().gone.append(client)

    def strike(self, client: int, reason: str) -> None:
        """Something came that no honest device sends, or that was damaged on its way."""
        self.counters["strikes"] += 1
        self.limiter.strike(client, time.monotonic())
        self.outbox().strikes.append(inside.Strike(client=client, reason=reason))

    def _on_safe(self, tasks: list[int]) -> None:
        self.state.work_queue.end(tasks)
        self.outbox().safe.extend(tasks)

    async def claim(self, claim: inside.Claim, report: DecodedReport, payload: memoryview | bytes) -> inside.Grant:
        """The processor's word on a report; if it was granted, the report is safe when this returns."""
        self._last_number += 1
        claim.number = self._last_number
        pending = PendingClaim(claim, report, payload, asyncio.get_running_loop().create_future())
        self.state.claims[claim.number] = pending
        self.outbox().claims.append(claim)
        return await pending.answer

    async def ask_server(self, fill: Callable[[inside.ToProcessor, int], None]) -> Any:
        """The processor's answer to a question that only it can answer."""
        self._last_number += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.state.questions[self._last_number] = answer
        fill(self.outbox(), self._last_number)
        return await answer

    # ---- what comes from the processor ----------------------------------------------------------------------------

    def on_message(self, message: inside.ToTransmitter) -> None:
        """Take the processor's word in, in the order in which one part may need another."""
        state = self.state
        for client, generation in zip(message.revoked, message.generations, strict=True):
            state.generations[client] = generation
            wake(state.waiters, client)  # whoever is on the line with the old secret hears of it
        for name in message.dropped_blobs:  # first: the same bytes may be wanted again
            state.blobs.pop(name, None)
        for new in message.blobs:
            blob = Blob(new.name, new.path, new.nbytes, new.crc32c)
            with suppress(FileNotFoundError):  # it was dropped meanwhile: nobody will be sent it
                state.blobs[new.name] = blob, map_blob(blob)
        if message.frozen:
            state.frozen = state.blobs[message.frozen][0]
        for grant in message.grants:
            self._on_grant(grant)
        for wave in message.waves:
            for client in state.work_queue.add(wave):
                wake(state.waiters, client)
        if message.withdrawn:
            state.work_queue.end(message.withdrawn)
        for answer in (*message.enrolled, *message.told):
            question = state.questions.pop(answer.number, None)
            if question is not None and not question.done():
                question.set_result(answer)
        for bucket in message.close:
            self._start_task(self._close_bucket(bucket))
        for bucket in message.discard:
            self.group_commit.discard(bucket)
        if message.HasField("come_back"):
            state.return_seconds, state.round = message.come_back, message.round
        state.draining = state.draining or message.drain
        if message.over:
            state.end_reason = message.over
            for client in list(state.waiters):
                wake(state.waiters, client)

    def _on_grant(self, grant: inside.Grant) -> None:
        pending = self.state.claims.pop(grant.number, None)
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
        entry = LogEntry(
            claim.task, claim.client, grant.order, grant.time, grant.weight, grant.factor, grant.sum, claim.crc32c,
            claim.nbytes, names, values, claim.stats,
        )  # fmt: skip
        report = pending.report
        self.group_commit.add(grant.bucket, entry, report.tree, pending.payload, acknowledge, report.flat_update)

    async def _close_bucket(self, bucket: int) -> None:
        path = Path(self.config.shared) / f"sums-{self.config.index}-{bucket}.safetensors"
        sums_path, count = await self.group_commit.close(bucket, path)
        self.outbox().closed.append(inside.Closed(bucket=bucket, path=sums_path, count=count))

    def _start_task(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """A commit that fails (a full disk) ends this process with its sentence: nothing unsafe is ever acknowledged."""
        if not task.cancelled() and (wrong := task.exception()) is not None:
            self.fail(wrong)

    def fail(self, wrong: BaseException) -> None:
        """This transmitter cannot go on."""
        self.failure = self.failure or str(wrong) or type(wrong).__name__
        self.stopped.set()

    # ---- answers to devices ---------------------------------------------------------------------------------------

    def inline_bytes(self, client: int) -> int:
        """The bytes of the model that would go along with an answer to this device now."""
        item = None if self.state.end_reason or self.state.draining else self.state.work_queue.next_item(client)
        entry = None if item is None else self.state.blobs.get(blob_name(item))
        return entry[0].nbytes if entry is not None and entry[0].nbytes <= INLINE_BYTES else 0

    def next_work(self, client: int, held_seconds: float = 0.0) -> tuple[pb.Answer, memoryview | bytes]:
        """Work, when to come back, or that it is over; and the payload that goes with it."""
        state = self.state
        if state.end_reason:
            self.counters["told_over"] += 1
            return pb.Answer(over=pb.Over(reason=state.end_reason)), b""
        item = None if state.draining else state.work_queue.next_item(client)
        entry = None if item is None else state.blobs.get(blob_name(item))
        if item is None or entry is None:  # a model that is gone is of work that will be withdrawn in a moment
            return pb.Answer(
                later=pb.Later(seconds=self.return_delay(client) if item is None else _NO_MODEL_SECONDS)
            ), b""
        blob, data = entry
        if not self.config.encode_once:  # what a server pays that encodes its model for every device
            from fedfleet.core.container import pack_tree, unpack_tree

            data = memoryview(pack_tree(unpack_tree(bytes(data))))
        inline = blob.nbytes <= INLINE_BYTES
        work = work_message(item, nonce_of(self.key, item.task), blob, state.frozen, held_seconds, inline=inline)
        self.counters["bytes_down"] += blob.nbytes if inline else 0
        return pb.Answer(work=work), data if inline else b""

    def return_delay(self, client: int) -> float:
        """When a device without work should call again: at once, if it may wait on the line."""
        if self.state.draining:
            return 30.0
        if len(self.state.waiters) < self.config.hold:
            return 0.0
        likely, fleet = self.state.return_seconds, self.config.clients
        return float(return_delays(np.array([client]), self.state.round, likely=likely, fleet=fleet)[0])

    def ready_message(self) -> inside.Ready:
        """What this transmitter found on its disk."""
        store = (
            self.sums or self.spool
        )  # beside sums a spool is for keeping: what it has and they lack was not made safe
        entries_by_bucket = (
            {b: {e.task: entry_to_bytes(e) for e in entries} for b, entries in store.recovered_entries().items()}
            if store
            else {}
        )
        return inside.Ready(
            pid=os.getpid(),
            found=[
                inside.Found(bucket=b, tasks=list(e), entries=list(e.values())) for b, e in entries_by_bucket.items()
            ],
            damages=[damage for source in (self.sums, self.spool) if source is not None for damage in source.damages],
        )


async def run_frontend(end: socket.socket) -> None:
    """Be a transmitter on this end of a socket pair until the processor lets go."""
    first: asyncio.Future[Frontend] = asyncio.get_running_loop().create_future()
    server_gone = asyncio.Event()

    def on_message(message: inside.ToTransmitter) -> None:
        try:
            if not first.done():
                first.set_result(Frontend(config_from_bytes(message.start)))
            if first.exception() is None:
                first.result().on_message(message)
        except Exception as error:  # the loop would swallow it, and nobody would hear why
            if first.done():
                first.result().fail(error)
            else:
                first.set_exception(error)

    link = await connect_link(end, Link(inside.ToTransmitter, on_message, server_gone.set))
    server_left = asyncio.create_task(server_gone.wait())
    try:
        await asyncio.wait({first, server_left}, return_when=asyncio.FIRST_COMPLETED)
        if first.done():
            frontend = first.result()
            frontend.link = link
            await _serve_devices(frontend, server_left)
    finally:
        server_left.cancel()
        link.close()


async def _serve_devices(frontend: Frontend, server_left: asyncio.Task[bool]) -> None:
    """Answer devices until the processor is gone or nothing can be made safe any more: then `RunFailed` says why."""
    from fedfleet.network.frontend.grpc_server import serve_grpc

    commit_task = asyncio.create_task(frontend.group_commit.run())
    commit_task.add_done_callback(frontend._on_task_done)  # pyright: ignore[reportPrivateUsage]
    counters_task = asyncio.create_task(_send_counters(frontend))
    stop_task = asyncio.create_task(frontend.stopped.wait())
    try:
        async with serve_grpc(frontend):
            frontend.outbox().ready.CopyFrom(frontend.ready_message())
            await asyncio.wait({server_left, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stop_task, commit_task, counters_task):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    if frontend.failure:
        raise RunFailed(frontend.failure)


async def _send_counters(frontend: Frontend) -> None:
    before: Mapping[str, float] = {}
    while True:
        await asyncio.sleep(0.5)
        now: dict[str, float] = {
            **frontend.counters,
            "open_calls": len(frontend.state.waiters),
            "in_flight_bytes": frontend.limiter.bytes_in_flight,
            "snapshots": frontend.group_commit.commits,
            "receive_seconds_sum": frontend.seconds,
        }
        if now != before:
            before = now
            frontend.outbox().counters.update(now)


def main() -> None:
    """The process: its end of the socket pair is the file that the first argument numbers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the processor, which lets go of us in order
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = socket.socket(fileno=int(sys.argv[1]))
    try:
        with infrequent_gc():
            asyncio.run(run_frontend(end))
    except FedFleetError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(FAILURE_EXIT_CODE) from None


if __name__ == "__main__":
    main()
