"""A message with numpy alone: the bits that PyTorch makes of it, in both directions."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.codec import Codec
from fedfleet.learn.codecs import lossless, low_rank, quantisation
from fedfleet.learn.codecs.chain import chain
from fedfleet.learn.codecs.messages import decode, encode, round_trip
from fedfleet.learn.codecs.quantisation import int4, int8
from fedfleet.learn.codecs.sparsification import randomk, sketch, topk

SHAPES = {"conv.weight": (8, 3, 5, 5), "bias": (10,), "flat": (300,), "one": (), "none": (0, 3), "head": (7, 33)}
CODECS = [
    *(getattr(quantisation, f"int{bits}")(rounding=rounding) for bits in range(2, 9) for rounding in ("nearest", "stochastic")),
    quantisation.fp16(), quantisation.bf16(), topk(share=0.1), topk(share=1.0), randomk(share=0.2),
    randomk(share=0.3, unbiased=True),
    sketch(), sketch(rows=2, share=0.5, top=1.0), chain([topk(share=0.2), int8()]), chain([randomk(), int4(rounding="stochastic")]),
    chain([sketch(), quantisation.fp16()]), chain([topk(), int8(), lossless.gzip()]),
]  # fmt: skip


def through_torch(codec: Codec) -> Codec:
    return replace(codec, squeeze_tree=None, expand_tree=None)


def trees():
    """Ordinary numbers, equal ones, none, tiny and huge ones, and some that are not finite."""
    draw = np.random.default_rng(3)
    usual = {n: draw.normal(size=shape).astype(np.float32) for n, shape in SHAPES.items()} | {"steps": np.array(7)}
    yield usual
    yield {n: np.ones_like(v) for n, v in usual.items()}
    yield {n: np.zeros_like(v) for n, v in usual.items()}
    yield {n: (v * 1e-42).astype(v.dtype) for n, v in usual.items()}
    yield {n: (v * 1e38).astype(v.dtype) if v.dtype == np.float32 else v for n, v in usual.items()}
    for odd in (np.nan, np.inf, -np.inf):
        flat = usual["flat"].copy()
        flat[17] = odd
        yield usual | {"flat": flat}


def bits(tree):
    """The bits of every leaf; what is no number is one and the same."""
    same = {n: np.where(np.isnan(v), np.nan, v).astype(v.dtype) if v.dtype.kind == "f" else v for n, v in tree.items()}
    return {n: (v.dtype.str, v.shape, v.tobytes()) for n, v in same.items()}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: f"{codec.name}-{codec.settings}")
def test_numpy_and_pytorch_make_the_same_of_a_message(codec):
    assert codec.squeeze_tree is not None and codec.expand_tree is not None
    for number, tree in enumerate(trees()):
        for address in (0, -5, 2**62 + number):
            plain, torch = encode(codec, tree, address), encode(through_torch(codec), tree, address)
            odd = number >= 5 and "bf16" in codec.name  # of what is not a number its integers may differ
            assert list(plain) == list(torch) and (odd or bits(plain) == bits(torch))
            like = {n: np.zeros_like(v) for n, v in tree.items()}
            assert bits(decode(codec, plain, like)) == bits(decode(through_torch(codec), torch, like))


def test_so_it_is_what_a_stack_of_clients_arrives_as():
    import torch

    tree = next(trees())
    stack = {n: torch.from_numpy(np.array(v)).unsqueeze(0) for n, v in tree.items()}
    for codec in CODECS:
        arrived = round_trip(codec, stack, np.array([11]))
        like = {n: np.zeros_like(v) for n, v in tree.items()}
        assert bits({n: v[0].numpy() for n, v in arrived.items()}) == bits(decode(codec, encode(codec, tree, 11), like))


def test_positions_outside_of_a_leaf_are_refused():
    from fedfleet.core.errors import Refused

    like = {"w": np.zeros(40, np.float32)}
    sent = encode(topk(share=0.1), {"w": np.arange(40, dtype=np.float32)})
    for place in (-1, 40):
        with pytest.raises(Refused):
            decode(topk(share=0.1), sent | {"w|at": np.array([0, 1, 2, place], np.int32)}, like)


def test_a_decomposition_says_that_it_needs_pytorch(monkeypatch):
    from fedfleet.core.errors import BadInput
    from fedfleet.learn.codecs import messages

    monkeypatch.setattr(messages, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match="codec 'lowrank' computes with PyTorch, which is not installed"):
        encode(low_rank.lowrank(rank=1), {"w": np.ones((20, 20), np.float32)})
