"""Blobs lie in shared memory once, by their content; what a killed server left there is given back by the next one."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.network.protocol.frames import crc32c
from fedfleet.network.server import blobs
from fedfleet.network.server.blobs import drop_blob, make_shared_folder, map_blob, remove_folder, write_blob

CHILD = """
import sys, time
from pathlib import Path
from fedfleet.network.server import blobs
blobs._SHARED = Path(sys.argv[1])
print(blobs.make_shared_folder(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(blobs, "_SHARED", tmp_path)
    return tmp_path


def test_bytes_are_written_once_and_read_without_a_copy(tmp_path):
    blob = write_blob(tmp_path, b"a model")
    before = Path(blob.path).stat().st_ino
    assert write_blob(tmp_path, b"a model") == blob
    assert Path(blob.path).stat().st_ino == before
    assert write_blob(tmp_path, b"another").name != blob.name
    assert bytes(map_blob(blob)) == b"a model"
    assert (blob.nbytes, blob.crc32c) == (7, crc32c(b"a model"))


def test_a_dropped_blob_can_still_be_sent_by_who_has_it(tmp_path):
    blob = write_blob(tmp_path, b"a model")
    view = map_blob(blob)
    drop_blob(blob)
    drop_blob(blob)
    assert bytes(view) == b"a model"
    assert not Path(blob.path).exists()


def test_nothing_is_a_blob_too(tmp_path):
    assert bytes(map_blob(write_blob(tmp_path, b""))) == b""


def test_a_model_that_does_not_fit_says_so(tmp_path):
    with pytest.raises(RunFailed, match="does not fit into shared memory"):
        write_blob(tmp_path / "missing", b"a model")


def test_the_memory_of_a_killed_server_is_given_back_and_that_of_a_living_one_is_not(memory):
    folders, children = [], []
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(memory)], stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout is not None
        folders.append(Path(child.stdout.readline().strip()))
    try:
        write_blob(folders[0], b"left behind")
        children[0].send_signal(signal.SIGKILL)
        children[0].wait()
        mine = make_shared_folder()
        assert not folders[0].exists()
        assert folders[1].exists()
        assert mine.stat().st_mode & 0o777 == 0o700
        another = make_shared_folder()  # of the same process: neither sweeps the other away
        assert mine.exists()
        remove_folder(mine)
        remove_folder(another)
        assert not mine.exists()
    finally:
        for child in children:
            child.kill()
            child.wait()
            child.stdout.close()
