"""The content hash of files and folders."""

import os

from fedfleet.tasks.file_hash import path_hash


def test_a_hash_follows_the_content_of_a_file_and_not_its_place(tmp_path):
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    a.write_text("1")
    b.write_text("1")
    assert path_hash(a) == path_hash(b)
    before = path_hash(a)
    a.write_text("2")
    os.utime(a, ns=(1, 1))
    assert path_hash(a) != before


def test_a_folder_counts_names_and_contents_but_no_hidden_files(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/ann.csv").write_text("1")
    before = path_hash(tmp_path)
    (tmp_path / ".cache").write_text("noise")
    assert path_hash(tmp_path) == before
    (tmp_path / "x/ann.csv").rename(tmp_path / "x/eva.csv")
    assert path_hash(tmp_path) != before
