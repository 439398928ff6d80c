"""The container of all tensors: what goes in comes out, to the last bit; anything else is refused."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from fedfleet.core.errors import Refused
from fedfleet.core.tensor_format import pack_tree, unpack_tree, view_tree, view_tree_and_array
from fedfleet.core.trees import content_hash

KINDS = (
    np.float16,
    np.float32,
    np.float64,
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.int64,
    np.uint64,
    np.bool_,
)
LEAVES = st.sampled_from(KINDS).flatmap(
    lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


def _is_utf8(name):
    return name != "__metadata__" and not any(0xD800 <= ord(letter) < 0xE000 for letter in name)


TREES = st.dictionaries(st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=6), LEAVES, max_size=4)


@given(TREES)
def test_any_tree_survives_to_the_last_bit(tree):
    data = pack_tree(tree)
    assert pack_tree(tree) == data
    assert content_hash(unpack_tree(data)) == content_hash(tree)


@given(st.dictionaries(st.text(max_size=6).filter(_is_utf8), LEAVES, max_size=5))
def test_the_bytes_are_those_of_the_library(tree):
    assert pack_tree(tree) == save({name: np.asarray(leaf, order="C") for name, leaf in tree.items()})


def test_a_leaf_of_another_type_is_named():
    with pytest.raises(TypeError, match="'w' has the type complex128"):
        pack_tree({"w": np.ones(2, complex)})


@given(st.binary(max_size=80))
def test_other_bytes_are_refused_or_a_tree(data):
    with contextlib.suppress(Refused):
        assert all(isinstance(leaf, np.ndarray) for leaf in unpack_tree(data).values())


@given(TREES)
def test_a_view_is_the_tree_and_the_whole_is_its_leaves_by_name(tree):
    result, whole = view_tree_and_array(pack_tree(tree))
    assert content_hash(result) == content_hash(tree) == content_hash(view_tree(pack_tree(tree)))
    if whole is not None:
        assert whole.tobytes() == b"".join(tree[name].tobytes() for name in sorted(tree))
        assert {leaf.dtype for leaf in tree.values()} == {whole.dtype}


def test_leaves_of_two_types_or_none_are_no_whole():
    one, other = np.ones(2, np.float32), np.ones(2, np.int64)
    assert view_tree_and_array(pack_tree({"b": one, "a": one * 2}))[1].tolist() == [2, 2, 1, 1]
    assert view_tree_and_array(pack_tree({"a": one, "b": other}))[1] is None
    assert view_tree_and_array(pack_tree({}))[1] is None


def test_what_is_cut_off_or_longer_is_refused():
    data = pack_tree({"w": np.arange(5.0)})
    for spoilt in (data[:-1], data + b"x", data[:4], b"\x80\x04K\x01."):
        with pytest.raises(Refused, match="its tensors"):
            unpack_tree(spoilt)
