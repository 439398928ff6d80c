"""The token of a server is found by its own user, at its address, while it serves."""

import stat

import pytest

from fedfleet.network.operations.status_token import publish_token, published_token, token_file, withdraw_token
from fedfleet.network.security.secrets import RunKey, status_token

KEY = RunKey(bytes(32))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def test_a_token_is_found_by_the_address_and_read_by_its_owner_alone():
    path = publish_token("127.0.0.1:50051", KEY)
    assert published_token("127.0.0.1:50051") == status_token(KEY) and published_token("127.0.0.1:50052") == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    withdraw_token(path)
    assert published_token("127.0.0.1:50051") == ""
    withdraw_token(path)
    withdraw_token(None)


def test_every_address_has_a_plain_file_name():
    for address in ("[::1]:50051", "example.org:1", "../../etc:1"):
        assert token_file(address).parent == token_file("a:1").parent and "/" not in token_file(address).name


def test_a_home_that_cannot_be_written_is_no_failure(home, monkeypatch):
    (home / "file").write_text("x")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    assert publish_token("127.0.0.1:50051", KEY) is None and published_token("127.0.0.1:50051") == ""
