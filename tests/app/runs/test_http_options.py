"""What a person says of the HTTP door is refused in one sentence where it cannot be."""

import pytest

from fedfleet.app.runs import http_options
from fedfleet.app.runs.http_options import check_http, checked_origins, http_address
from fedfleet.core.errors import BadInput
from fedfleet.network.server.options import ServeOptions


@pytest.mark.parametrize("http", ["", "x", "99999", "-1", "a:b", "127.0.0.1:50051", "50051", "http://a:1"])
def test_an_address_that_is_none_is_refused(http):
    with pytest.raises(BadInput, match="--http"):
        http_address(http, "127.0.0.1:50051")


@pytest.mark.parametrize("origin", ["", "*", "null", "example.org", "https://example.org/", "https://a b", "ftp://example.org"])
def test_an_origin_that_is_none_is_refused(origin):
    with pytest.raises(BadInput, match="--allow-origin"):
        checked_origins([origin])


def test_origins_are_written_as_browsers_send_them():
    assert checked_origins(["HTTPS://Example.org:8443", "http://[::1]:1"]) == ("https://example.org:8443", "http://[::1]:1")
    assert checked_origins(None) == ()


def test_what_needs_the_door_says_so(monkeypatch):
    check_http(ServeOptions(http="127.0.0.1:1", page=True))
    for options, name in ((ServeOptions(page=True), "--page"), (ServeOptions(origins=("https://a",)), "--allow-origin")):
        with pytest.raises(BadInput, match=name):
            check_http(options)
    monkeypatch.setattr(http_options, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install .fedfleet\[server\]"):
        check_http(ServeOptions(http="127.0.0.1:1"))
