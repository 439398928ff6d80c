"""What can be said of a request by itself."""

import pytest

from fedfleet.network.protocol.fleet_pb2 import EnrolRequest
from fedfleet.network.protocol.frames import PROTOCOL
from fedfleet.network.security.enrolment_request import (
    Terms,
    attempt_of,
    declared_values,
    evidence_refusal,
    protocol_refusal,
    unfit_reason,
)


def asks(**fields):
    return EnrolRequest(**{"protocol": PROTOCOL, **fields})


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (asks(protocol=PROTOCOL + 1), "same version"),
        (asks(protocol=0), "same version"),
        (asks(samples=101), "100 samples"),
        (asks(test_samples=2**64 - 1), "100 samples"),
        (asks(data="mine"), "how many samples"),
        (asks(attempt=bytes(15)), "random bytes"),
        (asks(attempt=bytes(65)), "random bytes"),
    ],
)
def test_requests_that_cannot_be(request_, why):
    terms = Terms(5, most_samples=100)
    assert why in (protocol_refusal(request_, terms) or unfit_reason(request_, terms))


def test_a_run_that_must_know_labels_admits_no_data_of_which_it_knows_none():
    terms = Terms(5, own_data=False)
    assert "cannot bring data of their own" in unfit_reason(asks(data="mine", samples=3), terms)
    assert unfit_reason(asks(), terms) is None


def test_requests_that_can_be():
    for request in (
        asks(),
        asks(samples=100, data="mine", test_samples=3),
        asks(attempt=bytes(16)),
        asks(attempt=bytes(64)),
    ):
        assert unfit_reason(request, Terms(5, most_samples=100)) is None


def test_what_is_stored_is_disarmed():
    assert declared_values(asks(samples=3, memory_bytes=2**64 - 1, data="a\n\u202eb")) == (3, 0, 2**62, r"a\n\u202eb")


def test_an_attempt_is_bound_to_its_token():
    marks = {attempt_of(asks(attempt=bytes(16), token=token)) for token in ("", "a", "b")}
    marks |= {attempt_of(asks(attempt=bytes(15) + b"x", token="a")), attempt_of(asks(attempt=bytes(17), token="a"))}
    assert len(marks) == 5 and None not in marks
    assert attempt_of(asks(token="a")) is None


def test_a_hook_that_fails_admits_nobody_and_tells_nothing():
    def broken(evidence, request):
        raise KeyError("hush")

    assert evidence_refusal(broken, asks()) == "the evidence of the device could not be checked (KeyError)"
    assert evidence_refusal(lambda evidence, request: "rooted\n", asks()).endswith(r"rooted\n")
    assert evidence_refusal(lambda evidence, request: None, asks()) is None
