"""Tokens and devices of a served run, while a server has its store open."""

import pytest

from fedfleet.app.runs.invitations import check_one_request, end_enrolment, end_token, invite, list_tokens
from fedfleet.core.errors import BadInput
from fedfleet.network.protocol.fleet_pb2 import EnrolRequest
from fedfleet.network.protocol.frames import PROTOCOL
from fedfleet.network.security.enrolment import Registry
from fedfleet.network.security.enrolment_request import Admission, Refusal, Terms
from fedfleet.network.security.secrets import RunKey, secret_of

KEY = RunKey(bytes(32))


@pytest.fixture
def server(tmp_path):
    (tmp_path / "wire").mkdir()
    registry = Registry(tmp_path / "wire" / "devices.db", KEY, Terms(3))
    yield registry
    registry.close()


def test_a_person_invites_and_puts_out_while_the_server_runs(tmp_path, server):
    made = invite(tmp_path, 1, 1.0, 2, "for the shelf")
    now = made["made"] + 1.0
    asks = EnrolRequest(protocol=PROTOCOL, token=made["token"], data="mine", samples=5)
    assert server.enrol(asks, now, "ipv4:127.0.0.1") == Admission(2, 1, True)
    result = list_tokens(tmp_path)
    assert [t["used"] for t in result["tokens"]] == [1]
    assert [(d["client"], d["samples"], d["data"], d["token"]) for d in result["devices"]] == [(2, 5, "mine", made["id"])]
    assert server.holds(2, secret_of(KEY, 2, 1))
    assert end_enrolment(tmp_path, 2) == {"client": 2, "revoked": True}
    assert server.take_changes() == [(2, 2)] and not server.holds(2, secret_of(KEY, 2, 1))
    other = invite(tmp_path, 1, 1.0, None, "")
    assert end_token(tmp_path, other["id"])["revoked"] is not None
    answer = server.enrol(EnrolRequest(protocol=PROTOCOL, token=other["token"]), now, "")
    assert isinstance(answer, Refusal) and "revoked" in answer.sentence


def test_a_client_that_the_run_has_not_is_refused_as_far_as_its_spec_says(tmp_path, server):
    (tmp_path / "spec.toml").write_text("[world]\nclients = 3\n")
    with pytest.raises(BadInput, match="0 to 2"):
        invite(tmp_path, 1, 1.0, 3, "")
    (tmp_path / "spec.toml").write_text("world = 3")
    assert invite(tmp_path, 1, 1.0, 3, "")["client"] == 3


def test_two_things_at_once_are_refused():
    check_one_request({"--uses": 2, "--note": None}, {"--list": None})
    check_one_request({"--uses": None}, {"--list": True})
    with pytest.raises(BadInput, match="--list and --uses"):
        check_one_request({"--uses": 2}, {"--list": True})
