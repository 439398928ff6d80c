"""What devices call, apart from the way in which they call it: bytes in, bytes out, or a typed refusal.

`grpc_door` is one door before this service; another transport needs one of its own, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fedfleet.core.errors import Refused, printable
from fedfleet.network.frontend.device_profiles import PROFILES, DeviceProfiles
from fedfleet.network.frontend.frontend import Frontend
from fedfleet.network.frontend.payloads import ChunkCache, PartialUploads
from fedfleet.network.frontend.refusals import (
    CallRefused,
    Malformed,
    NotFound,
    NotPermitted,
    RateLimited,
    TooSlow,
    Unauthenticated,
)
from fedfleet.network.frontend.work_queue import hold_call
from fedfleet.network.operations.metrics import count_call, count_report
from fedfleet.network.operations.process_memory import return_freed_memory
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.frames import (
    CHUNK,
    MAX_HEAD_BYTES,
    crc32c,
    decode_frame,
    encode_frame,
    encode_message,
    extend_crc32c,
    is_eval_task,
    parse_message,
    with_checksum,
)
from fedfleet.network.security.secrets import check_nonce, check_secret, check_status_token

_IDLE_SECONDS = 30.0  # between two chunks of a stream
_MAX_CHUNK_BYTES = 64 << 20  # bytes of a model whose chunks are kept ready
_SHARD_COST, _SPEED_COST = 20.0, 15.0  # as many calls as they count
_MIN_UPLOAD_RATE = 4096  # bytes a second of an upload; what came is kept, and can be resumed


class Call(Protocol):
    """What the service needs to know of a call, whichever door it came through."""

    def peer(self) -> str:
        """Where it comes from, with the port after the last colon."""
        ...

    def add_done_callback(self, callback: Any, /) -> None:
        """Call this when the call has ended, however it did."""
        ...


class ModelsApart:
    """A call whose answer has no room for a model: its device fetches each by its name."""


class FleetService:
    """The methods that devices call: bytes in, bytes out or `CallRefused`.

    It knows no transport. Doors call `answer`, `receive_stream` and `fetch`, which count how each call ended.
    """

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        partials, in_flight_bytes = Path(frontend.config.shared) / "partials", frontend.config.in_flight_bytes
        self._partials = PartialUploads(partials, in_flight_bytes // 4, in_flight_bytes, frontend.cipher)
        self._chunks = ChunkCache(_MAX_CHUNK_BYTES)
        self._profiles = DeviceProfiles(Path(frontend.config.folder).parent.parent / PROFILES)
        self.methods: dict[str, Callable[[bytes, Call], Awaitable[bytes]]] = {
            "Enrol": self.enrol, "Check": self.check, "Hand": self.hand, "Held": self.upload_offset, "Leave": self.leave,
            "Status": self.status,
        }  # fmt: skip

    # ---- what doors call ---------------------------------------------------------------------------------------------

    async def answer(self, method: str, data: bytes, call: Call) -> bytes:
        """Carry out one of `methods`."""
        with self.counted(method):
            return await self.methods[method](data, call)

    async def receive_stream(self, requests: AsyncIterator[bytes], call: Call) -> bytes:
        """`HandStream`: a report in chunks."""
        with self.counted("HandStream"):
            return await self.hand_stream(requests, call)

    async def fetch(self, data: bytes, call: Call) -> AsyncIterator[bytes]:
        """`Fetch`: a blob from an offset on, chunk by chunk from shared memory."""
        del call
        with self.counted("Fetch"):
            head = parse_message(data, pb.FetchRequest)
            self.authenticate(head.caller)
            blob = self.frontend.state.blobs.get(head.name)
            if blob is None:
                raise NotFound("this model is no longer here; check in for newer work")
            for a in range(min(head.offset, blob[0].nbytes), blob[0].nbytes, CHUNK):
                chunk = self._chunks.chunk_at(head.name, blob[1], a)
                self.frontend.counters["bytes_down"] += len(chunk)
                yield chunk

    @contextmanager
    def counted(self, method: str) -> Iterator[None]:
        """Count a call by how it ends; what is malformed or too slow is refused."""
        counters, code = self.frontend.counters, "UNKNOWN"
        try:
            yield
            code = "OK"
        except (CallRefused, Refused, TimeoutError) as error:
            refusal = _refusal(error)
            code = refusal.code
            if refusal.counter:
                counters[refusal.counter] += 1
            raise refusal from error
        except (asyncio.CancelledError, GeneratorExit):  # the device hung up
            code = "CANCELLED"
            raise
        finally:
            count_call(counters, method, code)

    def on_quiet(self) -> None:
        """No payload has been on its way for a while: give back the memory that the next would use again."""
        self._partials.buffers.clear()
        return_freed_memory()

    # ---- who calls ---------------------------------------------------------------------------------------------------

    def authenticate(self, caller: pb.Caller) -> int:
        """The client that calls; `Unauthenticated` unless its secret is the one that holds now."""
        frontend = self.frontend
        if caller.client >= frontend.config.clients:
            raise Unauthenticated(_unknown_client(caller.client))
        generation = int(frontend.state.generations[caller.client])
        if not check_secret(frontend.key, caller.client, generation, caller.secret):
            raise Unauthenticated(_unknown_client(caller.client))
        self._admit(caller.client)
        return caller.client

    def _admit(self, peer: int | str, cost: float = 1.0) -> None:
        """Count a call; `RateLimited` if a peer calls too often, or sent too much that no honest device sends."""
        refusal = self.frontend.limiter.admit_call(peer, time.monotonic(), cost)
        if refusal is not None:
            error = RateLimited(f"{refusal.reason}; try again in {refusal.seconds:.1f} s")
            error.seconds = refusal.seconds
            raise error

    # ---- the methods -------------------------------------------------------------------------------------------------

    async def enrol(self, data: bytes, call: Call) -> bytes:
        """The server decides which devices become clients."""
        request, peer = bytes(data), call.peer()
        # Without its port: all strangers of one address share what strangers may ask.
        self._admit(peer.rpartition(":")[0])
        parse_message(data, pb.EnrolRequest)
        answer = await self.frontend.uplink.ask_server(
            lambda out, number: out.enrolling.append(inside.Enrolling(number=number, request=request, peer=printable(peer, 64)))
        )
        if answer.refused:
            raise CallRefused(answer.refused)
        return with_checksum(answer.reply)

    async def check(self, data: bytes, call: Call) -> bytes:
        """Hand out work, or hold the call for a while if there is none."""
        frontend, state = self.frontend, self.frontend.state
        head = parse_message(data, pb.CheckIn)
        client = self.authenticate(head.caller)
        state.invitations.remove(client)
        item = state.work_queue.next_item(client)
        is_working = item is not None and head.HasField("busy") and head.busy == item.task
        if is_working and not head.hold and not state.end_reason:  # it shows that it lives, and wants nothing
            frontend.uplink.record_call(client, frontend.config.hold_seconds)
            return encode_frame(pb.Answer(later=pb.Later(seconds=frontend.config.hold_seconds)))
        held_seconds = 0.0
        may_wait = len(state.waiters) < frontend.config.hold and not state.draining and not state.end_reason
        if head.hold and (item is None or is_working) and may_wait:
            frontend.uplink.record_call(client, 0.0)
            began, generation = time.monotonic(), state.generations[client]
            await hold_call(state.waiters, client, frontend.config.hold_seconds, frontend.uplink.record_departure)
            if state.generations[client] != generation:
                raise Unauthenticated(f"client {client} was revoked while it waited; enrol it with a token")
            held_seconds = time.monotonic() - began
        answer, payload = await self._next_answer(client, call, held_seconds)
        return_seconds = answer.later.seconds if answer.HasField("later") else frontend.config.hold_seconds
        frontend.uplink.record_call(client, return_seconds)
        return encode_frame(answer, payload)

    async def _next_answer(self, client: int, call: Call, held_seconds: float = 0.0) -> tuple[pb.Answer, memoryview | bytes]:
        """What a device has to do next, when there is room for the model that goes along."""
        if isinstance(call, ModelsApart):
            return self.frontend.next_work(client, held_seconds, most_inline=0)
        nbytes = self.frontend.inline_bytes(client)
        if nbytes:
            await self.frontend.downloads.acquire(nbytes, call)
        return self.frontend.next_work(client, held_seconds)

    async def hand(self, data: bytes, call: Call) -> bytes:
        """A report in one message."""
        head, payload = decode_frame(data, pb.Report)
        client = self.authenticate(head.caller)
        return await self._receive_report(client, head, payload, crc32c(payload), call)

    async def hand_stream(self, requests: AsyncIterator[bytes], call: Call) -> bytes:
        """A report in chunks; what came of it before the line broke is kept, so that it can be resumed."""
        frontend = self.frontend
        head, rest = decode_frame(await asyncio.wait_for(anext(requests, b""), _IDLE_SECONDS), pb.Report)
        client = self.authenticate(head.caller)
        if head.nbytes > frontend.config.largest:
            frontend.strike(client, f"a report of {head.nbytes} bytes, and {frontend.config.largest} is the most")
            return _receipt(pb.Receipt.REFUSED, f"{head.nbytes} bytes are more than any report has ({frontend.config.largest})")
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
        # Summed chunk by chunk: each is still in the processor's cache.
        checksum = crc32c(memoryview(buffer)[:received])
        try:
            async for chunk in _with_timeout(requests, _IDLE_SECONDS + (head.nbytes - received) / _MIN_UPLOAD_RATE):
                if len(chunk) > head.nbytes - received or len(chunk) > CHUNK + MAX_HEAD_BYTES:
                    frontend.strike(client, "a stream that brings more than it announced")
                    return _receipt(pb.Receipt.RETRY, f"more bytes arrived than the {head.nbytes} that it announced")
                buffer[received : received + len(chunk)] = chunk
                checksum = extend_crc32c(checksum, chunk)
                received += len(chunk)
            if received < head.nbytes:
                self._partials.keep(head, memoryview(buffer)[:received])
                return _receipt(pb.Receipt.RETRY, f"only {received} of {head.nbytes} bytes came")
            self._partials.forget(head)
            return await self._receive_report(client, head, memoryview(buffer), checksum, call, counted=True)
        except BaseException:  # the line broke, in whichever way this door says so
            if received < head.nbytes:
                self._partials.keep(head, memoryview(buffer)[:received])
            raise
        finally:
            self._partials.buffers.release(buffer)
            frontend.limiter.close(client, streams=1, nbytes=head.nbytes)

    async def _receive_report(
        self, client: int, head: pb.Report, payload: memoryview, checksum: int, call: Call, *, counted: bool = False
    ) -> bytes:
        frontend, began = self.frontend, time.monotonic()
        frontend.counters["bytes_up"] += len(payload)
        if not check_nonce(frontend.key, head.task, head.nonce):
            frontend.strike(client, f"a report of task {head.task} with a wrong nonce")
            return _receipt(pb.Receipt.REFUSED, "it shows no nonce of its task")
        if len(payload) != head.nbytes or checksum != head.crc32c:
            frontend.strike(client, f"a report of task {head.task} that was damaged on its way")
            return _receipt(pb.Receipt.RETRY, "it was damaged on its way: its length or checksum is wrong")
        if (head.kind == pb.TRAIN) is is_eval_task(head.task):
            frontend.strike(client, f"a report of task {head.task} of another kind than the task")
            return _receipt(pb.Receipt.RETRY, "it is of another kind than its task")
        refusal = None if counted else frontend.limiter.open(client, time.monotonic(), nbytes=len(payload))
        if refusal is not None:
            frontend.counters["busy"] += 1
            return _receipt(pb.Receipt.BUSY, refusal.reason, seconds=refusal.seconds)
        try:
            claim, report = frontend.decoder.decode(client, head, payload)
            grant = await frontend.uplink.claim(claim, report, payload)
        finally:
            if not counted:
                frontend.limiter.close(client, nbytes=len(payload))
        frontend.counters["reports"] += 1
        seconds = time.monotonic() - began
        frontend.receive_seconds += seconds
        count_report(frontend.counters, seconds)
        answer, next_payload = await self._next_answer(client, call)
        return_seconds = answer.later.seconds if answer.HasField("later") else frontend.config.hold_seconds
        frontend.uplink.record_call(client, return_seconds or frontend.config.hold_seconds)
        receipt = pb.Receipt(status=grant.status, reason=grant.reason, seconds=grant.seconds, next=answer)  # type: ignore[arg-type]
        return encode_frame(receipt, next_payload)

    async def upload_offset(self, data: bytes, call: Call) -> bytes:
        """How much of a broken upload is here."""
        del call
        head = parse_message(data, pb.HeldRequest)
        self.authenticate(head.caller)
        if not check_nonce(self.frontend.key, head.task, head.nonce):
            return encode_message(pb.HeldReply(offset=0))
        return encode_message(pb.HeldReply(offset=self._partials.stored_bytes(head.task, head.crc32c, head.nbytes)))

    async def leave(self, data: bytes, call: Call) -> bytes:
        """A device goes."""
        del call
        client = self.authenticate(parse_message(data, pb.LeaveRequest).caller)
        self.frontend.uplink.record_departure(client)
        return encode_message(pb.LeaveReply())

    async def shard(self, caller: pb.Caller) -> bytes:
        """The samples of a rehearsal that the run deals to this client, in safetensors form."""
        with self.counted("Shard"):
            client = self.authenticate(caller)
            self._admit(client, cost=_SHARD_COST)
            reply = await self.frontend.uplink.ask_server(
                lambda out, number: out.asking.append(inside.Asking(number=number, shard_of=client))
            )
            if not reply.shard:
                raise NotFound("this client brings samples of its own, or the run deals none")
            return reply.shard

    def record_profile(self, caller: pb.Caller, data: bytes) -> None:
        """A device says how fast it is: for fleets that are made of real devices."""
        with self.counted("Profile"):
            self._profiles.append(self.authenticate(caller), data)

    def measure_link(self, caller: pb.Caller) -> None:
        """A device measures its line; that costs as much as many calls."""
        with self.counted("Speed"):
            self._admit(self.authenticate(caller), cost=_SPEED_COST)

    async def status(self, data: bytes, call: Call) -> bytes:
        """How the server stands: for its operator; others hear what a load balancer needs, whether it takes devices."""
        request, frontend = parse_message(data, pb.StatusRequest), self.frontend
        self._admit(f"status {call.peer().rpartition(':')[0]}")
        if request.token and not check_status_token(frontend.key, request.token):
            raise NotPermitted("this is not the token in wire/status.token of the run's folder")
        if not request.token and "client_ca" not in frontend.config.tls:  # with it, the caller has shown a certificate
            serving = not (frontend.state.draining or frontend.state.end_reason)
            return encode_message(pb.StatusReply(json=json.dumps({"serving": serving})))
        reply = await frontend.uplink.ask_server(lambda out, number: out.asking.append(inside.Asking(number=number)))
        return encode_message(pb.StatusReply(json=reply.json))


def _refusal(error: CallRefused | Refused | TimeoutError) -> CallRefused:
    """How a call is refused that ended so."""
    if isinstance(error, CallRefused):
        return error
    if isinstance(error, TimeoutError):
        return TooSlow(
            f"the report came too slowly: {_IDLE_SECONDS:g} s passed without a chunk, or all of it takes longer than at "
            f"{_MIN_UPLOAD_RATE} bytes a second; send it again, from the offset that Held answers"
        )
    return Malformed(printable(f"this is not a message of FedFleet: {error}"))


def _unknown_client(client: int) -> str:
    """The same for every number and secret: a stranger does not learn how large the fleet is."""
    return f"client {client} does not show a valid secret of this run; enrol it with a token"


async def _with_timeout(requests: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The chunks of a stream; `TimeoutError` if one is late, or all take longer: an upload that holds memory must go on."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    async with asyncio.timeout(_IDLE_SECONDS) as limit:  # one timer for all chunks, which is moved on
        async for chunk in requests:
            yield chunk
            limit.reschedule(min(loop.time() + _IDLE_SECONDS, until))


def _receipt(status: int, reason: str, seconds: float = 0.0) -> bytes:
    return encode_frame(pb.Receipt(status=status, reason=reason, seconds=seconds))  # type: ignore[arg-type]
