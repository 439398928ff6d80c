"""Code that a person trusts on this machine, by its hash."""

import stat

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.trusted_code import forget, keep_received, source_hash, trust, trusted_file, trusted_source


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_trust_is_for_one_version_and_can_be_taken_back():
    digest = trust("a = 1\n")
    assert digest == source_hash("a = 1\n") and trusted_source(digest) == "a = 1\n"
    assert trusted_source(source_hash("a = 2\n")) is None
    assert stat.S_IMODE(trusted_file(digest).parent.stat().st_mode) == 0o700
    forget(digest)
    assert trusted_source(digest) is None
    forget(digest)  # once more is no error


def test_a_copy_that_was_changed_is_no_longer_trusted():
    digest = trust("a = 1\n")
    trusted_file(digest).write_text("import os\n")
    assert trusted_source(digest) is None


def test_received_code_is_kept_for_reading_and_not_trusted():
    path = keep_received("a = 1\n")
    assert path.read_text() == "a = 1\n" and trusted_source(source_hash("a = 1\n")) is None


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "a" * 63])
def test_a_hash_is_never_a_path(digest):
    with pytest.raises(BadInput, match="64 digits"):
        trusted_file(digest)


def test_a_state_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(BadInput, match="XDG_STATE_HOME"):
        trust("a = 1\n")
