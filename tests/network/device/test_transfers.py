"""Transfers: whole and once, whatever broke; each ends with the lease."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput, Refused
from fedfleet.network.device.call_errors import Unreachable
from fedfleet.network.device.transfers import TooLate, deliver_report, fetch_blob, fetch_shard
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK, INLINE_BYTES, crc32c, decode_frame
from tests.network.device.fake import swift

WHO = pb.Caller(client=4, secret=b"s" * 32)
SIZE = 3 * CHUNK + 12_345
DATA = bytes(range(256)) * (SIZE // 256 + 1)


class Breaking:
    """A line of which each call breaks after so many bytes; when the list is used up it holds."""

    server, uses_tls, worked, call_seconds = "nowhere:1", False, True, 120.0

    def __init__(self, breaks, payload=DATA[:SIZE]):
        self.renewed = 0
        self.breaks, self.payload, self.there, self.calls = list(breaks), payload, b"", 0

    def room(self):
        self.calls += 1
        return self.breaks.pop(0) if self.breaks else 1 << 40

    def renew(self):
        self.renewed += 1

    def fetch(self, request, seconds):
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

    def stream_report(self, pieces, nbytes, seconds):
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


@pytest.mark.parametrize("nbytes", [5, SIZE])
def test_a_model_that_is_never_what_was_announced_is_refused_and_each_copy_takes_a_new_line(nbytes):
    line = Breaking([])
    with pytest.raises(Refused, match="the model arrived damaged 8 times"):
        fetch_blob(line, WHO, pb.Blob(name="a", nbytes=nbytes, crc32c=1), swift(), time.time() + 30)
    assert (line.calls, line.renewed) == (8, 7)


def test_a_model_that_was_damaged_on_its_way_is_fetched_again():
    class Flipping(Breaking):
        def fetch(self, request, seconds):
            for n, chunk in enumerate(super().fetch(request, seconds)):
                yield bytes([chunk[0] ^ 1]) + chunk[1:] if self.calls < 4 and n == 1 else chunk

    line = Flipping([])
    blob = pb.Blob(name="a", nbytes=SIZE, crc32c=crc32c(line.payload))
    assert fetch_blob(line, WHO, blob, swift(), time.time() + 30) == line.payload
    assert line.calls == 4


def test_a_line_that_hangs_does_not_cost_the_whole_lease():
    class Hanging(Breaking):
        def fetch(self, request, seconds):
            given.append(seconds)
            return super().fetch(request, seconds)

    given, line = [], Hanging([])
    blob = pb.Blob(name="a", nbytes=SIZE, crc32c=crc32c(line.payload))
    for lease in (1e6, 300.0, 1.0):
        fetch_blob(line, WHO, blob, swift(), time.time() + lease)
    assert given == pytest.approx([120.0 + SIZE / 4096, 300.0, 5.0], abs=0.5)


def test_both_end_with_the_lease():
    late = time.time() - 1
    with pytest.raises(TooLate, match=f"only 0 of {SIZE} bytes"):
        fetch_blob(Breaking([0] * 9), WHO, pb.Blob(name="a", nbytes=SIZE), swift(), late)
    line = Breaking([0] * 9)
    assert deliver_report(line, pb.Report(caller=WHO, nbytes=SIZE), line.payload, swift(), late) is None
    assert line.calls == 1  # tried once all the same: the server knows best what is too late


def test_samples_are_asked_for_until_they_come_or_the_lease_ends():
    class Dealing(Breaking):
        def shard(self, caller, most):
            assert (caller, most) == (WHO, 1 << 20)
            if self.room() == 0:
                raise Unreachable("broken")
            return b"samples"

    line = Dealing([0, 0, 1])
    assert fetch_shard(line, WHO, 1 << 20, swift(), time.time() + 30) == b"samples"
    assert line.calls == 3
    line = Dealing([0, 0, 1])
    with pytest.raises(BadInput, match="broken"):
        fetch_shard(line, WHO, 1 << 20, swift(), time.time() - 1)
    assert line.calls == 1


def test_small_reports_go_in_one_message():
    sent = []

    class One:
        server, uses_tls, worked, call_seconds = "nowhere:1", False, True, 120.0

        def send_report(self, data, seconds):
            sent.append((len(data), seconds))
            return pb.Receipt(), memoryview(b"")

    assert deliver_report(One(), pb.Report(), b"x" * INLINE_BYTES, swift(), time.time() + 7) is not None
    ((size, seconds),) = sent
    assert size > INLINE_BYTES and 5 <= seconds <= 7
