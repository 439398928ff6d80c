"""Modes of files: private where they are asked to be, and where their folder is."""

import os
import stat

import pytest

from fedfleet.app.pages.html import write_page
from fedfleet.store.file_modes import creation_mode, private_files
from fedfleet.store.files import write_atomically


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def open_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_whatever_is_made_meanwhile_is_private_and_nothing_afterwards(tmp_path):
    with private_files():
        (tmp_path / "a").write_text("a")
        (tmp_path / "inner").mkdir()
    (tmp_path / "b").write_text("b")
    assert [mode(tmp_path / name) for name in ("a", "inner", "b")] == [0o600, 0o700, 0o644]


@pytest.mark.parametrize(("folder", "expected"), [(0o700, 0o600), (0o755, 0o644), (0o750, 0o644)])
def test_files_are_private_in_a_private_folder(tmp_path, folder, expected):
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(folder)
    write_atomically(tmp_path / "run" / "data", b"x")
    write_page(tmp_path / "run" / "page.html", "x")
    assert [mode(tmp_path / "run" / name) for name in ("data", "page.html")] == [expected] * 2
    assert creation_mode(tmp_path / "run") & ~0o022 == expected
