"""Processes of a pool are known by their environment and by when they began, never by a name; what is left is ended."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from fedfleet.network.pool import processes
from fedfleet.network.pool.processes import (
    MARK,
    end_leftovers,
    end_processes,
    pool_name,
    pool_processes,
    recorded_pool,
    records_folder,
)
from fedfleet.store.lock import process_mark


@pytest.fixture(autouse=True)
def own_records(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def sleeper(name):
    """A process that carries the name of a pool, in a process group of its own."""
    code = "import time; print(flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, MARK: name}, start_new_session=True, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    return process


def test_processes_are_found_by_the_name_that_they_carry_and_no_others():
    one, other = sleeper("1-one"), sleeper("1-other")
    try:
        assert pool_processes("1-one") == [one.pid]
        assert end_processes("1-one") == 1
        assert one.poll() == -signal.SIGKILL or one.wait(10) is not None
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        one.wait()


def test_a_stopped_process_is_ended_too():
    process = sleeper("1-stopped")
    process.send_signal(signal.SIGSTOP)
    assert end_processes("1-stopped") == 1
    process.wait()


def test_a_pool_that_ends_in_order_leaves_no_record_and_no_process():
    name = pool_name()
    with recorded_pool(name):
        assert os.environ[MARK] == name
        (record,) = records_folder().glob("*.json")
        assert json.loads(record.read_text())["mark"] == process_mark(os.getpid())
        child = sleeper(name)
    assert child.wait(10) is not None
    assert MARK not in os.environ
    assert not list(records_folder().glob("*.json"))


def record(name, pid, mark, groups=()):
    records_folder().mkdir(parents=True, exist_ok=True)
    table = {"name": name, "pid": pid, "mark": mark, "groups": list(groups)}
    (records_folder() / f"{name}.json").write_text(json.dumps(table))


def test_the_next_pool_ends_what_a_killed_one_left(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    group = tmp_path / "fedfleet-left"
    (group / "d0").mkdir(parents=True)
    record("9-left", gone.pid, "another boot 1", [str(group)])
    child = sleeper("9-left")
    assert end_leftovers() == 1
    child.wait(10)
    assert not list(records_folder().glob("*.json"))
    assert not group.exists()


def test_a_pool_that_runs_is_left_alone():
    record("9-alive", os.getpid(), process_mark(os.getpid()))
    child = sleeper("9-alive")
    try:
        assert end_leftovers() == 0
        assert child.poll() is None
        assert list(records_folder().glob("*.json"))
    finally:
        child.kill()
        child.wait()


def test_a_number_that_another_process_has_by_now_is_no_pool():
    record("9-again", os.getpid(), "an earlier boot 12345")
    assert end_leftovers() == 0
    assert not list(records_folder().glob("*.json"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1, "pid": "x", "mark": ""}'])
def test_records_that_cannot_be_read_are_passed_over(text):
    records_folder().mkdir(parents=True)
    (records_folder() / "odd.json").write_text(text)
    assert end_leftovers() == 0


def test_a_process_dies_with_its_parent_even_when_that_is_killed():
    """The parent starts a command as a pool does, and is killed."""
    code = (
        "import os, subprocess, sys, time\n"
        f"os.environ[{MARK!r}] = f'{{os.getpid()}}-x'\n"
        f"command = [sys.executable, '-m', {processes.__name__!r}, sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "print(subprocess.Popen(command).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    mark = process_mark(child)
    deadline = time.monotonic() + 60
    while "sleep" not in command_line(child):  # until it has become the command
        assert time.monotonic() < deadline
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    while process_mark(child) == mark and state(child) not in ("Z", "X", ""):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def command_line(pid):
    with open(f"/proc/{pid}/cmdline") as file:
        words = file.read().split("\0")
    return "" if processes.__name__ in words else " ".join(words)


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""
