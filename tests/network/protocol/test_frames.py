"""What crosses the wire: trees and offers survive it, garbled bytes are named, addresses are checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.parts import Offer
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import content_hash
from fedfleet.network.protocol.frames import (
    offer_from_bytes,
    offer_to_bytes,
    split_address,
)


def test_trees_survive_the_wire_with_types_and_shapes() -> None:
    tree = {
        "scalar": np.array(3, np.int64),
        "strided": np.arange(12, dtype=np.float32).reshape(3, 4).T,
        "empty": np.zeros((0, 2), np.float32),
        "half": np.ones(3, np.float16),
    }
    back = unpack_tree(pack_tree(tree))
    assert content_hash(back) == content_hash(tree)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04K\x01.",
        b"\xff" * 64,
        pack_tree({"w": np.ones(4)})[:-1],
        pack_tree({"w": np.ones(4)}) + b"x",
    ]
    + [b'\x38\0\0\0\0\0\0\0{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}   ' + b"\0" * 2],
)
def test_garbled_bytes_are_named_and_never_more(data: bytes) -> None:
    with pytest.raises(Refused):
        unpack_tree(data)


@pytest.mark.parametrize("text", ["", "here", ":1", "a:b", "a:-1", "a:65536", "a:1:2", "::1:80", "unix:/tmp/x", "a b:1", "a:0"])
def test_a_malformed_address_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="HOST:PORT"):
        split_address(text)


def test_good_addresses() -> None:
    assert split_address("localhost:1") == ("localhost", 1)
    assert split_address("[::1]:50051") == ("[::1]", 50051)
    assert split_address("127.0.0.1:0", any_port=True) == ("127.0.0.1", 0)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=8).filter(
    lambda name: name != "__metadata__" and not name.startswith("extra|")
)
TREES = st.dictionaries(NAMES, st.lists(st.floats(width=32), max_size=5).map(lambda v: np.array(v, np.float32)), max_size=4)


@given(params=TREES, extra=TREES)
def test_offers_with_extras_travel(params: dict[str, np.ndarray], extra: dict[str, np.ndarray]) -> None:
    back = offer_from_bytes(offer_to_bytes(Offer(params, extra)))
    for given_, result in ((params, back.params), (extra, back.extra)):
        assert result.keys() == given_.keys()
        assert all(result[n].tobytes() == v.tobytes() and result[n].dtype == v.dtype for n, v in given_.items())


def test_an_extra_may_have_the_name_of_a_leaf() -> None:
    back = offer_from_bytes(offer_to_bytes(Offer({"w": np.zeros(2)}, {"w": np.ones(3)})))
    assert (back.params["w"].tolist(), back.extra["w"].tolist()) == ([0.0, 0.0], [1.0, 1.0, 1.0])


def test_an_offer_without_extras_is_just_its_model() -> None:
    model = {"w": np.arange(3, dtype=np.float32)}
    assert offer_to_bytes(Offer(model)) == pack_tree(model)
    assert offer_from_bytes(pack_tree(model)).extra == {}


def test_a_garbled_offer_is_named_too() -> None:
    with pytest.raises(Refused, match="safetensors"):
        offer_from_bytes(b"\x80\x04pickle")


def test_leaves_come_back_in_the_order_of_their_names() -> None:
    assert list(unpack_tree(pack_tree({"b": np.ones(1), "a": np.ones(1), "c": np.ones(1)}))) == ["a", "b", "c"]
