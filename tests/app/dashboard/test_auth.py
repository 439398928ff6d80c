"""Only our own page changes anything, only our own name is answered, and beyond this machine nothing is told without a token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.dashboard.auth import (
    TOKEN_HEADER,
    Access,
    check_access,
    cookie,
    is_read_token,
    refusal,
    response_headers,
)
from fedfleet.core.errors import BadInput

DOOR = Access("127.0.0.1", 8765)
OURS = {"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:8765", TOKEN_HEADER: DOOR.token}
FAR = Access("0.0.0.0", 8765, ("fleet.local",), "a-long-token-for-reading", True)


def test_our_own_page_may_read_and_change():
    assert refusal(DOOR, "GET", "/", {"host": "localhost:8765"}) is None
    assert refusal(DOOR, "POST", "/start", OURS) is None


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"host": "evil.example:8765"}, 421),  # a name that was made to point here
        ({"host": "127.0.0.1:8766"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "https://127.0.0.1:8765"}, 403),
        ({"origin": "http://localhost:8765"}, 403),  # not the Host that was asked
        ({TOKEN_HEADER: ""}, 403),
        ({TOKEN_HEADER: DOOR.token[:-1]}, 403),
        ({TOKEN_HEADER: "é" * 43}, 403),
    ],
)
def test_whatever_is_not_ours_changes_nothing(changed, status):
    assert refusal(DOOR, "POST", "/start", OURS | changed)[0] == status


@given(st.dictionaries(st.sampled_from(["host", "origin", TOKEN_HEADER, "cookie", "authorization"]), st.text(max_size=80)))
def test_no_guess_passes(headers):
    assert refusal(DOOR, "POST", "/stop", headers) is not None
    assert refusal(FAR, "GET", "/", headers) is not None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_not_known(method):
    assert refusal(DOOR, method, "/", OURS)[0] == 405


def test_beyond_this_machine_reading_needs_the_token():
    host = {"host": "fleet.local:8765"}
    assert refusal(FAR, "GET", "/", host)[0] == 401
    assert refusal(FAR, "GET", "/enter", host) is None
    assert refusal(FAR, "GET", "/", host | {"cookie": cookie(FAR).partition(";")[0]}) is None
    assert refusal(FAR, "GET", "/", host | {"authorization": "Bearer a-long-token-for-reading"}) is None
    assert refusal(FAR, "GET", "/", {"host": "10.0.0.5:8765", "authorization": "Bearer a-long-token-for-reading"}) is None
    assert refusal(FAR, "GET", "/", {"host": "evil.example:8765"})[0] == 421
    assert "Secure" in cookie(FAR) and "HttpOnly" in cookie(FAR) and FAR.read_token not in cookie(FAR)
    assert is_read_token(FAR, "a-long-token-for-reading") and not is_read_token(FAR, "") and not is_read_token(DOOR, "")


def test_it_does_not_listen_elsewhere_unprotected():
    check_access("127.0.0.1", read_token="", tls=False)
    for reading, tls in (("", False), ("", True), ("x" * 16, False)):
        with pytest.raises(BadInput, match=r"--host 0.0.0.0: .*needs"):
            check_access("0.0.0.0", read_token=reading, tls=tls)
    check_access("0.0.0.0", read_token="x" * 16, tls=True)
    with pytest.raises(BadInput, match="could be guessed"):
        check_access("127.0.0.1", read_token="short", tls=False)


def test_the_address_is_one_that_a_browser_can_open():
    assert DOOR.address == "http://127.0.0.1:8765/" and FAR.address == "https://fleet.local:8765/"
    assert Access("::1", 80).address == "http://[::1]:80/"


def test_secrets_are_not_printed():
    assert DOOR.token not in repr(DOOR) and FAR.read_token not in repr(FAR)


def test_every_answer_forbids_foreign_code():
    for path in ("/", "/report/a/report.html"):
        said = response_headers(path, tls=False)
        assert (
            "default-src 'none'" in said["content-security-policy"] and "frame-ancestors 'none'" in said["content-security-policy"]
        )
        assert said["cache-control"] == "no-store" and said["x-frame-options"] == "DENY"
    assert "unsafe" not in response_headers("/", tls=False)["content-security-policy"]
    assert "script-src" not in response_headers("/report/a/report.html", tls=False)["content-security-policy"]
