"""Transferring files, against a server on the loopback that can cut, lie, stall and ignore."""

import pytest

from fedfleet.app.datasets import http_download
from fedfleet.app.datasets.fetch import fetch_file
from fedfleet.core.errors import RunFailed
from tests.app.datasets.shelf import BODY, beside, known


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
    monkeypatch.setattr(http_download, "LARGEST_BYTES", 400_000)
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
    monkeypatch.setattr(http_download, "SILENCE_SECONDS", 0.1)
    shelf.stall_seconds = 0.4
    with pytest.raises(RunFailed, match="timed out"):
        fetch_file(known(shelf), target)
