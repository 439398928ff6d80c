"""A socket of our own: two dashboards on one port are told in one sentence."""

import pytest

from fedfleet.app.dashboard import web_server
from fedfleet.app.dashboard.web_server import bind_socket
from fedfleet.core.errors import BadInput


def test_two_on_one_port():
    held = bind_socket("127.0.0.1", 0)
    try:
        port = held.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port} of 127.0.0.1 is taken, perhaps by another dashboard"):
            bind_socket("127.0.0.1", port)
    finally:
        held.close()


def test_an_address_that_is_not_ours():
    with pytest.raises(BadInput, match="--host"):
        bind_socket("203.0.113.7", 0)
    with pytest.raises(BadInput, match="--host"):
        bind_socket("no such host", 0)


def test_missing_libraries_are_named_with_their_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(BadInput, match=r"fedfleet\[app\]"):
        web_server._import_server()
