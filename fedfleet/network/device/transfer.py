"""Bringing models down and reports up over a line that breaks: each goes on where it was, and is checked when it is whole."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fedfleet.core.errors import Refused
from fedfleet.network.device.server_calls import CALL_SECONDS, Connection, RetryPolicy, Unreachable
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK, INLINE_BYTES, crc32c, encode_frame

_MIN_SECONDS = 5.0  # that a call is given, however near its end the lease is
_BUSY_PAUSE = 0.05


class TooLate(Exception):
    """The lease of a task ended before its model was here or its report there."""


def fetch_blob(connection: Connection, caller: pb.Caller, blob: pb.Blob, wait: RetryPolicy, until: float) -> bytes:
    """A blob, resumed as often as the line breaks; `Refused` if what came is not what was announced."""
    for _ in range(2):  # damage on the way is possible once; twice, it is what the server has
        data = _fetch_once(connection, caller, blob, wait, until)
        if crc32c(data) == blob.crc32c:
            return data
    raise Refused("the model came damaged twice: its checksum is another")


def _fetch_once(connection: Connection, caller: pb.Caller, blob: pb.Blob, wait: RetryPolicy, until: float) -> bytes:
    data = bytearray()
    for pause in wait.pauses():
        before = len(data)
        try:
            for chunk in connection.fetch(pb.FetchRequest(caller=caller, name=blob.name, offset=len(data))):
                data += chunk
                if len(data) > blob.nbytes:
                    raise Refused(f"more came than the {blob.nbytes} bytes of the model")
            if len(data) == blob.nbytes:
                return bytes(data)
        except Unreachable:
            pass
        if time.time() > until:
            raise TooLate(f"only {len(data)} of {blob.nbytes} bytes of the model came before the lease ended")
        wait.sleep(min(pause, _BUSY_PAUSE) if len(data) > before else pause)
    raise AssertionError("pauses never end")


def deliver_report(
    connection: Connection, head: pb.Report, payload: bytes, wait: RetryPolicy, until: float
) -> tuple[pb.Receipt, memoryview] | None:
    """Hand a report in, again and again until there is a word on it; None if the lease ended first.

    SAFE, REFUSED and UNWANTED are such words. What was damaged on its way is sent again, and what is large goes on where the line
    broke.
    """
    line_broke = False
    for pause in wait.pauses():
        seconds_left = until - time.time()
        rest = 0.0
        try:
            receipt, model = _send_once(connection, head, payload, max(seconds_left, _MIN_SECONDS), resume=line_broke)
            if receipt.status not in (pb.Receipt.BUSY, pb.Receipt.RETRY):
                return receipt, model
            rest = receipt.seconds if receipt.status == pb.Receipt.BUSY else pause
        except Unreachable:
            rest = pause
        line_broke = True
        if time.time() > until:
            return None
        # What the server says counts, but a server that says nothing is not asked in a circle.
        wait.sleep(max(rest, min(pause, _BUSY_PAUSE)))
    raise AssertionError("pauses never end")


def _send_once(
    connection: Connection, head: pb.Report, payload: bytes, seconds: float, *, resume: bool
) -> tuple[pb.Receipt, memoryview]:
    if len(payload) <= INLINE_BYTES:
        return connection.send_report(encode_frame(head, payload), min(seconds, CALL_SECONDS))
    offset = 0
    if resume:
        request = pb.HeldRequest(caller=head.caller, task=head.task, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c)
        offset = min(connection.upload_offset(request), len(payload))
    return connection.stream_report(_pieces(head, payload, offset), seconds)


def _pieces(head: pb.Report, payload: bytes, offset: int) -> Iterator[bytes]:
    first = pb.Report()
    first.CopyFrom(head)
    first.offset = offset
    yield encode_frame(first)
    for a in range(offset, len(payload), CHUNK):
        yield payload[a : a + CHUNK]
