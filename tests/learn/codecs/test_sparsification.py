"""Few of many numbers."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.learn.codecs.messages import encode, nbytes, round_trip
from fedfleet.learn.codecs.sparsification import buckets, count, estimate_vector, randomk, sketch, sketch_vector, topk
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


def vector(seed, n=400):
    return np.random.default_rng(seed).integers(-50, 50, n).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(seeds=st.tuples(st.integers(0, 99), st.integers(100, 199)), hashes=st.integers(0, 9))
def test_sketches_add_up(seeds, hashes):
    x, y = map(vector, seeds)
    both = sketch_vector(x, 5, 0.2, hashes) + sketch_vector(y, 5, 0.2, hashes)
    assert np.array_equal(both, sketch_vector(x + y, 5, 0.2, hashes))


def test_heavy_numbers_are_found_among_light_ones():
    x = np.random.default_rng(0).normal(size=5000).astype(np.float32) * np.float32(0.01)
    x[[7, 500, 4000]] = [10.0, -20.0, 30.0]
    back = travelled(sketch(share=0.2, top=3 / 5000), {"w": x})["w"]
    assert np.flatnonzero(back).tolist() == [7, 500, 4000]
    assert np.allclose(back[[7, 500, 4000]], [10.0, -20.0, 30.0], atol=0.5)


def test_without_collisions_everything_arrives():
    x = np.zeros(1000, np.float32)
    x[123] = -4.0
    assert travelled(sketch(top=0.001), {"a": x[:500], "b": x[500:]})["a"].tolist() == x[:500].tolist()


def test_one_sketch_of_a_share_of_all_numbers_travels():
    tree = {"a": vector(1), "b": vector(2).reshape(20, 20), "n": np.array(4)}
    coded = encode(sketch(rows=4, share=0.5), tree)
    assert {n: v.shape for n, v in coded.items()} == {"n": (), "|sketch": (4, 100)}
    assert buckets(800, 4, 0.5) == 100 and nbytes(sketch(rows=4, share=0.5), tree) > 1600


def test_other_hashes_make_another_sketch():
    assert not np.array_equal(sketch_vector(vector(0), 3, 0.5, 1), sketch_vector(vector(0), 3, 0.5, 2))
    assert np.isnan(estimate_vector(np.array([[1.0, np.nan]], np.float32), 5, 1.0, 0)).all()
