"""Fetching files and datasets: checked, whole or not there at all."""

import io
import sys

import pytest

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
