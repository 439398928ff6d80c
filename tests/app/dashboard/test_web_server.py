"""A socket of our own: two dashboards on one port are told in one sentence."""

import socket
from pathlib import Path

import pytest

from fedfleet.app.dashboard.auth import Access
from fedfleet.app.dashboard.web_server import bind_socket, certificate_from, serve, token_from
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
        serve(Path(), Access("127.0.0.1", 0), socket.socket(), None)


def test_tokens(tmp_path):
    (tmp_path / "token").write_text("a-long-token\n")
    (tmp_path / "empty").write_text("\n")
    assert token_from(None, None) == "" and token_from("x", None) == "x"
    assert token_from(None, tmp_path / "token") == "a-long-token"
    wrong = [
        ("x", tmp_path, "give only one"), (None, tmp_path / "none", "cannot read"), (None, tmp_path / "empty", "is empty"),
        ("a b", None, "one word"), ("é", None, "one word"),
    ]  # fmt: skip
    for token, file, said in wrong:
        with pytest.raises(BadInput, match=said):
            token_from(token, file)


def test_certificates(tmp_path):
    assert certificate_from(None, None) is None
    with pytest.raises(BadInput, match="belong together"):
        certificate_from(tmp_path, None)
    (tmp_path / "a.pem").write_text("nothing")
    for name in ("a.pem", "none.pem"):
        with pytest.raises(BadInput, match="with fedfleet certificate"):
            certificate_from(tmp_path / name, tmp_path / name)
