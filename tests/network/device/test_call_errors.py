"""What a failed call means: every status of gRPC, with and without a sentence, and statuses that there are none."""

import grpc
import pytest

from fedfleet.network.device.call_errors import (
    CallRefused,
    Damaged,
    NotFound,
    NoTls,
    UnknownDevice,
    Unreachable,
    WrongCertificate,
    call_error,
    end_of_patience,
)

CODES = grpc.StatusCode
MEANINGS = {
    CODES.UNAVAILABLE: Unreachable,
    CODES.RESOURCE_EXHAUSTED: Unreachable,
    CODES.FAILED_PRECONDITION: CallRefused,
    CODES.PERMISSION_DENIED: CallRefused,
    CODES.UNIMPLEMENTED: CallRefused,
    CODES.UNAUTHENTICATED: UnknownDevice,
    CODES.NOT_FOUND: NotFound,
}


class Failed:
    """A call that ended so."""

    def __init__(self, code, details):
        self.code, self.details = lambda: code, lambda: details


@pytest.mark.parametrize("code", [*CODES, None, 77], ids=str)
def test_every_status_is_a_retry_a_new_connection_or_a_sentence_of_the_server(code):
    error = call_error("here:1", Failed(code, "a reason\n\x1b[2J" + "x" * 1000))
    assert type(error) is MEANINGS.get(code, Damaged)
    assert "a reason" in str(error) and str(error).isprintable() and len(str(error)) < 500


@pytest.mark.parametrize("code", [*CODES, None], ids=str)
@pytest.mark.parametrize("details", ["", None])
def test_a_refusal_without_a_sentence_is_none(code, details):
    error = call_error("here:1", Failed(code, details))
    assert isinstance(error, Unreachable) and str(error)


SSL = "failed to connect: Ssl handshake failed: SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        (f"{SSL}CERTIFICATE_VERIFY_FAILED", WrongCertificate),
        ("Peer name x is not in peer certificate", WrongCertificate),
        (f"{SSL}WRONG_VERSION_NUMBER", NoTls),
        (f"{SSL}DECRYPTION_FAILED_OR_BAD_RECORD_MAC", NoTls),
        ("connection refused", Unreachable),
    ],
)
def test_handshakes_that_fail_are_told_from_servers_that_are_away(details, kind):
    assert type(call_error("here:1", Failed(CODES.UNAVAILABLE, details))) is kind


@pytest.mark.parametrize("error", [Unreachable("x"), Damaged("x"), NoTls("x"), CallRefused("x"), UnknownDevice("x")])
def test_every_end_is_one_sentence(error):
    said = str(end_of_patience("here:1", error, uses_tls=False))
    assert "x" in said and "\n" not in said
