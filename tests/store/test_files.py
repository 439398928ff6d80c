"""Files that are whole or not there, and trees that hold their own hash."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.store.files import DamagedFile, file_hash, load_tree, meta_of, save_tree

TREE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(7), "c": np.zeros((0, 2))}


def test_a_tree_comes_back_and_is_the_same_bytes_every_time(tmp_path):
    for name in ("one", "two"):
        save_tree(tmp_path / name, TREE, {"position": 3, "deep": {"x": [1.5, None]}})
    tree, meta = load_tree(tmp_path / "one")
    assert meta == meta_of(tmp_path / "one") == {"position": 3, "deep": {"x": [1.5, None]}}
    assert all(np.array_equal(v, tree[n]) and v.dtype == tree[n].dtype and v.shape == tree[n].shape for n, v in TREE.items())
    assert file_hash(tmp_path / "one") == file_hash(tmp_path / "two")


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path_factory, at, bit):
    path = tmp_path_factory.mktemp("flip") / "tree"
    save_tree(path, TREE, {"n": 1})
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    try:
        tree, meta = load_tree(path)
    except DamagedFile:
        return
    assert meta == {"n": 1} and all(np.array_equal(v, tree[n]) for n, v in TREE.items())


@pytest.mark.parametrize("content", [b"", b"torn", b"\xff" * 100])
def test_what_is_no_tree_is_damaged(tmp_path, content):
    (tmp_path / "tree").write_bytes(content)
    with pytest.raises(DamagedFile, match="cannot be read"):
        load_tree(tmp_path / "tree")
    with pytest.raises(DamagedFile, match="missing"):
        load_tree(tmp_path / "none")
