"""The head of a request of HTTP/1.1 while it comes."""

from types import SimpleNamespace

import pytest

from fedfleet.network.frontend.http_exchange import MAX_HEAD_BYTES
from fedfleet.network.frontend.http_head import RequestHead


def parser(version="1.1", upgrade=False):
    return SimpleNamespace(get_http_version=lambda: version, should_upgrade=lambda: upgrade)


def head(url=b"/v1/status", **headers):
    result = RequestHead()
    result.begin()
    result.url += url
    for name, value in headers.items():
        assert result.add_header(name.replace("_", "-").encode(), value) is None
    return result


def test_headers_that_mean_something_are_kept_once_whatever_their_letters():
    one = head(Host=b"here", Content_Length=b"3", X_Other=b"1")
    assert one.headers == {b"host": b"here", b"content-length": b"3"}
    assert one.refusal(parser()) is None
    assert "two headers called host" in str(one.add_header(b"HOST", b"there"))
    assert one.add_header(b"x-other", b"2") is None


@pytest.mark.parametrize(
    ("made", "said", "status", "why"),
    [
        (head(Host=b"here"), parser("2.0"), 400, "speaks HTTP/1.1"),
        (head(Host=b"here"), parser(upgrade=True), 400, "upgrades to nothing else"),
        (head(), parser(), 400, "names no host"),
        (head(b"/" + b"a" * MAX_HEAD_BYTES, Host=b"here"), parser(), 431, "longer than"),
        (head(X=b"a" * MAX_HEAD_BYTES, Host=b"here"), parser(), 431, "longer than"),
        (head(b"status", Host=b"here"), parser(), 400, "not a path"),
    ],
)
def test_a_head_that_is_not_to_be_served_says_why(made, said, status, why):
    refusal = made.refusal(said)
    assert refusal is not None and refusal.status == status and why in str(refusal)


def test_http_1_0_needs_no_host():
    assert head().refusal(parser("1.0")) is None


def test_the_next_head_begins_anew():
    one = head(Host=b"here")
    nbytes, one.is_open = one.nbytes, False
    one.begin()
    assert (one.url, one.headers, one.nbytes, one.is_open) == (b"", {}, nbytes, True)
