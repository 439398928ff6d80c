"""Served runs: what their server logs and says of itself, and how a stopped one is resumed."""

import base64
import json
import os
import time

import numpy as np
import pytest

from fedfleet.app.dashboard.served_runs import ADDRESS, TOLD, Says, resuming, server_says, status_words, wire_log
from fedfleet.network.operations import monitor

STATUS = {"devices_online": 3, "running": 2, "waiting_for": "client 7", "draining": True}


def told(folder, online, status=STATUS):
    """The folder of a server that has just said who is online."""
    (folder / "wire").mkdir(exist_ok=True)
    bits = base64.b64encode(np.packbits(np.array(online, bool)).tobytes()).decode()
    (folder / "wire" / TOLD).write_text(json.dumps({"status": status, "present": bits}))
    return folder


def test_the_log_is_read_from_its_end(tmp_path):
    assert wire_log(tmp_path) == []
    (tmp_path / "wire").mkdir()
    lines = ['{"time": "t", "level": "info", "run": "r", "text": "a model was made", "round": 3}', "cut", "[1]"]
    (tmp_path / "wire" / "log.jsonl").write_text("\n".join(["x" * 70_000, *lines]))
    assert wire_log(tmp_path) == ["t info a model was made round=3"]


def test_a_server_tells_who_is_there(tmp_path):
    assert monitor.TOLD == TOLD
    says = server_says(told(tmp_path, [1, 0, 1, 0, 0, 0, 0, 0, 1, 0]))
    assert says.online == 3 and says.present.startswith("1010000010")


def test_what_it_said_long_ago_or_not_at_all_is_not_known(tmp_path):
    assert server_says(tmp_path) is None
    told(tmp_path, [1])
    os.utime(tmp_path / "wire" / TOLD, (time.time() - 60,) * 2)
    assert server_says(tmp_path) is None


@pytest.mark.parametrize(
    "odd", ["", "[]", "{}", '{"status": {}, "present": ""}', '{"status": 3, "present": "AA=="}', "\xff"]
)
def test_what_is_damaged_is_no_fault_of_the_page(tmp_path, odd):
    told(tmp_path, [1])
    (tmp_path / "wire" / TOLD).write_text(odd)
    assert server_says(tmp_path) is None


def test_what_it_says_in_words():
    assert status_words(Says(STATUS)) == (
        "Its server says: 3 devices online, 2 tasks out, waiting for client 7; it is stopping."
    )


def test_it_is_resumed_by_what_was_typed(tmp_path):
    out = tmp_path / "my run"
    (out / "wire").mkdir(parents=True)
    generic = resuming(out)
    assert generic == f"fedfleet serve '{out}/spec.toml' --out '{out}' --resume"
    about = {
        "address": "127.0.0.1:1",
        "tls": False,
        "command": ["serve", "a b.toml", "--devices", "10"],
        "folder": "/here",
    }
    (out / "wire" / ADDRESS).write_text(json.dumps(about))
    assert resuming(out) == "cd /here && fedfleet serve 'a b.toml' --devices 10 --resume"
    (out / "wire" / ADDRESS).write_text(json.dumps({**about, "command": ["serve", "x", "--resume"]}))
    assert resuming(out).count("--resume") == 1
