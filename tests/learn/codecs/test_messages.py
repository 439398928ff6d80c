"""Encoding, decoding, sending stacks through, and counting bytes."""

import contextlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.tensor_format import pack_tree
from fedfleet.learn.codecs import messages
from fedfleet.learn.codecs.chain import chain
from fedfleet.learn.codecs.lossless import gzip
from fedfleet.learn.codecs.low_rank import lowrank
from fedfleet.learn.codecs.messages import (
    addresses,
    decode,
    decode_bytes,
    encode,
    encode_bytes,
    expected_nbytes,
    layout,
    nbytes,
    round_trip,
)
from fedfleet.learn.codecs.quantisation import int4, int8
from fedfleet.learn.codecs.sparsification import randomk, topk
from tests.learn.codecs.codecs import HERE, codec, leaves, travelled

pytestmark = pytest.mark.slow


def drawn(where, leaf, n):
    return torch.cat([bits for _, bits in messages.draws(torch.tensor(where), leaf, n)])


def test_draws_depend_on_address_leaf_and_element_alone(monkeypatch):
    whole = drawn([3, -7, 9], 2, 50)
    assert torch.equal(whole[1], drawn([-7], 2, 50)[0]) and torch.equal(whole[:, :20], drawn([3, -7, 9], 2, 20))
    assert not torch.equal(whole, drawn([3, -7, 9], 3, 50))
    monkeypatch.setattr(messages, "CHUNK_ELEMENTS", 60)
    assert torch.equal(whole, drawn([3, -7, 9], 2, 50))


def test_draws_are_uniform():
    each = torch.cat([u for _, u in messages.uniforms(torch.arange(100), 0, 1000)]).numpy().ravel()
    assert each.min() >= 0.0 and each.max() < 1.0
    counts = np.histogram(each, 20, (0, 1))[0]
    assert np.square(counts - 5000).sum() / 5000 < 45  # chi squared with 19 degrees of freedom: one in a thousand
    assert int(drawn([5], 0, 100).min()) >= 0


NAMES = st.text("abc.", min_size=1, max_size=4)


@pytest.mark.parametrize("name", HERE)
@settings(max_examples=12, deadline=None)
@given(tree=st.dictionaries(NAMES, leaves(), min_size=1, max_size=3), address=st.integers(-(2**63), 2**63 - 1))
def test_any_tree_arrives_within_the_promise_and_in_as_many_bytes_as_said(name, tree, address):
    made = codec(name)
    data = encode_bytes(made, tree, address)
    back, promise = decode_bytes(made, data, tree), made.within(tree)
    for n, leaf in tree.items():
        assert (back[n].dtype, back[n].shape) == (leaf.dtype, leaf.shape)
        off = np.abs(back[n].astype(np.float64) - leaf)
        assert ((off <= promise[n] + 1e-37) | np.isinf(promise[n])).all()
    assert nbytes(made, tree) in (None, float(len(data)))


@settings(max_examples=30, deadline=None)
@given(tree=st.dictionaries(NAMES, leaves(finite=False), max_size=3))
@pytest.mark.parametrize("name", [n for n in ("gzip", "deflate", "zstd") if n in HERE])
def test_lossless_codecs_keep_every_bit(name, tree):
    for shuffle in (False, True):
        made = codec(name, {"shuffle": shuffle})
        back = decode_bytes(made, encode_bytes(made, tree), tree)
        assert {n: v.tobytes() for n, v in back.items()} == {n: v.tobytes() for n, v in tree.items()}


def test_a_nan_keeps_its_payload_and_zero_its_sign():
    odd = {"w": np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800001], np.uint32).view(np.float32)}
    made = gzip(shuffle=True)
    assert travelled(made, odd)["w"].tobytes() == odd["w"].tobytes()


def test_both_ends_may_lay_out_their_trees_in_another_order():
    tree = {n: np.random.default_rng(i).normal(size=(20, 3)).astype(np.float32) for i, n in enumerate("bca")}
    for made in (randomk(share=0.3), int4(rounding="stochastic"), chain([topk(), int8()])):
        turned = decode(made, encode(made, tree, 9), {n: tree[n] for n in "abc"})
        assert {n: v.tobytes() for n, v in turned.items()} == {n: v.tobytes() for n, v in travelled(made, tree, 9).items()}


def test_nothing_to_say_takes_no_bytes():
    assert encode_bytes(int8(), {}) == b"" and decode_bytes(int8(), b"", {}) == {} and nbytes(int8(), {}) == 0.0


def test_integers_alone_are_no_work_for_a_codec_of_numbers():
    counters = {"steps": np.arange(3)}
    for act in (lambda c: encode(c, counters), lambda c: nbytes(c, counters), lambda c: layout(c, counters)):
        with pytest.raises(BadInput, match=r"codec 'int8' changes float32 numbers, .*\(leaf 'steps' is int64\)"):
            act(int8())
    assert travelled(gzip(), counters)["steps"].tolist() == [0, 1, 2]


def test_addresses_follow_from_seed_client_and_task():
    keys, tasks = np.array([5, 5, 6], np.uint64), np.array([1, 2, 1])
    result = addresses(3, keys, tasks)
    assert len(set(result.tolist())) == 3 and result.dtype == np.int64
    assert addresses(3, keys[:1], tasks[:1])[0] == result[0] != addresses(4, keys[:1], tasks[:1])[0]


def test_in_a_stack_leaves_of_other_types_are_left_alone():
    stack = {"w": torch.ones(2, 30), "n": torch.tensor([[3], [4]]), "d": torch.full((2, 20), 0.1, dtype=torch.float64)}
    result = round_trip(int4(), stack, np.array([1, 2]))
    assert list(result) == list(stack) and result["n"] is stack["n"] and result["d"] is stack["d"]
    assert round_trip(gzip(), stack, np.array([1, 2]))["w"] is stack["w"]
    assert list(round_trip(int4(), {"n": stack["n"]}, np.array([1, 2]))) == ["n"]


def test_what_can_be_foreseen_stops_where_values_decide():
    like = {"w": np.zeros((64, 64), np.float32)}
    assert expected_nbytes(chain([int8(), gzip()]), like) == nbytes(int8(), like)
    assert expected_nbytes(gzip(), like) == expected_nbytes(lowrank(energy=0.9), like) == 4 * 64 * 64
    assert nbytes(gzip(), like) is None and nbytes(chain([int8(), gzip()]), like) is None


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=40), at=st.integers(0, 300), name=st.sampled_from(HERE))
def test_scratched_bytes_are_refused_or_a_tree_of_the_right_shape(data, at, name):
    tree = {"w": np.linspace(-1, 1, 60, dtype=np.float32).reshape(6, 10), "n": np.array(3)}
    made = codec(name)
    whole = encode_bytes(made, tree)
    with contextlib.suppress(Refused):
        back = decode_bytes(made, whole[:at] + data + whole[at + len(data) :], tree)
        assert {n: v.shape for n, v in back.items()} == {n: v.shape for n, v in tree.items()}


def test_places_that_are_not_there_are_refused():
    made, tree = topk(share=0.5), {"w": np.ones(4, np.float32)}
    coded = encode(made, tree)
    for place in (4, -1, 2**31 - 1):
        with pytest.raises(Refused, match="cannot be decoded by topk"):
            decode(made, {**coded, "w|at": np.array([0, place], np.int32)}, tree)
    with pytest.raises(Refused, match="was not made by topk"):
        decode(made, {**coded, "w|at": np.array([0.0, 1.0])}, tree)
    with pytest.raises(Refused):
        decode_bytes(made, pack_tree({**coded, "more": np.ones(1)}), tree)
