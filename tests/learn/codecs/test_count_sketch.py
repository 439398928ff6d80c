"""The count sketch: linear, right on average, exact without collisions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.learn.codecs.count_sketch import buckets, estimate_vector, sketch, sketch_vector
from fedfleet.learn.codecs.messages import encode, nbytes
from tests.learn.codecs.codecs import travelled


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
