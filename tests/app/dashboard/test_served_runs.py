"""Served runs: what their server logs and says of itself, and how a stopped one is resumed."""

import base64
import json
import os
import time

import numpy as np
import pytest

from fedfleet.app.dashboard.served_runs import (
    ADDRESS,
    STATUS_FILE,
    ServerStatus,
    read_server_status,
    resume_command,
    server_log_lines,
    status_sentence,
)
from fedfleet.network.operations import monitor

STATUS = {"devices_online": 3, "running": 2, "waiting_for": "client 7", "draining": True}


def told(folder, online, status=STATUS):
    """The folder of a server that has just said who is online."""
    (folder / "wire").mkdir(exist_ok=True)
    bits = base64.b64encode(np.packbits(np.array(online, bool)).tobytes()).decode()
    (folder / "wire" / STATUS_FILE).write_text(json.dumps({"status": status, "present": bits}))
    return folder


def test_the_log_is_read_from_its_end(tmp_path):
    assert server_log_lines(tmp_path) == []
    (tmp_path / "wire").mkdir()
    lines = ['{"time": "t", "level": "info", "run": "r", "text": "a model was made", "round": 3}', "cut", "[1]"]
    (tmp_path / "wire" / "log.jsonl").write_text("\n".join(["x" * 70_000, *lines]))
    assert server_log_lines(tmp_path) == ["t info a model was made round=3"]


def test_a_server_tells_who_is_there(tmp_path):
    assert monitor.STATUS_FILE == STATUS_FILE
    says = read_server_status(told(tmp_path, [1, 0, 1, 0, 0, 0, 0, 0, 1, 0]))
    assert says.online == 3 and says.present.startswith("1010000010")


def test_what_it_said_long_ago_or_not_at_all_is_not_known(tmp_path):
    assert read_server_status(tmp_path) is None
    told(tmp_path, [1])
    os.utime(tmp_path / "wire" / STATUS_FILE, (time.time() - 60,) * 2)
    assert read_server_status(tmp_path) is None


@pytest.mark.parametrize("odd", ["", "[]", "{}", '{"status": {}, "present": ""}', '{"status": 3, "present": "AA=="}', "\xff"])
def test_what_is_damaged_is_no_fault_of_the_page(tmp_path, odd):
    told(tmp_path, [1])
    (tmp_path / "wire" / STATUS_FILE).write_text(odd)
    assert read_server_status(tmp_path) is None


def test_what_it_says_in_words():
    assert status_sentence(ServerStatus(STATUS)) == (
        "Its server says: 3 devices online, 2 tasks out, waiting for client 7; it is stopping."
    )


def test_it_is_resumed_by_what_was_typed(tmp_path):
    out = tmp_path / "my run"
    (out / "wire").mkdir(parents=True)
    generic = resume_command(out)
    assert generic == f"fedfleet serve '{out}/spec.toml' --out '{out}' --resume"
    about = {
        "address": "127.0.0.1:1",
        "tls": False,
        "command": ["serve", "a b.toml", "--devices", "10"],
        "folder": "/here",
    }
    (out / "wire" / ADDRESS).write_text(json.dumps(about))
    assert resume_command(out) == "cd /here && fedfleet serve 'a b.toml' --devices 10 --resume"
    (out / "wire" / ADDRESS).write_text(json.dumps({**about, "command": ["serve", "x", "--resume"]}))
    assert resume_command(out).count("--resume") == 1
