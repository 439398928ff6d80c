"""Chains: in order up, in reverse down, and what cannot follow what."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.learn.codecs.chain import chain
from fedfleet.learn.codecs.messages import decode, encode, nbytes
from tests.learn.codecs.codecs import codec, travelled

TREE = {"w": np.random.default_rng(0).normal(size=(40, 30)).astype(np.float32), "n": np.array(2)}


def of(*names):
    return chain([codec(n) for n in names], "up")


def test_nothing_is_no_codec_and_one_is_itself():
    assert chain([]) is None
    assert of("int8") == codec("int8")


def test_what_is_sent_goes_through_in_order_and_what_arrives_in_reverse():
    both = encode(of("topk", "int8"), TREE)
    inner = encode(codec("int8"), {"w": encode(codec("topk"), TREE)["w"]})
    assert both["|codes"].tolist() == inner["|codes"].tolist() and both["|scales"].tolist() == inner["|scales"].tolist()
    kept = travelled(of("topk", "int8"), TREE)["w"]
    assert ((kept == 0) >= (travelled(codec("topk"), TREE)["w"] == 0)).all()
    assert np.abs(kept - travelled(codec("topk"), TREE)["w"]).max() <= np.abs(TREE["w"]).max() / 254 + 1e-6


def test_bytes_behind_numbers_change_no_bit():
    alone = travelled(codec("int4"), TREE)
    packed = travelled(of("int4", "gzip"), TREE)
    assert {n: v.tobytes() for n, v in packed.items()} == {n: v.tobytes() for n, v in alone.items()}
    assert of("int4", "gzip").within(TREE)["w"].max() == codec("int4").within(TREE)["w"].max()


def test_sizes_add_up_as_what_is_sent():
    assert nbytes(of("topk", "int8"), TREE) < nbytes(of("topk"), TREE) < nbytes(codec("int8"), TREE)
    assert nbytes(of("topk", "int8", "gzip"), TREE) is None
    assert list(encode(of("topk", "int8", "gzip"), TREE)) == ["|bytes"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("gzip", "int8"), "up: 'gzip' cannot come before 'int8', which needs numbers but would get bytes; swap the two"),
        (("int8", "topk"), "up: 'int8' cannot come before 'topk', which needs numbers but would get rounded ones"),
        (("int8", "int4"), "up: 'int8' and 'int4' cannot follow each other: both round numbers; leave one out"),
        (("fp16", "int4"), "up: 'fp16' and 'int4' cannot follow each other: both round numbers; leave one out"),
        (("topk", "randomk"), "up: 'topk' and 'randomk' cannot follow each other: both select numbers; leave one out"),
        (("gzip", "deflate"), "up: 'gzip' and 'deflate' cannot follow each other: both compress bytes; leave one out"),
        (("topk", "gzip", "int8"), "up: 'gzip' cannot come before 'int8'"),
    ],
)
def test_what_cannot_follow_is_refused_by_both_names(names, said):
    with pytest.raises(BadInput) as refused:
        of(*names)
    assert str(refused.value).startswith(said)


def test_numbers_of_unknown_size_are_followed_by_bytes_only():
    with pytest.raises(BadInput, match="'int8' cannot follow 'lowrank', whose size depends on the values"):
        chain([codec("lowrank", {"energy": 0.9}), codec("int8")])
    whole = chain([codec("lowrank", {"energy": 0.9}), codec("gzip")])
    assert decode(whole, encode(whole, TREE), TREE)["w"].shape == (40, 30)
