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
from fedfleet.network.evaluation.by_devices import is_eval_task
from fedfleet.network.frontend.buffer_pool import ChunkCache
from fedfleet.network.frontend.frontend import Frontend
from fedfleet.network.frontend.long_poll import hold_call
from fedfleet.network.frontend.partial_uploads import PartialUploads
from fedfleet.network.frontend.report_decoder import EMPTY_REPORT, DecodedReport, decode_report
from fedfleet.network.operations.counters import count_report
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import (
    CHUNK,
    MAX_HEAD_BYTES,
    crc32c,
    decode_frame,
    encode_frame,
    parse_message,
    split_address,
)
from fedfleet.network.security.sanitiser import clean_stats, printable
from fedfleet.network.security.secrets import check_nonce, check_secret, check_status_token
from fedfleet.network.security.tls import is_loopback

_IDLE_SECONDS = 30.0  # between two chunks of a stream
_MAX_CHUNK_BYTES = 64 << 20  # bytes of a model whose chunks are kept ready
_MIN_UPLOAD_RATE = 4096  # bytes a second of an upload; what came is kept, and can be resumed
Context = grpc.aio.ServicerContext[Any, Any]


class Unauthenticated(Exception):
    """A caller that shows no secret, or not the right one."""


class RateLimited(Exception):
    """A peer that asks for more than its share."""


class Handlers:
    """The methods of the service on raw bytes."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._partials = PartialUploads(Path(frontend.config.shared) / "partials", frontend.config.in_flight_bytes // 4)
        self._chunks = ChunkCache(_MAX_CHUNK_BYTES)

    def authenticate(self, caller: pb.Caller) -> int:
        """Who calls; `Stranger` if that is not shown."""
        self.check_secret(caller)
        self._admit(caller.client)
        return caller.client

    def check_secret(self, caller: pb.Caller) -> None:
        """`Stranger` unless the secret is the one that holds for this client now."""
        frontend = self._frontend
        if caller.client >= frontend.config.clients:
            raise Unauthenticated(
                f"there is no client {caller.client}: this fleet has clients 0 to {frontend.config.clients - 1}"
            )
        generation = int(frontend.state.generations[caller.client])
        if not check_secret(frontend.key, caller.client, generation, caller.secret):
            raise Unauthenticated(
                f"client {caller.client} shows no secret that holds here (any more); enrol it with a token"
            )

    def _admit(self, peer: int | str) -> None:
        """Count a call; `Slow` if a peer calls too often, or sent too much that no honest device sends."""
        refusal = self._frontend.limiter.admit_call(peer, time.monotonic())
        if refusal is not None:
            raise RateLimited(f"{refusal.reason}; try again in {refusal.seconds:.1f} s")

    async def enrol(self, data: bytes, context: Context) -> bytes:
        """The processor decides who may be a client."""
        request, number = bytes(data), 0

        def fill(out: inside.ToProcessor, message_number: int) -> None:
            nonlocal number
            number = message_number
            out.enrolling.append(
                inside.Enrolling(number=message_number, request=request, peer=printable(context.peer(), 64))
            )

        self._admit(_address(context))
        parse_message(data, pb.EnrolRequest)
        answer = await self._frontend.ask_server(fill)
        if answer.refused:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, answer.refused)
        return answer.reply

    async def check(self, data: bytes, context: Context) -> bytes:
        """Hand out work, or keep the device on the line for a while if there is none."""
        frontend = self._frontend
        head = parse_message(data, pb.CheckIn)
        client = self.authenticate(head.caller)
        item = frontend.state.work_queue.next_item(client)
        is_working = item is not None and head.HasField("busy") and head.busy == item.task
        may_wait = len(frontend.state.waiters) < frontend.config.hold and not frontend.state.draining
        if is_working and not head.hold and not frontend.state.end_reason:  # it lives, and that is all it wants to say
            frontend.record_call(client, frontend.config.hold_seconds)
            return encode_frame(pb.Answer(later=pb.Later(seconds=frontend.config.hold_seconds)))
        if not (head.hold and (item is None or is_working) and may_wait and not frontend.state.end_reason):
            answer, payload = await self._next_answer(client, context)
            frontend.record_call(
                client, answer.later.seconds if answer.HasField("later") else frontend.config.hold_seconds
            )
            return encode_frame(answer, payload)
        frontend.record_call(client, 0.0)
        began, generation = time.monotonic(), frontend.state.generations[client]
        await hold_call(frontend.state.waiters, client, frontend.config.hold_seconds, frontend.record_departure)
        if frontend.state.generations[client] != generation:
            raise Unauthenticated(f"client {client} was put out while it waited; enrol it with a token")
        answer, payload = await self._next_answer(client, context, time.monotonic() - began)
        frontend.record_call(client, answer.later.seconds if answer.HasField("later") else frontend.config.hold_seconds)
        return encode_frame(answer, payload)

    async def _next_answer(
        self, client: int, context: Context, held_seconds: float = 0.0
    ) -> tuple[pb.Answer, memoryview | bytes]:
        """What a device has to do next, when there is room for the model that goes along."""
        nbytes = self._frontend.inline_bytes(client)
        if nbytes:
            await self._frontend.downloads.acquire(nbytes, context)
        return self._frontend.next_work(client, held_seconds)

    async def fetch(self, data: bytes, context: Context) -> AsyncIterator[bytes]:
        """A blob from an offset on, chunk by chunk from shared memory."""
        head = parse_message(data, pb.FetchRequest)
        self.authenticate(head.caller)
        blob = self._frontend.state.blobs.get(head.name)
        if blob is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such blob (any more); check in for newer work")
            return
        for a in range(min(head.offset, blob[0].nbytes), blob[0].nbytes, CHUNK):
            chunk = self._chunks.chunk_at(head.name, blob[1], a)
            self._frontend.counters["bytes_down"] += len(chunk)
            yield chunk

    async def hand(self, data: bytes, context: Context) -> bytes:
        """A report in one message."""
        head, payload = decode_frame(data, pb.Report)
        client = self.authenticate(head.caller)
        return await self._receive_report(client, head, payload, context)

    async def hand_stream(self, requests: AsyncIterator[bytes], context: Context) -> bytes:
        """A report in chunks; what came of it before the line broke is kept, so that it can be resumed."""
        frontend = self._frontend
        head, rest = decode_frame(await asyncio.wait_for(anext(requests, b""), _IDLE_SECONDS), pb.Report)
        client = self.authenticate(head.caller)
        if head.nbytes > frontend.config.largest:
            frontend.strike(client, f"a report of {head.nbytes} bytes, and {frontend.config.largest} is the most")
            return _receipt(
                pb.Receipt.REFUSED, f"{head.nbytes} bytes are more than any report has ({frontend.config.largest})"
            )
        if not check_nonce(frontend.key, head.task, head.nonce):
            frontend.strike(client, "a report with a wrong nonce")
            return _receipt(pb.Receipt.REFUSED, "it shows no nonce of its task")
        buffer, received = self._partials.start_upload(head)
        if head.offset != received or len(rest):
            return _receipt(pb.Receipt.BUSY, f"{received} bytes of it are here; go on from there", seconds=0.0)
        refusal = frontend.limiter.open(client, time.monotonic(), streams=1, nbytes=head.nbytes)
        if refusal is not None:
            frontend.counters["busy"] += 1
            return _receipt(pb.Receipt.BUSY, refusal.reason, seconds=refusal.seconds)
        try:
            async for chunk in _with_timeout(requests, _IDLE_SECONDS + (head.nbytes - received) / _MIN_UPLOAD_RATE):
                if len(chunk) > head.nbytes - received or len(chunk) > CHUNK + MAX_HEAD_BYTES:
                    frontend.strike(client, "a stream that brings more than it said")
                    return _receipt(pb.Receipt.RETRY, f"more came than the {head.nbytes} bytes that it said")
                buffer[received : received + len(chunk)] = chunk
                received += len(chunk)
            if received < head.nbytes:
                self._partials.keep(head, memoryview(buffer)[:received])
                return _receipt(pb.Receipt.RETRY, f"only {received} of {head.nbytes} bytes came")
            self._partials.forget(head)
            return await self._receive_report(client, head, memoryview(buffer), context, counted=True)
        except (asyncio.CancelledError, TimeoutError, grpc.RpcError):
            if received < head.nbytes:
                self._partials.keep(head, memoryview(buffer)[:received])
            raise
        finally:
            self._partials.buffers.release(buffer)
            frontend.limiter.close(client, streams=1, nbytes=head.nbytes)

    async def _receive_report(
        self, client: int, head: pb.Report, payload: memoryview, context: Context, *, counted: bool = False
    ) -> bytes:
        frontend, began = self._frontend, time.monotonic()
        frontend.counters["bytes_up"] += len(payload)
        if not check_nonce(frontend.key, head.task, head.nonce):
            frontend.strike(client, f"a report of task {head.task} with a wrong nonce")
            return _receipt(pb.Receipt.REFUSED, "it shows no nonce of its task")
        if len(payload) != head.nbytes or crc32c(payload) != head.crc32c:
            frontend.strike(client, f"a report of task {head.task} that was damaged on its way")
            return _receipt(pb.Receipt.RETRY, "it was damaged on its way: its length or checksum is another")
        if (head.kind == pb.TRAIN) is is_eval_task(head.task):
            frontend.strike(client, f"a report of task {head.task} of another kind than the task")
            return _receipt(pb.Receipt.RETRY, "it is of another kind than its task")
        refusal = None if counted else frontend.limiter.open(client, time.monotonic(), nbytes=len(payload))
        if refusal is not None:
            frontend.counters["busy"] += 1
            return _receipt(pb.Receipt.BUSY, refusal.reason, seconds=refusal.seconds)
        try:
            grant = await frontend.claim(*self._decode(client, head, payload), payload)
        finally:
            if not counted:
                frontend.limiter.close(client, nbytes=len(payload))
        frontend.counters["reports"] += 1
        _count_seconds(frontend, time.monotonic() - began)
        answer, next_payload = await self._next_answer(client, context)
        return_seconds = answer.later.seconds if answer.HasField("later") else frontend.config.hold_seconds
        frontend.record_call(client, return_seconds or frontend.config.hold_seconds)
        receipt = pb.Receipt(status=grant.status, reason=grant.reason, seconds=grant.seconds, next=answer)  # type: ignore[arg-type]
        return encode_frame(receipt, next_payload)

    def _decode(self, client: int, head: pb.Report, payload: memoryview) -> tuple[inside.Claim, DecodedReport]:
        """What a report claims to be, and what is in it.

        Also of a task that is not on the list here: it may have been granted, lost with its transmitter, and be welcome again.
        """
        frontend, claim, report = self._frontend, self._claim(client, head), EMPTY_REPORT
        if head.kind == pb.TRAIN and not head.declined:
            codec = frontend.codecs[frontend.codec_of.get(client, 0)]
            report = decode_report(frontend.layout, codec, payload, head.weight, check=frontend.config.stream)
            claim.fault, claim.decoded_nbytes = printable(report.fault), report.nbytes
        return claim, report

    def _claim(self, client: int, head: pb.Report) -> inside.Claim:
        stats, stage_seconds = (
            clean_stats(head.stats, self._frontend.config.stats).kept,
            clean_stats(head.spent, STAGES).kept,
        )
        return inside.Claim(
            client=client, task=head.task, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c, weight=head.weight,
            names=[*stats, *stage_seconds], values=[*stats.values(), *stage_seconds.values()], stats=len(stats),
            declined=printable(head.declined), kind=head.kind, correct=head.correct, total=head.total, loss=head.loss,
        )  # fmt: skip

    async def upload_offset(self, data: bytes, context: Context) -> bytes:
        """How much of a broken upload is here."""
        del context
        head = parse_message(data, pb.HeldRequest)
        self.authenticate(head.caller)
        if not check_nonce(self._frontend.key, head.task, head.nonce):
            return pb.HeldReply(offset=0).SerializeToString()
        return pb.HeldReply(offset=self._partials.stored_bytes(head.task, head.crc32c, head.nbytes)).SerializeToString()

    async def leave(self, data: bytes, context: Context) -> bytes:
        """A device goes."""
        del context
        client = self.authenticate(parse_message(data, pb.LeaveRequest).caller)
        self._frontend.record_departure(client)
        return pb.LeaveReply().SerializeToString()

    async def status(self, data: bytes, context: Context) -> bytes:
        """What the processor says of itself."""
        request = parse_message(data, pb.StatusRequest)
        if not is_loopback(split_address(self._frontend.config.address)[0]) and not check_status_token(
            self._frontend.key, request.token
        ):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, "show the token of wire/status.token in the run's folder"
            )
        reply = await self._frontend.ask_server(lambda out, number: out.asking.append(inside.Asking(number=number)))
        return pb.StatusReply(json=reply.json).SerializeToString()


async def _with_timeout(requests: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
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
    return encode_frame(pb.Receipt(status=status, reason=reason, seconds=seconds))  # type: ignore[arg-type]


def _count_seconds(frontend: Frontend, seconds: float) -> None:
    frontend.seconds += seconds
    count_report(frontend.counters, seconds)
