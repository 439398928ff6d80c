"""Patience grows and ends; what is refused for good ends it at once, what may be the line does not."""

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.device.call_errors import CallRefused, Damaged, NoTls, UnknownDevice, Unreachable, WrongCertificate
from fedfleet.network.device.retries import RetryPolicy, call_with_retries


class Line:
    """A line that counts how often it was made anew."""

    server, uses_tls = "fleet.example.org:1", True

    def __init__(self, *, worked=True):
        self.worked, self.renewed = worked, 0

    def renew(self):
        self.renewed += 1


class Script:
    """Calls that fail as written down, and then work; time passes only while a device waits."""

    def __init__(self, *errors, line=None):
        self.errors, self.line, self.now = list(errors), line or Line(), 0.0
        self.tried, self.remarks = [], []

    def sleep(self, seconds):
        self.now += seconds

    def call(self):
        self.tried.append(self.now)
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    def run(self, seconds=600.0):
        wait = RetryPolicy(self.sleep, lambda: self.now, lambda: 0.0)
        return call_with_retries(self.call, self.line, wait, seconds, self.remarks.append)


def test_pauses_double_up_to_a_limit_and_are_never_longer_or_shorter_than_half():
    for chance in (0.0, 0.37, 1.0):
        result = [p for p, _ in zip(RetryPolicy(chance=lambda c=chance: c).pauses(0.1, 3.0), range(9), strict=False)]
        whole = [min(0.1 * 2**i, 3.0) for i in range(9)]
        assert result == pytest.approx([w * (1 - chance / 2) for w in whole])


def test_two_devices_do_not_come_back_together():
    one, two = (RetryPolicy().pauses() for _ in range(2))
    assert next(one) != next(two)


def test_patience_ends_with_one_sentence_and_says_once_what_it_waits_for():
    script = Script(*[Unreachable("gone fishing")] * 100)
    with pytest.raises(BadInput, match=r"no server answers at .*gone fishing.*fedfleet serve"):
        script.run(20.0)
    assert len(script.remarks) == 1 and "trying again for 20 s" in script.remarks[0]
    assert 5 < len(script.tried) < 12 and 10 < script.now <= 20


def test_each_change_of_the_line_is_said_once():
    script = Script(*[Unreachable("away")] * 8, Damaged("odd"), Unreachable("away"))
    assert script.run() == "answer"
    assert [("no usable answer" in said, "answers again" in said) for said in script.remarks] == [(True, False), (False, True)]
    quick = Script(Unreachable("away"))
    assert quick.run() == "answer" and quick.remarks == []


FAILURES = [Unreachable("x"), Damaged("x"), NoTls("x"), CallRefused("x"), UnknownDevice("x")]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_whatever_fails_once_or_twice_is_tried_again(error):
    for count in (1, 2):
        script = Script(*[error] * count)
        assert script.run() == "answer"
        assert len(script.tried) == count + 1


@pytest.mark.parametrize("error", [Damaged("cut"), CallRefused("no"), UnknownDevice("who")], ids=lambda e: type(e).__name__)
def test_what_may_come_from_damaged_headers_takes_a_new_connection(error):
    script = Script(error)
    script.run()
    assert script.line.renewed == 1


def test_a_line_that_only_looks_sound_is_made_anew_too():
    script = Script(*[Unreachable("busy")] * 7)
    script.run()
    assert script.line.renewed == 2


def test_a_refusal_that_is_heard_three_times_ends_the_device_with_the_server_s_sentence():
    script = Script(*[CallRefused("the token has expired")] * 9)
    with pytest.raises(BadInput, match=r"^the token has expired$"):
        script.run()
    assert len(script.tried) == 3 and script.now < 1.0


def test_refusals_that_differ_or_are_interrupted_are_not_believed():
    script = Script(*[CallRefused(f"{n % 2}") for n in range(20)], *[CallRefused("same"), Damaged("x")] * 5)
    assert script.run() == "answer"


def test_a_server_that_does_not_know_the_device_three_times_is_believed_and_the_device_can_enrol():
    with pytest.raises(UnknownDevice, match="who"):
        Script(*[UnknownDevice("who")] * 3).run()


@pytest.mark.parametrize("worked", [False, True])
def test_a_wrong_certificate_ends_a_device_soon_only_at_a_server_that_never_worked(worked):
    script = Script(*[WrongCertificate("CERTIFICATE_VERIFY_FAILED")] * 1000, line=Line(worked=worked))
    with pytest.raises(BadInput, match=r"cannot agree on TLS .*give --ca"):
        script.run(300.0)
    assert (script.now > 250) == worked and (script.now < 1) == (not worked)


@pytest.mark.parametrize("worked", [False, True])
def test_handshakes_that_were_damaged_are_tried_again_and_end_with_the_cure(worked):
    assert Script(*[NoTls("SSL_ERROR_SSL")] * 7, line=Line(worked=worked)).run(30.0) == "answer"
    script = Script(*[NoTls("WRONG_VERSION_NUMBER")] * 1000, line=Line(worked=worked))
    with pytest.raises(BadInput, match=r"cannot agree on TLS .*give --ca"):
        script.run(30.0)
    assert script.now > 15


def test_answers_that_are_always_damaged_end_with_the_address_and_the_line_named():
    with pytest.raises(BadInput, match=r"is not a FedFleet server, or the line changes what it sends \(an answer .*check the"):
        Script(*[Damaged("an answer that cannot be read")] * 1000).run(30.0)
