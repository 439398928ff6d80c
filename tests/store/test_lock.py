"""One writer: a second process is refused by name and pid, and a lock that was left behind locks nothing."""

import fcntl
import json
import multiprocessing
import os
import time

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.store.lock import LOCK, hold_lock, holder_of


def hold(folder, ready, free):
    with hold_lock(folder):
        ready.set()
        free.wait(60)


def test_a_second_process_is_refused_by_pid_until_the_first_is_gone(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, free = context.Event(), context.Event()
    first = context.Process(target=hold, args=(tmp_path, ready, free))
    first.start()
    assert ready.wait(60)
    with pytest.raises(BadInput, match=rf"in use by .* \(process {first.pid} on"), hold_lock(tmp_path):
        pass
    first.kill()  # the lock file stays, the lock does not
    first.join()
    assert (tmp_path / LOCK).is_file()
    with hold_lock(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK).exists()


def test_a_lock_is_free_after_use_also_after_an_error(tmp_path):
    with pytest.raises(KeyError), hold_lock(tmp_path):
        raise KeyError
    with hold_lock(tmp_path), pytest.raises(BadInput, match="in use"), hold_lock(tmp_path):
        pass


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="cannot be written"), hold_lock(tmp_path / "none"):
        pass


def test_the_holder_is_found_without_trying_the_lock(tmp_path):
    assert holder_of(tmp_path) is None
    with hold_lock(tmp_path):
        result = holder_of(tmp_path)
        assert result is not None and result.pid == os.getpid()
        about = json.loads((tmp_path / LOCK).read_text())
        for odd in (
            {"host": "elsewhere"},
            {"pid": 2**22 + 1},
            {"since": 1000.0, "born": None},
            {"born": "another start of the machine 1"},
            {"pid": "x"},
        ):  # 1000.0: long before this process
            (tmp_path / LOCK).write_text(json.dumps(about | odd))
            assert holder_of(tmp_path) is None
        (tmp_path / LOCK).write_text("half of")
        assert holder_of(tmp_path) is None


def test_a_clock_that_is_set_forward_takes_no_lock_from_its_holder(tmp_path, monkeypatch):
    with hold_lock(tmp_path):
        now = time.time()
        monkeypatch.setattr("fedfleet.store.lock.time.time", lambda: now + 3600)  # as after a machine was paused
        result = holder_of(tmp_path)
        assert result is not None and result.pid == os.getpid()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"pid": Infinity, "command": "x", "since": 1, "host": "h"}'])
def test_a_lock_that_no_program_of_ours_wrote_names_nobody(tmp_path, text):
    (tmp_path / LOCK).write_text(text)
    assert holder_of(tmp_path) is None


def test_a_disk_without_locks_is_not_called_busy(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(BadInput, match=r"cannot be locked \(No locks available\); choose one on another disk"),
        hold_lock(tmp_path),
    ):
        pass
