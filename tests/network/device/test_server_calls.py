"""Calls: patience grows and ends, and refusals mean what they mean."""

import time
from datetime import UTC, datetime

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.network.device.server_calls import (
    Connection,
    NotFound,
    RetryPolicy,
    TooLate,
    UnknownDevice,
    Unreachable,
    call_with_retries,
    deliver_report,
    fetch_blob,
)
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import CHUNK, INLINE_BYTES, crc32c, decode_frame
from tests.network.cutting import line as far
from tests.network.device.fake import Fake, swift

pytestmark = pytest.mark.slow

CHECK = pb.CheckIn(caller=pb.Caller(client=4, secret=b"s" * 32))


@pytest.fixture
def line(fake):
    one = Connection(fake.address)
    yield one
    one.close()


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, Unreachable, "UNAVAILABLE"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Unreachable, "RESOURCE"),
        (grpc.StatusCode.INTERNAL, Unreachable, "INTERNAL"),
        (grpc.StatusCode.FAILED_PRECONDITION, BadInput, r"refuses: bad\\n"),
        (grpc.StatusCode.PERMISSION_DENIED, BadInput, "refuses"),
        (grpc.StatusCode.UNAUTHENTICATED, UnknownDevice, "bad"),
        (grpc.StatusCode.NOT_FOUND, NotFound, "bad"),
        (grpc.StatusCode.UNIMPLEMENTED, BadInput, "another version"),
        (grpc.StatusCode.INVALID_ARGUMENT, RunFailed, "INVALID_ARGUMENT"),
    ],
)
def test_what_a_failed_call_means(fake, line, code, kind, said):
    fake.failures.append(("Check", code, "bad\nline" + "x" * 1000))
    with pytest.raises(kind, match=said) as result:
        line.check(CHECK)
    assert len(str(result.value)) < 500 and "\n" not in str(result.value)  # foreign text is shown, cut and on one line


def test_a_far_or_busy_server_is_given_the_time_to_answer_the_first_call(fake):
    with far(fake.address) as relay:
        relay.delay_seconds = 0.4  # several round trips make a connection: attempts that are cut short would never end
        line = Connection(relay.address)
        try:
            assert line.check(CHECK)[0].WhichOneof("what") == "over"
        finally:
            line.close()
        assert relay.taken == 1


def test_bytes_are_counted_both_ways(fake, line):
    line.check(CHECK)
    assert line.bytes_up == len(CHECK.SerializeToString()) and line.bytes_down > 4


def test_pauses_double_up_to_a_limit_and_are_never_longer_or_shorter_than_half():
    for chance in (0.0, 0.37, 1.0):
        result = [p for p, _ in zip(RetryPolicy(chance=lambda c=chance: c).pauses(0.1, 3.0), range(9), strict=False)]
        whole = [min(0.1 * 2**i, 3.0) for i in range(9)]
        assert result == pytest.approx([w * (1 - chance / 2) for w in whole])


def test_two_devices_do_not_come_back_together():
    one, two = (RetryPolicy().pauses() for _ in range(2))
    assert next(one) != next(two)


def test_patience_ends_with_one_sentence_and_says_once_what_it_waits_for(line):
    now, remarks, tried = [0.0], [], []

    def sleep(seconds):
        now[0] += seconds

    def call():
        tried.append(now[0])
        raise Unreachable("gone fishing")

    wait = RetryPolicy(sleep, lambda: now[0], lambda: 0.0)
    with pytest.raises(BadInput, match=r"no server answers at .*gone fishing.*fedfleet serve"):
        call_with_retries(call, line, wait, 20.0, remarks.append)
    assert len(remarks) == 1 and "trying for 20 s" in remarks[0]
    assert 5 < len(tried) < 12 and 10 < now[0] <= 20


def test_an_address_that_is_none_is_refused():
    with pytest.raises(BadInput, match="HOST:PORT"):
        Connection("nowhere")


def test_a_device_and_a_server_that_do_not_agree_on_tls_are_told_so(tmp_path):
    from fedfleet.network.security.certificates import CertificateRequest, make_certificates
    from fedfleet.network.security.tls import ClientFiles, ServerFiles, client_credentials, server_credentials

    now = datetime.now(UTC)
    made, other = (make_certificates(tmp_path / name, CertificateRequest(), now) for name in ("one", "two"))
    fake = Fake(credentials=server_credentials(ServerFiles(made.certificate, made.key)))
    try:
        good = Connection(fake.address, client_credentials(ClientFiles(made.ca)))
        assert good.check(CHECK)[0].over.reason == "that was all"
        good.close()
        stranger = Connection(fake.address, client_credentials(ClientFiles(other.ca)))
        with pytest.raises(BadInput, match="cannot agree on TLS"):
            stranger.check(CHECK)
        stranger.close()
        plain = Connection(fake.address)
        with pytest.raises(Unreachable):
            plain.check(CHECK)
        plain.close()
    finally:
        fake.stop()
    open_server = Fake()
    try:
        private = Connection(open_server.address, client_credentials(ClientFiles(made.ca)))
        with pytest.raises(BadInput, match="cannot agree on TLS"):
            private.check(CHECK)
        private.close()
    finally:
        open_server.stop()


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
    with pytest.raises(Refused, match="more bytes arrived than the 5 bytes"):
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
