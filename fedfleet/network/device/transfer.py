"""Bringing models down and reports up over a line that breaks: each goes on where it was, and is checked when it is whole."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fedfleet.core.errors import Refused
from fedfleet.network.device.server_calls import CALL_SECONDS, Line, OutOfReach, Patience
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK, SMALL, crc32c, framed

_LEAST_SECONDS = 5.0  # that a call is given, however near its end the lease is
_BUSY_PAUSE = 0.05


class TooLate(Exception):
    """The lease of a task ended before its model was here or its report there."""


def fetched(line: Line, caller: pb.Caller, blob: pb.Blob, wait: Patience, until: float) -> bytes:
    """A blob, resumed as often as the line breaks; `Refused` if what came is not what was announced."""
    for _ in range(2):  # damage on the way is possible once; twice, it is what the server has
        data = _whole(line, caller, blob, wait, until)
        if crc32c(data) == blob.crc32c:
            return data
    raise Refused("the model came damaged twice: its checksum is another")


def _whole(line: Line, caller: pb.Caller, blob: pb.Blob, wait: Patience, until: float) -> bytes:
    have = bytearray()
    for pause in wait.pauses():
        before = len(have)
        try:
            for chunk in line.fetch(pb.FetchRequest(caller=caller, name=blob.name, offset=len(have))):
                have += chunk
                if len(have) > blob.nbytes:
                    raise Refused(f"more came than the {blob.nbytes} bytes of the model")
            if len(have) == blob.nbytes:
                return bytes(have)
        except OutOfReach:
            pass
        if time.time() > until:
            raise TooLate(f"only {len(have)} of {blob.nbytes} bytes of the model came before the lease ended")
        wait.sleep(min(pause, _BUSY_PAUSE) if len(have) > before else pause)
    raise AssertionError("pauses never end")


def handed(
    line: Line, head: pb.Report, payload: bytes, wait: Patience, until: float
) -> tuple[pb.Receipt, memoryview] | None:
    """Hand a report in, again and again until there is a word on it; None if the lease ended first.

    SAFE, REFUSED and UNWANTED are such words. What was damaged on its way is sent again, and what is large goes on where the line
    broke.
    """
    broke = False
    for pause in wait.pauses():
        left = until - time.time()
        rest = 0.0
        try:
            receipt, more = _once(line, head, payload, max(left, _LEAST_SECONDS), resume=broke)
            if receipt.status not in (pb.Receipt.BUSY, pb.Receipt.RETRY):
                return receipt, more
            rest = receipt.seconds if receipt.status == pb.Receipt.BUSY else pause
        except OutOfReach:
            rest = pause
        broke = True
        if time.time() > until:
            return None
        # What the server says counts, but a server that says nothing is not asked in a circle.
        wait.sleep(max(rest, min(pause, _BUSY_PAUSE)))
    raise AssertionError("pauses never end")


def _once(
    line: Line, head: pb.Report, payload: bytes, seconds: float, *, resume: bool
) -> tuple[pb.Receipt, memoryview]:
    if len(payload) <= SMALL:
        return line.hand(framed(head, payload), min(seconds, CALL_SECONDS))
    offset = 0
    if resume:
        asked = pb.HeldRequest(
            caller=head.caller, task=head.task, nonce=head.nonce, nbytes=head.nbytes, crc32c=head.crc32c
        )
        offset = min(line.held(asked), len(payload))
    return line.hand_stream(_pieces(head, payload, offset), seconds)


def _pieces(head: pb.Report, payload: bytes, offset: int) -> Iterator[bytes]:
    first = pb.Report()
    first.CopyFrom(head)
    first.offset = offset
    yield framed(first)
    for a in range(offset, len(payload), CHUNK):
        yield payload[a : a + CHUNK]
