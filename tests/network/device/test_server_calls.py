"""Calls: refusals mean what they mean, and whatever cannot be read is damage, never an error of Python."""

from datetime import UTC, datetime

import grpc
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.device.call_errors import CallRefused, Damaged, NotFound, NoTls, Unreachable, WrongCertificate
from fedfleet.network.device.retries import call_with_retries
from fedfleet.network.device.server_calls import Connection
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol.frames import encode_frame, encode_message
from tests.network.cutting import line as far
from tests.network.device.fake import Fake, swift

pytestmark = pytest.mark.slow

CHECK = pb.CheckIn(caller=pb.Caller(client=4, secret=b"s" * 32))


@pytest.fixture
def line(fake):
    one = Connection(fake.address)
    yield one
    one.close()


def test_a_failed_call_has_its_meaning_and_the_server_s_words_are_shown_cut(fake, line):
    fake.failures.append(("Check", grpc.StatusCode.FAILED_PRECONDITION, "bad\nline" + "x" * 1000))
    with pytest.raises(CallRefused, match=r"refuses: bad\\n") as result:
        line.check(CHECK)
    assert len(str(result.value)) < 500 and "\n" not in str(result.value)


def test_only_a_model_can_be_missing(fake, line):
    fake.failures.append(("Check", grpc.StatusCode.NOT_FOUND, "no such thing"))
    with pytest.raises(Damaged, match="NOT_FOUND"):
        line.check(CHECK)
    with pytest.raises(NotFound, match="no such blob"):
        list(line.fetch(pb.FetchRequest(caller=CHECK.caller, name="x"), 5.0))


ANSWER = encode_frame(pb.Answer(over=pb.Over(reason="that was all")))
UNREADABLE = {
    "nothing": b"",
    "no message": None,
    "a number": 7,
    "too short": b"\1",
    "a length beyond its end": b"\xff\xff\0\0" + ANSWER,
    "no protobuf": b"\x07\0\0\0" + b"\xff" * 40,
    "a flipped byte": ANSWER[:8] + bytes([ANSWER[8] ^ 4]) + ANSWER[9:],
    "a flipped checksum": ANSWER[:-1] + bytes([ANSWER[-1] ^ 4]),
    "a checksum that is missing": b"\x10\0\0\0" + ANSWER[4:20],
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_an_answer_that_cannot_be_read_is_damage(fake, line, what):
    line._unary["Check"] = lambda data, timeout: UNREADABLE[what]
    with pytest.raises(Damaged, match="an answer"):
        line.check(CHECK)
    line.renew()
    assert line.check(CHECK)[0].over.reason == "that was all"


@pytest.mark.parametrize("wrong", [TypeError("NoneType"), ValueError("bad"), AttributeError("code")])
def test_what_grpc_itself_cannot_read_is_damage(line, wrong):
    def fail(data, timeout):
        raise wrong

    line._unary["Check"] = fail
    with pytest.raises(Damaged, match=f"cannot be read .{type(wrong).__name__}"):
        line.check(CHECK)


def test_every_byte_of_an_answer_is_guarded(line):
    """Whichever bit of a head is flipped: the answer is damaged, and never another one."""
    work = encode_frame(pb.Answer(work=pb.Work(task=3, nonce=b"n" * 16, share=1.0, seed=7)))
    for at in range(len(work)):
        for bit in range(8):
            garbled = work[:at] + bytes([work[at] ^ 1 << bit]) + work[at + 1 :]
            line._unary["Check"] = lambda data, timeout, garbled=garbled: garbled
            with pytest.raises(Damaged):
                line.check(CHECK)


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
    assert line.bytes_up == len(encode_message(CHECK)) and line.bytes_down > 4


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
        with pytest.raises(WrongCertificate):
            stranger.check(CHECK)
        with pytest.raises(BadInput, match="cannot agree on TLS"):
            call_with_retries(lambda: stranger.check(CHECK), stranger, swift(), 30.0)
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
        with pytest.raises(NoTls):
            private.check(CHECK)
        private.close()
    finally:
        open_server.stop()
