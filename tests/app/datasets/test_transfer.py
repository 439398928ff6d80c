"""Fetching datasets, against a server on the loopback that can cut, lie, stall and ignore."""

import hashlib
import io
import json
import random
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath

import pytest

from fedfleet.app import fetch
from fedfleet.app.fetch import DATASETS, Dataset, RemoteFile, fetch_dataset, fetch_file
from fedfleet.core.errors import BadInput, RunFailed

BODY = random.Random(1).randbytes(700_000)
SHA = hashlib.sha256(BODY).hexdigest()


@dataclass
class Shelf:
    """What the server has, how it behaves, and what it was asked for."""

    url: str = ""
    body: bytes = BODY
    tag: str | None = '"v1"'
    knows_ranges: bool = True
    tells_length: bool = True
    cut_after: int | None = None
    stall_seconds: float = 0.0
    status: int | None = None
    shift: int = 0  # answers a range so many bytes too late
    asked: list = field(default_factory=list)


def handler(shelf):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            shelf.asked.append({k.lower(): v for k, v in self.headers.items()})
            if shelf.status:
                self.send_error(shelf.status)
                return
            time.sleep(shelf.stall_seconds)
            begin = self.begin()
            if begin is None:
                return
            rest = shelf.body[begin:]
            if shelf.tells_length:
                self.send_header("Content-Length", str(len(rest)))
            if shelf.tag:
                self.send_header("ETag", shelf.tag)
            self.end_headers()
            self.wfile.write(rest[: shelf.cut_after])

        def begin(self):
            """Answer the head for where the body begins; None when there is nothing from there on."""
            wanted = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
            changed = self.headers.get("If-Range") not in (None, shelf.tag)
            if not wanted or not shelf.knows_ranges or changed:
                self.send_response(200)
                return 0
            begin = int(wanted[1]) + shelf.shift
            if begin >= len(shelf.body):
                self.send_error(416)
                return None
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(shelf.body) - 1}/{len(shelf.body)}")
            return begin

        def log_message(self, *words):
            pass

    return Handler


class Server(ThreadingHTTPServer):
    """Says nothing when a client goes away in the middle."""

    def handle_error(self, request, client_address):
        pass


@pytest.fixture
def shelf(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    shelf = Shelf()
    with Server(("127.0.0.1", 0), handler(shelf)) as server:
        shelf.url = f"http://127.0.0.1:{server.server_port}/file"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield shelf
        server.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "there" / "file.bin"


def known(shelf, **changes):
    return RemoteFile(**({"name": "file.bin", "url": shelf.url, "size": len(BODY), "sha256": SHA} | changes))


def beside(target):
    """The names in the target's folder."""
    return sorted(p.name for p in target.parent.iterdir()) if target.parent.exists() else []


def test_a_file_arrives_whole_and_checked(shelf, target):
    told = fetch_file(known(shelf), target)
    assert target.read_bytes() == BODY
    assert beside(target) == ["file.bin"]
    assert told == {
        "file": str(target),
        "bytes": len(BODY),
        "fetched_bytes": len(BODY),
        "sha256": SHA,
        "checked": "size right, hash right",
    }


def test_progress_is_told(shelf, target):
    seen = []
    fetch_file(known(shelf), target, lambda file, done, whole: seen.append((done, whole)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (len(BODY), len(BODY))
    assert len(seen) >= 2


def test_a_cut_connection_is_resumed_where_it_ended(shelf, target):
    shelf.cut_after = 300_000
    with pytest.raises(RunFailed, match=r"ended after 300,000 of 700,000 bytes"):
        fetch_file(known(shelf), target)
    assert beside(target) == ["file.bin.part", "file.bin.part.etag"], "nothing under the final name"
    with pytest.raises(RunFailed, match=r"ended after 600,000"):
        fetch_file(known(shelf), target)
    told = fetch_file(known(shelf), target)
    assert target.read_bytes() == BODY
    assert beside(target) == ["file.bin"]
    assert told["fetched_bytes"] == 100_000
    assert [asked.get("range") for asked in shelf.asked] == [None, "bytes=300000-", "bytes=600000-"]


def test_a_server_that_ignores_ranges_sends_all_again(shelf, target):
    shelf.cut_after = 300_000
    with pytest.raises(RunFailed):
        fetch_file(known(shelf), target)
    shelf.cut_after, shelf.knows_ranges = None, False
    assert fetch_file(known(shelf), target)["fetched_bytes"] == len(BODY)
    assert target.read_bytes() == BODY


def test_a_server_that_answers_another_range_is_refused(shelf, target):
    shelf.cut_after = 300_000
    with pytest.raises(RunFailed):
        fetch_file(known(shelf), target)
    shelf.shift = 7
    with pytest.raises(RunFailed, match="another part"):
        fetch_file(known(shelf), target)
    assert not target.exists()


@pytest.mark.parametrize("size", [len(BODY) - 1, len(BODY) + 1])
def test_a_wrong_size_is_refused_before_the_transfer(shelf, target, size):
    with pytest.raises(RunFailed, match=f"700,000 bytes instead of {size:,}"):
        fetch_file(known(shelf, size=size), target)
    assert beside(target) == []


@pytest.mark.parametrize("size", [1000, len(BODY) + 1])
def test_a_wrong_size_without_announcement_is_refused_too(shelf, target, size):
    shelf.tells_length = False
    with pytest.raises(RunFailed):
        fetch_file(known(shelf, size=size), target)
    assert not target.exists()


def test_a_stream_longer_than_anything_is_given_up(shelf, target, monkeypatch):
    monkeypatch.setattr(fetch, "LARGEST_BYTES", 400_000)
    shelf.tells_length = False
    with pytest.raises(RunFailed, match="more than 400,000 bytes"):
        fetch_file(known(shelf, size=None, sha256=None), target)
    assert beside(target) == []


def test_a_wrong_hash_is_refused_and_nothing_kept(shelf, target):
    with pytest.raises(RunFailed, match=f"SHA-256 is {SHA} instead of 0000") as told:
        fetch_file(known(shelf, sha256="0" * 64), target)
    assert "nothing of it was kept" in str(told.value) and "resume" not in str(told.value)
    assert beside(target) == []


def test_a_spoilt_part_is_found_out_by_the_hash_and_the_next_attempt_is_clean(shelf, target):
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(RunFailed, match="SHA-256"):
        fetch_file(known(shelf), target)
    assert beside(target) == []
    fetch_file(known(shelf), target)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("part", [BODY, BODY + b"more"], ids=["whole", "too long"])
def test_a_part_that_is_whole_or_too_long(shelf, target, part):
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(part)
    told = fetch_file(known(shelf), target)
    assert target.read_bytes() == BODY
    assert beside(target) == ["file.bin"]
    assert told["fetched_bytes"] == (0 if part == BODY else len(BODY))


def test_a_file_that_is_there_and_right_is_not_fetched(shelf, target):
    target.parent.mkdir()
    target.write_bytes(BODY)
    assert fetch_file(known(shelf), target)["fetched_bytes"] == 0
    assert shelf.asked == []


def test_a_file_that_is_there_and_wrong_is_left_alone(shelf, target):
    target.parent.mkdir()
    for content, why in ((b"mine", "4 bytes instead"), (b"x" * len(BODY), "SHA-256")):
        target.write_bytes(content)
        with pytest.raises(BadInput, match=why) as told:
            fetch_file(known(shelf), target)
        assert "move it away" in str(told.value)
        assert target.read_bytes() == content
    assert shelf.asked == []


def test_an_unknown_hash_is_said_and_shown(shelf, target):
    told = fetch_file(known(shelf, sha256=None), target)
    assert (told["checked"], told["sha256"]) == ("size right, hash not known", SHA)
    target.unlink()
    told = fetch_file(known(shelf, sha256=None, size=None), target)
    assert (told["checked"], told["sha256"]) == ("size not known, hash not known", SHA)


def test_without_a_hash_the_servers_tag_guards_against_mixing_versions(shelf, target):
    file = known(shelf, sha256=None, size=None)
    shelf.cut_after = 300_000
    with pytest.raises(RunFailed):
        fetch_file(file, target)
    shelf.cut_after = None
    shelf.body, shelf.tag = BODY[::-1], '"v2"'
    fetch_file(file, target)
    assert shelf.asked[-1]["if-range"] == '"v1"'
    assert target.read_bytes() == BODY[::-1], "the new version from its beginning"


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_without_hash_and_tag_a_part_is_not_trusted(shelf, target, tag):
    file = known(shelf, sha256=None)
    shelf.cut_after, shelf.tag = 300_000, tag
    with pytest.raises(RunFailed):
        fetch_file(file, target)
    shelf.cut_after, shelf.body = None, BODY[::-1]
    fetch_file(file, target)
    assert "range" not in shelf.asked[-1]
    assert target.read_bytes() == BODY[::-1]


def test_a_part_beyond_the_servers_file_starts_again(shelf, target):
    file = known(shelf, sha256=None, size=None)
    target.parent.mkdir()
    (target.parent / "file.bin.part").write_bytes(BODY + b"more")
    (target.parent / "file.bin.part.etag").write_text('"v1"')
    fetch_file(file, target)
    assert target.read_bytes() == BODY


def test_a_silent_server_is_given_up(shelf, target, monkeypatch):
    monkeypatch.setattr(fetch, "SILENCE_SECONDS", 0.1)
    shelf.stall_seconds = 0.4
    with pytest.raises(RunFailed, match="timed out"):
        fetch_file(known(shelf), target)


# the whole dataset, and the verb


@pytest.fixture
def tiny(shelf, monkeypatch):
    files = (known(shelf), RemoteFile("deep/other.bin", shelf.url, len(BODY)))
    monkeypatch.setitem(DATASETS, "tiny", Dataset("a test", "terms of a test", files, ("tiny:{at}/file.bin",)))
    return shelf


def test_the_verb_fetches_and_answers(tiny, fedfleet, tmp_path):
    code, out, err = fedfleet("data", "tiny", "--to", tmp_path, "--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["folder"] == str(tmp_path / "tiny")
    assert [f["checked"] for f in answer["files"]] == ["size right, hash right", "size right, hash not known"]
    assert answer["use"] == [f"tiny:{tmp_path}/tiny/file.bin"]
    assert (tmp_path / "tiny/deep/other.bin").read_bytes() == BODY
    code, out, err = fedfleet("data", "tiny", "--to", tmp_path)
    assert (code, err) == (0, "")
    assert out.count("was there") == 2 and out.count(SHA) == 2 and "hash not known" in out and "terms of a test" in out
    assert len(tiny.asked) == 2


def test_the_default_folder_is_fedfleet_data_or_data_here(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path / "own"))
    assert fetch_dataset("tiny")["folder"] == str(tmp_path / "own" / "tiny")
    monkeypatch.delenv("FEDFLEET_DATA")
    monkeypatch.chdir(tmp_path)
    assert fetch_dataset("tiny")["folder"] == "data/tiny"
    assert (tmp_path / "data/tiny/file.bin").is_file()


def test_a_failure_of_the_network_is_exit_1_and_says_how_to_resume(tiny, fedfleet, tmp_path):
    tiny.cut_after = 1000
    code, out, err = fedfleet("data", "tiny", "--to", tmp_path / "my data", "--json")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    words = f"fedfleet data tiny --to '{tmp_path}/my data'"
    assert words in err
    tiny.cut_after = None
    assert fedfleet("data", "tiny", "--to", tmp_path / "my data", "--json")[0] == 0
    assert tiny.asked[1]["range"] == "bytes=1000-"


@pytest.mark.parametrize(("status", "resume"), [(404, False), (403, False), (503, True)])
def test_refusals_of_the_server_are_exit_1(tiny, fedfleet, tmp_path, status, resume):
    tiny.status = status
    code, _, err = fedfleet("data", "tiny", "--to", tmp_path)
    assert code == 1
    assert f"answers {status}" in err and tiny.url in err
    assert ("to resume" in err) == resume
    assert not (tmp_path / "tiny/file.bin").exists()


def test_a_server_that_is_not_there_is_exit_1(tiny, fedfleet, tmp_path, monkeypatch):
    gone = Dataset("", "", (RemoteFile("a", "http://127.0.0.1:9/a"),))  # the discard port, where nobody listens
    monkeypatch.setitem(DATASETS, "gone", gone)
    code, _, err = fedfleet("data", "gone", "--to", tmp_path)
    assert code == 1
    assert "cannot be reached" in err and "to resume" in err


def test_bad_words_and_folders_are_exit_2(tiny, fedfleet, tmp_path):
    code, out, err = fedfleet("data", "fedscal", "--json")
    assert (code, out) == (2, "")
    assert "did you mean 'fedscale'" in err
    (tmp_path / "file").write_text("not a folder")
    code, _, err = fedfleet("data", "tiny", "--to", tmp_path / "file")
    assert code == 2
    assert "cannot be written" in err


def test_without_a_name_the_datasets_are_listed(fedfleet):
    code, out, _ = fedfleet("data", "--json")
    assert code == 0
    assert {d["name"] for d in json.loads(out)["datasets"]} >= {"fedscale", "flash", "flhetbench"}
    code, out, _ = fedfleet("data")
    assert code == 0
    assert "65.0 MB" in out and "flhetbench" in out


def test_a_terminal_gets_a_bar_on_standard_error(tiny, tmp_path, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for quiet in (False, True):
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        fetch_dataset("tiny", tmp_path / str(quiet), quiet=quiet)
        assert ("file.bin" in screen.getvalue()) == (not quiet)
    assert capsys.readouterr().out == ""


def test_the_table_is_sound():
    for dataset in DATASETS.values():
        names = [file.name for file in dataset.files]
        assert len(names) == len(set(names))
        for file in dataset.files:
            assert file.url.startswith("https://raw.githubusercontent.com/")
            path = PurePosixPath(file.name)
            assert not path.is_absolute() and ".." not in path.parts
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert file.sha256 is None or file.size is not None
