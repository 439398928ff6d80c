"""Models come down and reports go up whole, however often the line breaks."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import Refused
from fedfleet.network.device.server_calls import Unreachable
from fedfleet.network.device.transfer import TooLate, deliver_report, fetch_blob
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK, INLINE_BYTES, crc32c, decode_frame
from tests.network.device.fake import swift

WHO = pb.Caller(client=4, secret=b"s" * 32)
SIZE = 3 * CHUNK + 12_345
DATA = bytes(range(256)) * (SIZE // 256 + 1)


class Breaking:
    """A line of which each call breaks after so many bytes; when the list is used up it holds."""

    def __init__(self, breaks, payload=DATA[:SIZE]):
        self.breaks, self.payload, self.there, self.calls = list(breaks), payload, b"", 0

    def room(self):
        self.calls += 1
        return self.breaks.pop(0) if self.breaks else 1 << 40

    def fetch(self, request):
        room, at = self.room(), request.offset
        while at < len(self.payload):
            chunk = self.payload[at : at + CHUNK]
            if room < len(chunk):
                raise Unreachable("broken")
            room -= len(chunk)
            at += len(chunk)
            yield chunk

    def upload_offset(self, request):
        return len(self.there)

    def stream_report(self, pieces, seconds):
        room, pieces = self.room(), iter(pieces)
        head, rest = decode_frame(next(pieces), pb.Report)
        if head.offset != len(self.there) or len(rest):
            return pb.Receipt(status=pb.Receipt.BUSY), memoryview(b"")
        for piece in pieces:
            assert len(piece) <= CHUNK
            if room < len(piece):
                raise Unreachable("broken")
            room -= len(piece)
            self.there += piece
        return pb.Receipt(status=pb.Receipt.SAFE), memoryview(b"")


breaks = st.lists(st.integers(0, SIZE), max_size=5)


@settings(max_examples=12, deadline=None)
@given(breaks)
def test_a_model_is_whole_whatever_broke(cuts):
    line = Breaking(cuts)
    blob = pb.Blob(name="a", nbytes=SIZE, crc32c=crc32c(line.payload))
    assert fetch_blob(line, WHO, blob, swift(), time.time() + 30) == line.payload


@settings(max_examples=12, deadline=None)
@given(breaks)
def test_a_report_is_there_once_and_whole_whatever_broke(cuts):
    line = Breaking(cuts)
    head = pb.Report(caller=WHO, task=1, nbytes=SIZE, crc32c=crc32c(line.payload))
    result = deliver_report(line, head, line.payload, swift(), time.time() + 30)
    assert result is not None and result[0].status == pb.Receipt.SAFE
    assert line.there == line.payload
    assert head.offset == 0  # what is kept for the next life begins at the beginning


def test_bytes_beyond_what_was_announced_are_refused():
    line = Breaking([])
    with pytest.raises(Refused, match="more came than the 5 bytes"):
        fetch_blob(line, WHO, pb.Blob(name="a", nbytes=5), swift(), time.time() + 30)


def test_both_end_with_the_lease():
    late = time.time() - 1
    with pytest.raises(TooLate, match=f"only 0 of {SIZE} bytes"):
        fetch_blob(Breaking([0] * 9), WHO, pb.Blob(name="a", nbytes=SIZE), swift(), late)
    line = Breaking([0] * 9)
    assert deliver_report(line, pb.Report(caller=WHO, nbytes=SIZE), line.payload, swift(), late) is None
    assert line.calls == 1  # tried once all the same: the server knows best what is too late


def test_small_reports_go_in_one_message():
    sent = []

    class One:
        def send_report(self, data, seconds):
            sent.append((len(data), seconds))
            return pb.Receipt(), memoryview(b"")

    assert deliver_report(One(), pb.Report(), b"x" * INLINE_BYTES, swift(), time.time() + 7) is not None
    ((size, seconds),) = sent
    assert size > INLINE_BYTES and 5 <= seconds <= 7
