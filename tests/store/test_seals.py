"""Seals: what they cover, what they notice, and what cannot be read."""

import json

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.store.seals import (
    Seal,
    files_of,
    first_change,
    hashes,
    identity,
    identity_change,
    kind_of,
    read_seal,
    write_seal,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "counterfactuals" / "abc").mkdir(parents=True)
    pages = ("report.html", "explain.html", "counterfactuals/abc/run.db")
    for name in ("spec.toml", "run.db", *pages, "lock", "half.part", "own/own.json"):
        (tmp_path / name).write_text(name)
    write_seal(tmp_path, Seal("d", 3, "l", hashes(tmp_path, files_of(tmp_path))))
    return tmp_path


def test_a_seal_covers_what_was_written_and_comes_back(folder):
    seal = read_seal(folder)
    assert set(seal.files) == {"spec.toml", "run.db", "own/own.json"}
    assert (seal.digest, seal.rows, seal.link, seal.signature) == ("d", 3, "l", None)
    assert first_change(folder, seal) is None
    assert read_seal(folder / "own") is None


def test_what_changed_is_named(folder):
    seal = read_seal(folder)
    (folder / "report.html").write_text("drawn again")
    assert first_change(folder, seal) is None
    (folder / "notes").write_text("")
    assert first_change(folder, seal) == "notes was added after the run was sealed"
    (folder / "run.db-wal").write_text("frames")
    assert first_change(folder, seal) == "run.db-wal was added after the run was sealed"
    (folder / "own/own.json").write_text("other")
    assert first_change(folder, seal) == "own/own.json was changed after it was sealed"
    assert first_change(folder, seal, ["run.db"]) is None
    (folder / "run.db").unlink()
    assert first_change(folder, seal, ["run.db"]) == "run.db is missing"


def test_a_run_remembers_what_it_began_with(folder):
    begun = identity(folder, "served")
    assert kind_of(begun) == "served" and identity_change(folder, begun) is None
    (folder / "own/more.py").write_text("")
    assert identity_change(folder, begun) == "own/more.py was added after the run began"
    (folder / "own/more.py").unlink()
    (folder / "spec.toml").unlink()
    assert identity_change(folder, begun) == "spec.toml is missing after the run began"
    assert kind_of("mine") == "unknown" and "does not say" in identity_change(folder, "mine")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"format": "fedfleet/seal@1", "digest": 1}'])
def test_a_seal_that_is_none_is_one_sentence(folder, body):
    (folder / "seal.json").write_bytes(body)
    with pytest.raises(BadInput, match="damaged"):
        read_seal(folder)
    whole = {"format": "fedfleet/seal@1", "digest": "d", "rows": "many", "link": "l", "files": {}}
    (folder / "seal.json").write_text(json.dumps(whole))
    with pytest.raises(BadInput, match="unexpected content"):
        read_seal(folder)
