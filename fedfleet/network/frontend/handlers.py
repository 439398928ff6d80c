"""The door: gRPC calls become calls of the transmitter, and its answers bytes. Another door could stand before the same desk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fedfleet.core.stages import STAGES
from fedfleet.network.evaluation.by_devices import judges
from fedfleet.network.frontend.buffer_pool import Chunks
from fedfleet.network.frontend.frontend import Transmitter
from fedfleet.network.frontend.long_poll import on_the_line
from fedfleet.network.frontend.partial_uploads import Partials
from fedfleet.network.frontend.report_decoder import NOTHING, Taken, taken
from fedfleet.network.operations.counters import count_received
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import (
    CHUNK,
    MOST_HEAD,
    crc32c,
    framed,
    opened,
    parsed,
    split_address,
)
from fedfleet.network.security.sanitiser import kept_stats, shown
from fedfleet.network.security.secrets import check_nonce, check_secret, check_status_token
from fedfleet.network.security.tls import is_loopback

_IDLE_SECONDS = 30.0  # between two chunks of a stream
_MOST_CHUNKS = 64 << 20  # bytes of a model whose chunks are kept ready
_SLOWEST = 4096  # bytes a second of an upload; what came is kept, and can be resumed
Context = grpc.aio.ServicerContext[Any, Any]


class Stranger(Exception):
    """A caller that shows no secret, or not the right one."""


class Slow(Exception):
    """A peer that asks for more than its share."""


class Handlers:
    """The methods of the service on raw bytes."""

    def __init__(self, transmitter: Transmitter) -> None:
        self._of = transmitter
        self._partials = Partials(Path(transmitter.start.shared) / "partials", transmitter.start.in_flight_bytes // 4)
        self._chunks = Chunks(_MOST_CHUNKS)

    def caller(self, caller: pb.Caller) -> int:
        """Who calls; `Stranger` if that is not shown."""
        self.check_secret(caller)
        self._admit(caller.client)
        return caller.client

    def check_secret(self, caller: pb.Caller) -> None:
        """`Stranger` unless the secret is the one that holds for this client now."""
        of = self._of
        if caller.client >= of.start.clients:
            raise Stranger(f"there is no client {caller.client}: this fleet has clients 0 to {of.start.clients - 1}")
        generation = int(of.tables.generations[caller.client])
        if not check_secret(of.key, caller.client, generation, caller.secret):
            raise Stranger(f"client {caller.client} shows no secret that holds here (any more); enrol it with a token")

    def _admit(self, peer: int | str) -> None:
        """Count a call; `Slow` if a peer calls too often, or sent too much that no honest device sends."""
        refusal = self._of.door.call(peer, time.monotonic())
        if refusal is not None:
            raise Slow(f"{refusal.reason}; try again in {refusal.seconds:.1f} s")

    async def enrol(self, data: bytes, context: Context) -> bytes:
        """The processor decides who may be a client."""
        request, number = bytes(data), 0

        def fill(out: inside.ToProcessor, own: int) -> None:
            nonlocal number
            number = own
            out.enrolling.append(inside.Enrolling(number=own, request=request, peer=shown(context.peer(), 64)))

        self._admit(_address(context))
        parsed(data, pb.EnrolRequest)
        answer = await self._of.ask(fill)
        if answer.refused:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, answer.refused)
        return answer.reply

    async def check(self, data: bytes, context: Context) -> bytes:
        """Hand out work, or keep the device on the line for a while if there is none."""
        of = self._of
        head = parsed(data, pb.CheckIn)
        client = self.caller(head.caller)
        errand = of.tables.errands.of(client)
        working = errand is not None and head.HasField("busy") and head.busy == errand.task
        room = len(of.tables.waiters) < of.start.hold and not of.tables.draining
        if working and not head.hold and not of.tables.over:  # it lives, and that is all it wants to say
            of.heard(client, of.start.hold_seconds)
            return framed(pb.Answer(later=pb.Later(seconds=of.start.hold_seconds)))
        if not (head.hold and (errand is None or working) and room and not of.tables.over):
            answer, payload = await self._next(client, context)
            of.heard(client, answer.later.seconds if answer.HasField("later") else of.start.hold_seconds)
            return framed(answer, payload)
        of.heard(client, 0.0)
        came, generation = time.monotonic(), of.tables.generations[client]
        await on_the_line(of.tables.waiters, client, of.start.hold_seconds, of.gone)
        if of.tables.generations[client] != generation:
            raise Stranger(f"client {client} was put out while it waited; enrol it with a token")
        answer, payload = await self._next(client, context, time.monotonic() - came)
        of.heard(client, answer.later.seconds if answer.HasField("later") else of.start.hold_seconds)
        return framed(answer, payload)

    async def _next(self, client: int, context: Context, held: float = 0.0) -> tuple[pb.Answer, memoryview | bytes]:
        """What a device has to do next, when there is room for the model that goes along."""
        nbytes = self._of.inline_bytes(client)
        if nbytes:
            await self._of.outgoing.enter(nbytes, context)
        return self._of.next_work(client, held)

    async def fetch(self, data: bytes, context: Context) -> AsyncIterator[bytes]:
        """A blob from an offset on, chunk by chunk from shared memory."""
        head = parsed(data, pb.FetchRequest)
        self.caller(head.caller)
        blob = self._of.tables.blobs.get(head.name)
        if blob is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such blob (any more); check in for newer work")
            return
        for a in range(min(head.offset, blob[0].nbytes), blob[0].nbytes, CHUNK):
            chunk = self._chunks.at(head.name, blob[1], a)
            self._of.counters["bytes_down"] += len(chunk)
            yield chunk

    async def hand(self, data: bytes, context: Context) -> bytes:
        """A report in one message."""
        head, payload = opened(data, pb.Report)
        client = self.caller(head.caller)
        return await self._take(client, head, payload, context)

    async def hand_stream(self, requests: AsyncIterator[bytes], context: Context) -> bytes:
        """A report in chunks; what came of it before the line broke is kept, so that it can be resumed."""
        of = self._of
        head, rest = opened(await asyncio.wait_for(anext(requests, b""), _IDLE_SECONDS), pb.Report)
        client = self.caller(head.caller)
        if head.nbytes > of.start.largest:
            of.strike(client, f"a report of {head.nbytes} bytes, and {of.start.largest} is the most")
            return _receipt(
                pb.Receipt.REFUSED, f"{head.nbytes} bytes are more than any report has ({of.start.largest})"
            )
        if not check_nonce(of.key, head.task, head.nonce):
            of.strike(client, "a report with a wrong nonce")
            return _receipt(pb.Receipt.REFUSED, "it shows no nonce of its task")
        buffer, have = self._partials.begun(head)
        if head.offset != have or len(rest):
            return _receipt(pb.Receipt.BUSY, f"{have} bytes of it are here; go on from there", seconds=0.0)
        busy = of.door.open(client, time.monotonic(), streams=1, nbytes=head.nbytes)
        if busy is not None:
            of.counters["busy"] += 1
            return _receipt(pb.Receipt.BUSY, busy.reason, seconds=busy.seconds)
        try:
            async for chunk in _in_time(requests, _IDLE_SECONDS + (head.nbytes - have) / _SLOWEST):
                if len(chunk) > head.nbytes - have or len(chunk) > CHUNK + MOST_HEAD:
                    of.strike(client, "a stream that brings more than it said")
                    return _receipt(pb.Receipt.RETRY, f"more came than the {head.nbytes} bytes that it said")
                buffer[have : have + len(chunk)] = chunk
                have += len(chunk)
            if have < head.nbytes:
                self._partials.keep(head, memoryview(buffer)[:have])
                return _receipt(pb.Receipt.RETRY, f"only {have} of {head.nbytes} bytes came")
            self._partials.forget(head)
            return await self._take(client, head, memoryview(buffer), context, counted=True)
        except (asyncio.CancelledError, TimeoutError, grpc.RpcError):
            if have < head.nbytes:
                self._partials.keep(head, memoryview(buffer)[:have])
            raise
        finally:
            self._partials.rooms.give_back(buffer)
            of.door.close(client, streams=1, nbytes=head.nbytes)

    async def _take(
        self, client: int, head: pb.Report, payload: memoryview, context: Context, *, counted: bool = False
    ) -> bytes:
        of, began = self._of, time.monotonic()
        of.counters["bytes_up"] += len(payload)
        if not check_nonce(of.key, head.task, head.nonce):
            of.strike(client, f"a report of task {head.task} with a wrong nonce")
            return _receipt(pb.Receipt.REFUSED, "it shows no nonce of its task")
        if len(payload) != head.nbytes or crc32c(payload) != head.crc32c:
            of.strike(client, f"a report of task {head.task} that was damaged on its way")
            return _receipt(pb.Receipt.RETRY, "it was damaged on its way: its length or checksum is another")
        if (head.kind == pb.TRAIN) is judges(head.task):
            of.strike(client, f"a report of task {head.task} of another kind than the task")
            return _receipt(pb.Receipt.RETRY, "it is of another kind than its task")
        busy = None if counted else of.door.open(client, time.monotonic(), nbytes=len(payload))
        if busy is not None:
            of.counters["busy"] += 1
            return _receipt(pb.Receipt.BUSY, busy.reason, seconds=busy.seconds)
        try:
            grant = await of.claim(*self._looked_at(client, head, payload), payload)
        finally:
            if not counted:
                of.door.close(client, nbytes=len(payload))
        of.counters["reports"] += 1
        _observe(of, time.monotonic() - began)
        answer, more = await self._next(client, context)
        back = answer.later.seconds if answer.HasField("later") else of.start.hold_seconds
        of.heard(client, back or of.start.hold_seconds)
        receipt = pb.Receipt(status=grant.status, reason=grant.reason, seconds=grant.seconds, next=answer)  # type: ignore[arg-type]
        return framed(receipt, more)

    def _looked_at(self, client: int, head: pb.Report, payload: memoryview) -> tuple[inside.Claim, Taken]:
        """What a report claims to be, and what is in it.

        Also of a task that is not on the list here: it may have been granted, lost with its transmitter, and be welcome again.
        """
        of, claim, found = self._of, self._claim(client, head), NOTHING
        if head.kind == pb.TRAIN and not head.declined:
            codec = of.codecs[of.codec_of.get(client, 0)]
            found = taken(of.sheet, codec, payload, head.weight, looks=of.start.stream)
            claim.fault, claim.decoded_nbytes = shown(found.fault), found.nbytes
        return claim, found

    def _claim(self, client: int, head: pb.Report) -> inside.Claim:
        stats, spent = kept_stats(head.stats, self._of.start.stats).kept, kept_stats(head.spent, STAGES).kept
        return inside.Claim(
            client=client, task=head.task, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c, weight=head.weight,
            names=[*stats, *spent], values=[*stats.values(), *spent.values()], stats=len(stats),
            declined=shown(head.declined), kind=head.kind, correct=head.correct, total=head.total, loss=head.loss,
        )  # fmt: skip

    async def held(self, data: bytes, context: Context) -> bytes:
        """How much of a broken upload is here."""
        del context
        head = parsed(data, pb.HeldRequest)
        self.caller(head.caller)
        if not check_nonce(self._of.key, head.task, head.nonce):
            return pb.HeldReply(offset=0).SerializeToString()
        return pb.HeldReply(offset=self._partials.held(head.task, head.crc32c, head.nbytes)).SerializeToString()

    async def leave(self, data: bytes, context: Context) -> bytes:
        """A device goes."""
        del context
        client = self.caller(parsed(data, pb.LeaveRequest).caller)
        self._of.gone(client)
        return pb.LeaveReply().SerializeToString()

    async def status(self, data: bytes, context: Context) -> bytes:
        """What the processor says of itself."""
        request = parsed(data, pb.StatusRequest)
        if not is_loopback(split_address(self._of.start.address)[0]) and not check_status_token(
            self._of.key, request.token
        ):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, "show the token of wire/status.token in the run's folder"
            )
        told = await self._of.ask(lambda out, number: out.asking.append(inside.Asking(number=number)))
        return pb.StatusReply(json=told.json).SerializeToString()


async def _in_time(requests: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The chunks of a stream; `TimeoutError` if one keeps us waiting, or all take longer: who holds memory must use it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    async with asyncio.timeout(_IDLE_SECONDS) as limit:  # one timer for all chunks, which is moved on
        async for chunk in requests:
            yield chunk
            limit.reschedule(min(loop.time() + _IDLE_SECONDS, until))


def _address(context: Context) -> str:
    """Where a call comes from, without its port; all of one address share what strangers may ask."""
    return str(context.peer()).rpartition(":")[0]


def _receipt(status: int, reason: str, seconds: float = 0.0) -> bytes:
    return framed(pb.Receipt(status=status, reason=reason, seconds=seconds))  # type: ignore[arg-type]


def _observe(of: Transmitter, seconds: float) -> None:
    of.seconds += seconds
    count_received(of.counters, seconds)
