"""Served runs: what their server logs, and what it says when it can be asked."""

import json

from fedfleet.app.dashboard.wired import ADDRESS, Servers, status_words, wire_log
from fedfleet.core.errors import RunFailed

SAID = {"devices_online": 3, "running": 2, "waiting_for": "client 7", "draining": True}


def served(folder, *, tls=False):
    (folder / "wire").mkdir()
    (folder / "wire" / ADDRESS).write_text(json.dumps({"address": "127.0.0.1:1", "tls": tls}))
    (folder / "wire" / "status.token").write_text("secret\n")
    return folder


def test_the_log_is_read_from_its_end(tmp_path):
    assert wire_log(tmp_path) == []
    (tmp_path / "wire").mkdir()
    lines = ['{"time": "t", "level": "info", "run": "r", "text": "a model was made", "round": 3}', "cut", "[1]"]
    (tmp_path / "wire" / "log.jsonl").write_text("\n".join(["x" * 70_000, *lines]))
    assert wire_log(tmp_path) == ["t info a model was made round=3"]


def test_a_server_is_asked_now_and_then(tmp_path):
    asked = []
    servers = Servers(lambda address, token: asked.append((address, token)) or SAID)
    assert servers.status(served(tmp_path)) == SAID and servers.status(tmp_path) == SAID
    assert asked == [("127.0.0.1:1", "secret")]


def test_a_server_that_cannot_be_asked_is_no_fault(tmp_path):
    def silent(*_):
        raise RunFailed("nobody answers")

    (tmp_path / "tls").mkdir()
    assert Servers(silent).status(tmp_path / "none") is None
    assert Servers(lambda *_: SAID).status(served(tmp_path / "tls", tls=True)) is None
    assert Servers(silent).status(served(tmp_path)) is None


def test_what_it_says_in_words():
    assert status_words(SAID) == "Its server says: 3 devices online, 2 tasks out, waiting for client 7; it is stopping."
