"""Attestation by registered name."""

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import names, register
from fedfleet.network.protocol.fleet_pb2 import EnrolRequest
from fedfleet.network.security.attestation import evidence_by_name, none, read_secret, shared_evidence, shared_secret

SECRET = b"put in at the factory"
REQUEST = EnrolRequest(token="t", attempt=bytes(16))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


def test_nothing_is_asked_by_default():
    assert none()(b"", EnrolRequest()) is None


def test_devices_that_know_the_secret_are_admitted(file):
    judge = shared_secret(str(file))
    assert judge(shared_evidence(SECRET, REQUEST), REQUEST) is None


@pytest.mark.parametrize("evidence", [b"", bytes(32), SECRET, shared_evidence(b"another secret", REQUEST)])
def test_others_are_not(file, evidence):
    assert shared_secret(str(file))(evidence, REQUEST)


def test_evidence_is_worth_nothing_for_another_attempt_or_token(file):
    judge, shown = shared_secret(str(file)), shared_evidence(SECRET, REQUEST)
    assert judge(shown, EnrolRequest(token="u", attempt=bytes(16)))
    assert judge(shown, EnrolRequest(token="t", attempt=bytes(17)))
    unbound = EnrolRequest(token="t")
    assert judge(shared_evidence(SECRET, unbound), unbound)


def test_hooks_are_found_by_name_and_never_elsewhere(file):
    assert {"none", "shared_secret"} <= set(names("evidence"))
    assert evidence_by_name("none")(b"", REQUEST) is None
    assert evidence_by_name(f"shared_secret:{file}")(b"", REQUEST)
    register("evidence", "mine", lambda: lambda evidence, request: "no")
    assert evidence_by_name("mine")(b"", REQUEST) == "no"
    for wrong in ("os:system", "shared_secrets:x", "none:x", "shared_secret", ""):
        with pytest.raises(BadInput, match="--evidence"):
            evidence_by_name(wrong)


def test_secrets_that_are_none_are_refused(tmp_path, file):
    assert read_secret(file) == SECRET
    file.chmod(0o640)
    with pytest.raises(BadInput, match="read by other users"):
        read_secret(file)
    file.chmod(0o600)
    file.write_bytes(b"short\n")
    with pytest.raises(BadInput, match="guessed"):
        read_secret(file)
    with pytest.raises(BadInput, match="cannot be read"):
        read_secret(tmp_path / "none")
