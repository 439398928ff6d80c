"""A frontend: the process that holds the devices' calls. It receives, checks, folds what is granted, and decides nothing.

Run as a module it takes the number of its end of a socket pair as argument, and lives as long as the server does.
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
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import FedFleetError, RunFailed
from fedfleet.network.frontend.claims import ReportDecoder, Uplink
from fedfleet.network.frontend.partial_sums import PartialSums
from fedfleet.network.frontend.report_log import GroupCommit, LogEntry, entry_to_bytes
from fedfleet.network.frontend.spool import Spool
from fedfleet.network.frontend.work_queue import (
    DownloadGate,
    Invitations,
    Waiters,
    WorkQueue,
    blob_name,
    turn_name,
    wake,
    work_message,
)
from fedfleet.network.operations.process_memory import infrequent_gc, keep_freed_memory
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import INLINE_BYTES
from fedfleet.network.protocol.process_link import Blob, Link, connect_link, map_blob
from fedfleet.network.rules.pace_steering import CALLS_PER_SECOND, Pace, return_delays
from fedfleet.network.rules.peer_limits import Limits, PeerLimiter
from fedfleet.network.security.secrets import RunKey, nonce_of
from fedfleet.network.security.sum_cipher import cipher_of
from fedfleet.network.server.options import FrontendConfig, config_from_bytes

_NO_MODEL_SECONDS = 1.0
_QUIET_SECONDS = 5.0  # without a payload on its way, after which freed memory goes back to the system
FAILURE_EXIT_CODE = 3  # of a frontend that cannot go on, and that to start again would not help
_MAX_DOWNLOAD_BYTES = 32 << 20  # of models on their way inside answers; large models are fetched in chunks
_UNTOLD_PACE = Pace(2.0)  # at which devices come back until the server has said when


@dataclass(slots=True)
class FrontendState:
    """What a frontend was told by the server, and the calls that it holds."""

    work_queue: WorkQueue
    generations: np.ndarray[Any, Any]
    blobs: dict[str, tuple[Blob, memoryview]] = field(default_factory=dict[str, tuple[Blob, memoryview]])
    frozen: Blob | None = None
    waiters: Waiters = field(default_factory=Waiters)
    invitations: Invitations = field(default_factory=Invitations)
    pace: Pace = _UNTOLD_PACE
    round: int = 0
    end_reason: str = ""
    draining: bool = False


class Frontend:
    """One frontend: it hands out work, takes reports, and passes on what only the server may decide. `service` answers calls."""

    def __init__(self, config: FrontendConfig) -> None:
        self.config = config
        self.key = RunKey(bytes.fromhex(config.key))
        self.decoder = ReportDecoder(config)
        folder = Path(config.folder) if config.durable else None
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise RunFailed(
                    f"{folder} cannot be created ({error.strerror}); check disk space and permissions, then resume"
                ) from error
        self.cipher = cipher_of(bytes.fromhex(config.noise_key) or None)
        sums = PartialSums(self.decoder.layout, folder, self.cipher) if config.stream else None
        spool = Spool(Path(config.folder), lasting=config.durable, cipher=self.cipher) if config.spool else None
        self.group_commit = GroupCommit(
            sums, spool, durable=config.durable, seconds=config.commit_seconds, on_safe=self._on_safe, cipher=self.cipher
        )
        self.state = FrontendState(WorkQueue(config.clients), np.ones(config.clients, np.uint32))
        self.uplink = Uplink()
        self.counters: Counter[str] = Counter()
        self.receive_seconds = 0.0  # that reports took, in all
        self.downloads = DownloadGate(min(_MAX_DOWNLOAD_BYTES, config.in_flight_bytes))
        self.limiter = PeerLimiter(
            Limits(all_bytes=config.in_flight_bytes, peer_bytes=config.in_flight_bytes // 2 + config.largest)
        )
        for client, left in config.strikes:
            self.limiter.restore_strikes(int(client), left, time.monotonic())
        self.stopped = asyncio.Event()
        self.failure = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def strike(self, client: int, reason: str) -> None:
        """Something came that no honest device sends, or that was damaged on its way."""
        self.counters["strikes"] += 1
        self.limiter.strike(client, time.monotonic())
        self.uplink.outbox().strikes.append(inside.Strike(client=client, reason=reason))

    def _on_safe(self, tasks: list[int]) -> None:
        self.state.work_queue.end(tasks)
        self.uplink.outbox().safe.extend(tasks)

    def on_message(self, message: inside.ToTransmitter) -> None:
        """Take a message of the server in, in the order in which one part may need another."""
        state = self.state
        for client, generation in zip(message.revoked, message.generations, strict=True):
            state.generations[client] = generation
            wake(state.waiters, client)  # a call that is held with the old secret ends
        for name in message.dropped_blobs:  # first: the same bytes may be wanted again
            state.blobs.pop(name, None)
        for new in message.blobs:
            blob = Blob(new.name, new.path, new.nbytes, new.crc32c)
            with suppress(FileNotFoundError):  # it was dropped since: no device will be sent it
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
        self.uplink.on_answers((*message.enrolled, *message.told))
        for bucket in message.close:
            self._start_task(self._close_bucket(bucket))
        for bucket in message.discard:
            self.group_commit.discard(bucket)
        if message.HasField("come_back"):
            state.pace, state.round = Pace(message.come_back, message.calls_per_second or CALLS_PER_SECOND), message.round
        state.draining = state.draining or message.drain
        if message.over:
            state.end_reason = message.over
            for client in list(state.waiters):
                wake(state.waiters, client)

    def _on_grant(self, grant: inside.Grant) -> None:
        pending = self.uplink.claims.pop(grant.number, None)
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
        self.uplink.outbox().closed.append(inside.Closed(bucket=bucket, path=sums_path, count=count))

    def _start_task(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self.on_task_done)

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        """A commit that fails (a full disk) ends this process with its sentence: nothing unsafe is ever acknowledged."""
        if not task.cancelled() and (wrong := task.exception()) is not None:
            self.fail(wrong)

    def fail(self, wrong: BaseException) -> None:
        """This frontend cannot go on."""
        self.failure = self.failure or str(wrong) or type(wrong).__name__
        self.stopped.set()

    # ---- answers to devices ------------------------------------------------------------------------------------------

    def inline_bytes(self, client: int) -> int:
        """The bytes of the model that would go along with an answer to this device now."""
        item = None if self.state.end_reason or self.state.draining else self.state.work_queue.next_item(client)
        entry = None if item is None else self.state.blobs.get(blob_name(item))
        return entry[0].nbytes if entry is not None and entry[0].nbytes <= INLINE_BYTES else 0

    def next_work(
        self, client: int, held_seconds: float = 0.0, *, most_inline: int = INLINE_BYTES
    ) -> tuple[pb.Answer, memoryview | bytes]:
        """Work, when to come back, or that it is over; and the payload that goes with it, if it has at most so many bytes."""
        state = self.state
        if state.end_reason:
            self.counters["told_over"] += 1
            return pb.Answer(over=pb.Over(reason=state.end_reason)), b""
        item = None if state.draining else state.work_queue.next_item(client)
        entry = None if item is None else state.blobs.get(blob_name(item))
        if item is None or entry is None:  # a model that is gone is of work that will be withdrawn in a moment
            return pb.Answer(later=pb.Later(seconds=self.return_delay(client) if item is None else _NO_MODEL_SECONDS)), b""
        blob, data = entry
        if not self.config.encode_once:  # what a server pays that encodes its model for every device
            from fedfleet.core.tensor_format import pack_tree, unpack_tree

            data = memoryview(pack_tree(unpack_tree(bytes(data))))
        inline = blob.nbytes <= most_inline
        turn, _ = state.blobs.get(turn_name(item), (None, None))
        nonce = nonce_of(self.key, item.task)
        work = work_message(item, nonce, blob, state.frozen, held_seconds, inline=inline, turn=turn)
        self.counters["bytes_down"] += blob.nbytes if inline else 0
        return pb.Answer(work=work), data if inline else b""

    def return_delay(self, client: int) -> float:
        """When a device without work should call again: at once, if it may wait on the line.

        Where not all fit on the line, none waits there for work that is not likely soon: it would have to call again and again.
        """
        state, config = self.state, self.config
        if state.draining:
            return 30.0
        likely, calls_per_second = state.pace
        now = time.monotonic()
        may_wait = likely <= config.hold_seconds or config.clients <= config.hold
        if may_wait and len(state.waiters) + state.invitations.count(now) < config.hold:
            state.invitations.add(client, now)
            return 0.0
        elsewhere = max(1, config.clients - config.hold)  # devices that are not on the line
        delays = return_delays(np.array([client]), state.round, likely=likely, fleet=elsewhere, calls_per_second=calls_per_second)
        return float(delays[0])

    def ready_message(self) -> inside.Ready:
        """What this frontend found on its disk."""
        sums, spool = self.group_commit.sums, self.group_commit.spool
        # With sums, a spool is for keeping alone: a report that it has and they lack was not made safe.
        store = sums or spool
        entries_by_bucket = (
            {b: {e.task: entry_to_bytes(e) for e in entries} for b, entries in store.recovered_entries().items()} if store else {}
        )
        return inside.Ready(
            pid=os.getpid(),
            found=[inside.Found(bucket=b, tasks=list(e), entries=list(e.values())) for b, e in entries_by_bucket.items()],
            damages=[damage for source in (sums, spool) if source is not None for damage in source.damages],
        )


async def run_frontend(end: socket.socket) -> None:
    """Be a frontend on this end of a socket pair until the server closes the other."""
    first: asyncio.Future[Frontend] = asyncio.get_running_loop().create_future()
    server_gone = asyncio.Event()

    def on_message(message: inside.ToTransmitter) -> None:
        try:
            if not first.done():
                first.set_result(Frontend(config_from_bytes(message.start)))
            if first.exception() is None:
                first.result().on_message(message)
        except Exception as error:  # asyncio would swallow it
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
            frontend.uplink.link = link
            await _serve_devices(frontend, server_left)
    finally:
        server_left.cancel()
        link.close()


async def _serve_devices(frontend: Frontend, server_left: asyncio.Task[bool]) -> None:
    """Answer devices until the server is gone or nothing can be made safe any more: then `RunFailed` says why."""
    from fedfleet.network.frontend.grpc_door import serve_grpc
    from fedfleet.network.frontend.service import FleetService

    commit_task = asyncio.create_task(frontend.group_commit.run())
    commit_task.add_done_callback(frontend.on_task_done)
    service = FleetService(frontend)
    counters_task = asyncio.create_task(_send_counters(frontend, service.on_quiet))
    stop_task = asyncio.create_task(frontend.stopped.wait())
    try:
        async with AsyncExitStack() as doors:
            await doors.enter_async_context(serve_grpc(service))
            if frontend.config.http:
                from fedfleet.network.frontend.http_door import serve_http

                await doors.enter_async_context(serve_http(service))
            frontend.uplink.outbox().ready.CopyFrom(frontend.ready_message())
            await asyncio.wait({server_left, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stop_task, commit_task, counters_task):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
    if frontend.failure:
        raise RunFailed(frontend.failure)


async def _send_counters(frontend: Frontend, on_quiet: Callable[[], None]) -> None:
    before: Mapping[str, float] = {}
    quiet_since, returned = time.monotonic(), True
    while True:
        await asyncio.sleep(0.5)
        if frontend.limiter.bytes_in_flight or frontend.downloads.nbytes:
            quiet_since, returned = time.monotonic(), False
        elif not returned and time.monotonic() - quiet_since > _QUIET_SECONDS:
            on_quiet()
            returned = True
        now: dict[str, float] = {
            **frontend.counters,
            "open_calls": len(frontend.state.waiters),
            "in_flight_bytes": frontend.limiter.bytes_in_flight,
            "snapshots": frontend.group_commit.commits,
            "receive_seconds_sum": frontend.receive_seconds,
        }
        if now != before:
            before = now
            frontend.uplink.outbox().counters.update(now)


def main() -> None:
    """The process: its end of the socket pair is the file that the first argument numbers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its frontends in order
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    keep_freed_memory()
    end = socket.socket(fileno=int(sys.argv[1]))
    try:
        with infrequent_gc():
            asyncio.run(run_frontend(end))
    except FedFleetError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(FAILURE_EXIT_CODE) from None


if __name__ == "__main__":
    main()
