"""Fetching files and datasets: checked, whole or not there at all."""

import io
import sys

import pytest

from fedfleet.app.datasets import fetch
from fedfleet.app.datasets.fetch import fetch_dataset, fetch_file
from fedfleet.core.errors import BadInput, RunFailed
from tests.app.datasets.shelf import BODY, SHA, beside, known


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


def test_a_wrong_hash_is_refused_and_nothing_kept(shelf, target):
    with pytest.raises(RunFailed, match=f"SHA-256 is {SHA} instead of 0000") as told:
        fetch_file(known(shelf, sha256="0" * 64), target)
    assert "the download was not kept" in str(told.value) and "resume" not in str(told.value)
    assert beside(target) == []


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


def test_the_default_folder_is_fedfleet_data_or_data_here(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDFLEET_DATA", str(tmp_path / "own"))
    assert fetch_dataset("tiny")["folder"] == str(tmp_path / "own" / "tiny")
    monkeypatch.delenv("FEDFLEET_DATA")
    monkeypatch.chdir(tmp_path)
    assert fetch_dataset("tiny")["folder"] == "data/tiny"
    assert (tmp_path / "data/tiny/file.bin").is_file()


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
    with pytest.raises(RunFailed, match="different part"):
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
