"""Models down and reports up over a line that breaks: each goes on where it was, and is checked when it is whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from fedfleet.core.errors import Refused
from fedfleet.network.device.call_errors import Damaged
from fedfleet.network.device.retries import FAILURES, RetryPolicy, Tries, bounded_seconds, call_with_retries
from fedfleet.network.device.server_line import ServerLine
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK, INLINE_BYTES, crc32c, encode_frame

_MIN_SECONDS = 5.0  # that a call is given, however near its end the lease is
_BUSY_PAUSE = 0.05
_MAX_REST = 60.0  # that a busy server may ask for
_MIN_RATE = 4096  # bytes a second of a line that is worth waiting for; a slower one is hung up, and goes on where it was
_MAX_DAMAGES = 8  # copies of a model that arrive whole and damaged: then it is not the line, but what the server has


class TooLate(Exception):
    """The lease of a task ended before its model was here or its report there."""


def fetch_blob(
    connection: ServerLine,
    caller: pb.Caller,
    blob: pb.Blob,
    wait: RetryPolicy,
    until: float,
    remark: Callable[[str], None] | None = None,
) -> bytes:
    """A blob, resumed as often as the line breaks; `Refused` if what comes is never what was announced."""
    data, damages = bytearray(), 0
    tries = Tries(connection, wait, until - time.time(), remark)
    for pause in wait.pauses():
        before = len(data)
        try:
            request = pb.FetchRequest(caller=caller, name=blob.name, offset=before)
            for chunk in connection.fetch(request, _call_seconds(connection, until, blob.nbytes - before)):
                data += chunk
                if len(data) > blob.nbytes:
                    break
            if len(data) >= blob.nbytes:
                if len(data) == blob.nbytes and crc32c(data) == blob.crc32c:
                    tries.succeed()
                    return bytes(data)
                damages += 1
                if damages == _MAX_DAMAGES:
                    raise Refused(f"the model arrived damaged {damages} times: its length or checksum is wrong")
                before, data = 0, bytearray()
                raise Damaged("the model arrived damaged")
        except FAILURES as error:
            tries.fail(error)
        if time.time() > until:
            raise TooLate(f"only {len(data)} of {blob.nbytes} bytes of the model arrived before the lease ended")
        wait.sleep(min(pause, _BUSY_PAUSE) if len(data) > before else pause)
    raise AssertionError("pauses never end")


def fetch_shard(
    connection: ServerLine,
    caller: pb.Caller,
    most: int,
    wait: RetryPolicy,
    until: float,
    remark: Callable[[str], None] | None = None,
) -> bytes:
    """The samples that a rehearsal deals to this client, of `most` bytes at most; tried again until the lease ends."""
    return call_with_retries(lambda: connection.shard(caller, most), connection, wait, until - time.time(), remark)


def deliver_report(
    connection: ServerLine,
    head: pb.Report,
    payload: bytes,
    wait: RetryPolicy,
    until: float,
    remark: Callable[[str], None] | None = None,
) -> tuple[pb.Receipt, memoryview] | None:
    """Hand a report in, again and again until there is a word on it; None if the lease ended first.

    SAFE, REFUSED and UNWANTED are such words. What was damaged on its way is sent again, and what is large goes on where the line
    broke.
    """
    line_broke = False
    tries = Tries(connection, wait, until - time.time(), remark)
    for pause in wait.pauses():
        rest = 0.0
        try:
            seconds = _call_seconds(connection, until, len(payload))
            receipt, model = _send_once(connection, head, payload, seconds, resume=line_broke)
            tries.succeed()
            if receipt.status not in (pb.Receipt.BUSY, pb.Receipt.RETRY):
                return receipt, model
            rest = bounded_seconds(receipt.seconds, most=_MAX_REST) if receipt.status == pb.Receipt.BUSY else pause
        except FAILURES as error:
            tries.fail(error)
            rest = pause
        line_broke = True
        if time.time() > until:
            return None
        # What the server says counts, but a server that says nothing is not asked in a circle.
        wait.sleep(max(rest, min(pause, _BUSY_PAUSE)))
    raise AssertionError("pauses never end")


def _call_seconds(connection: ServerLine, until: float, nbytes: int) -> float:
    """How long a call may take that moves so many bytes: a line that hangs must not cost the whole lease."""
    return max(min(until - time.time(), connection.call_seconds + nbytes / _MIN_RATE), _MIN_SECONDS)


def _send_once(
    connection: ServerLine, head: pb.Report, payload: bytes, seconds: float, *, resume: bool
) -> tuple[pb.Receipt, memoryview]:
    if len(payload) <= INLINE_BYTES:
        return connection.send_report(encode_frame(head, payload), seconds)
    offset = 0
    if resume:
        request = pb.HeldRequest(caller=head.caller, task=head.task, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c)
        offset = min(connection.upload_offset(request), len(payload))
    first = pb.Report()
    first.CopyFrom(head)
    first.offset = offset
    frame = encode_frame(first)
    return connection.stream_report(_pieces(frame, payload, offset), len(frame) + len(payload) - offset, seconds)


def _pieces(frame: bytes, payload: bytes, offset: int) -> Iterator[bytes]:
    yield frame
    for a in range(offset, len(payload), CHUNK):
        yield payload[a : a + CHUNK]
