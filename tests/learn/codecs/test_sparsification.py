"""Few of many numbers."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.learn.codecs.messages import encode, nbytes, round_trip
from fedfleet.learn.codecs.sparsification import count, randomk, topk
from tests.learn.codecs.codecs import femnist_like, travelled


@settings(deadline=None)
@given(
    values=st.lists(st.integers(-3, 3), min_size=1, max_size=40).map(lambda v: np.array(v, np.float32)),
    share=st.floats(0.01, 1.0),
)
def test_the_largest_arrive_and_the_first_among_equals(values, share):
    back = travelled(topk(share=share), {"w": values})["w"]
    k = count(len(values), share)
    kept = sorted(np.argsort(-np.abs(values), kind="stable")[:k].tolist())
    expected = np.zeros_like(values)
    expected[kept] = values[kept]
    assert back.tolist() == expected.tolist()
    assert encode(topk(share=share), {"w": values})["w|at"].tolist() == kept


def test_random_ones_are_others_in_each_task_and_the_same_at_both_ends():
    tree = {"w": np.arange(1, 101, dtype=np.float32)}
    back = [travelled(randomk(share=0.1), tree, a)["w"] for a in (1, 1, 2)]
    assert back[0].tolist() == back[1].tolist() != back[2].tolist()
    assert all((b > 0).sum() == 10 and set(b[b > 0]) <= set(tree["w"]) for b in back)
    assert set(encode(randomk(share=0.1), tree, 1)) == {"w", "|address"}


def test_unbiased_ones_are_right_on_average():
    stack = {"w": torch.arange(1.0, 41.0).expand(6000, 40)}
    result = round_trip(randomk(share=0.25, unbiased=True), stack, np.arange(6000))["w"].double().mean(0).numpy()
    assert np.abs(result / np.arange(1, 41) - 1).max() < 5 * np.sqrt(3 / 6000)


def test_positions_travel_for_the_largest_only():
    like = femnist_like()
    plain = 4 * 0.05 * 3_327_934
    assert abs(nbytes(topk(), like) / (2 * plain) - 1) < 0.01
    assert abs(nbytes(randomk(), like) / plain - 1) < 0.01


def test_what_is_not_finite_is_never_left_out_by_chance():
    tree = {"w": np.ones(1000, np.float32), "b": np.ones(100, np.float32)}
    tree["w"][3] = np.nan
    for address in range(5):
        back = travelled(randomk(share=0.01), tree, address)
        assert np.isnan(back["w"]).sum() == 10 and np.isfinite(back["b"]).all()
