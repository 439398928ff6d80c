"""The exact mean: no order of arrival, chunking or layer of edges can change a bit."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core import exact
from fedfleet.core.rng import stream
from fedfleet.core.trees import content_hash

pytestmark = pytest.mark.slow

TOTAL = 2.0**24
BOUND = 2.0**10


def scales_for(like, **options):
    return {name: exact.scale_for(BOUND, TOTAL, **options) for name in like}


def summed(updates, weights, scales, like):
    acc = exact.zero(like, scales)
    for update, weight in zip(updates, weights, strict=True):
        acc = exact.add(acc, update, weight, scales)
    return acc


def bits(acc, scales):
    """Everything about a sum: the accumulator itself and the mean that it gives."""
    return content_hash(exact.save(acc)), content_hash(exact.mean(acc, scales) or {})


def thousand(rng):
    updates = [
        {"w": rng.normal(0, 3, (7, 5)).astype(np.float32), "b": rng.normal(0, 1e-3, 3).astype(np.float32)} for _ in range(1000)
    ]
    return updates, rng.uniform(0.01, 30.0, 1000).tolist()


@pytest.mark.parametrize("two_limbs", [False, True])
def test_a_thousand_updates_in_any_order_and_any_chunks_give_the_same_bits(two_limbs):
    rng = stream(1, "exact")
    updates, weights = thousand(rng)
    like = updates[0]
    scales = scales_for(like, two_limbs=two_limbs)
    expected = bits(summed(updates, weights, scales, like), scales)
    for _ in range(10):
        order = rng.permutation(1000)
        shuffled, heavy = [updates[i] for i in order], [weights[i] for i in order]
        assert bits(summed(shuffled, heavy, scales, like), scales) == expected
        cuts = np.sort(rng.integers(0, 1001, rng.integers(1, 40)))
        edges = [0, *cuts.tolist(), 1000]
        chunks = [summed(shuffled[a:b], heavy[a:b], scales, like) for a, b in pairwise(edges)]
        # Any two chunks may meet first: merged along a random tree, not along a line.
        while len(chunks) > 1:
            i, j = rng.choice(len(chunks), 2, replace=False).tolist()
            joined = exact.merge(chunks[i], chunks[j])
            chunks = [c for k, c in enumerate(chunks) if k not in (i, j)] + [joined]
        assert bits(chunks[0], scales) == expected


elements = st.floats(-1024.0, 1024.0, width=32)
reports = st.tuples(st.lists(elements, min_size=3, max_size=3), st.floats(1e-6, 1e4))


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(reports, min_size=1, max_size=8), st.randoms(use_true_random=False), st.booleans())
def test_orders_and_chunks_of_small_trees(given_reports, random, two_limbs):
    like = {"w": np.zeros(3, np.float32)}
    scales = scales_for(like, two_limbs=two_limbs)
    pairs = [({"w": np.array(x, np.float32)}, w) for x, w in given_reports]
    expected = bits(summed(*zip(*pairs, strict=True), scales, like), scales)
    random.shuffle(pairs)
    cut = random.randrange(len(pairs) + 1)
    parts = [summed([u for u, _ in part], [w for _, w in part], scales, like) for part in (pairs[:cut], pairs[cut:])]
    random.shuffle(parts)
    assert bits(exact.merge(*parts), scales) == expected


def test_the_mean_is_close_to_the_float64_mean():
    rng = stream(2, "exact")
    updates, weights = thousand(rng)
    scales = scales_for(updates[0])
    result = exact.mean(summed(updates, weights, scales, updates[0]), scales)
    for name in ("w", "b"):
        plain = np.average([u[name].astype(np.float64) for u in updates], axis=0, weights=weights)
        # Each report is rounded once to 2^-28, then the mean once to float32.
        rounding = 1000 * 2.0**-29 / sum(weights)
        assert result[name].dtype == np.float32
        assert np.all(np.abs(result[name] - plain) <= rounding + np.abs(plain) * 2.0**-23)


def test_the_weights_count():
    like = {"w": np.zeros(1, np.float32)}
    scales = scales_for(like)
    acc = summed([{"w": np.float32([4])}, {"w": np.float32([0])}], [0.75, 0.25], scales, like)
    assert exact.mean(acc, scales)["w"] == 3.0


def test_nothing_added_has_no_mean():
    like = {"w": np.zeros(1, np.float32)}
    assert exact.mean(exact.zero(like, scales_for(like)), scales_for(like)) is None


def test_leaves_longer_than_a_block_are_summed_whole():
    x = stream(3, "exact").normal(size=(3, 40_000)).astype(np.float32)
    scales = scales_for({"w": x})
    result = exact.mean(summed([{"w": x}], [1.0], scales, {"w": x}), scales)["w"]
    assert np.abs(result - x).max() <= 2.0**-22


@pytest.mark.parametrize("sign", [1, -1])
def test_extremes_at_the_full_total_weight_do_not_overflow(sign):
    like = {"w": np.zeros(2, np.float32)}
    scales = scales_for(like)
    full = {"w": np.full(2, sign * BOUND, np.float32)}
    assert np.array_equal(exact.mean(summed([full] * 4, [TOTAL / 4] * 4, scales, like), scales)["w"], full["w"])


def test_two_limbs_are_closer_to_the_exact_mean_than_one():
    rng = stream(4, "exact")
    updates = [{"v": rng.normal(0, 1e-9, 16).astype(np.float32)} for _ in range(50)]
    weights = rng.uniform(0.5, 2.0, 50).tolist()
    total = sum(map(Fraction, weights))
    true = [sum(Fraction(w) * Fraction(float(u["v"][i])) for u, w in zip(updates, weights, strict=True)) / total for i in range(16)]

    def error(two_limbs):
        scales = {"v": exact.scale_for(1.0, TOTAL, two_limbs=two_limbs)}
        result = exact.mean(summed(updates, weights, scales, updates[0]), scales)["v"]
        return float(sum(abs(Fraction(float(x)) - t) for x, t in zip(result, true, strict=True)) / sum(map(abs, true)))

    assert error(two_limbs=True) < 2.0**-23 < error(two_limbs=False)


def good():
    return {"w": np.ones((2, 2), np.float32), "n": np.array([1], np.int64)}


def why_not(update, weight=1.0):
    like = good()
    return exact.refusal(update, weight, like, {"w": exact.scale_for(BOUND, TOTAL)}, TOTAL)


def test_a_good_update_may_enter_up_to_its_bound():
    assert why_not(good()) is None
    assert why_not(good() | {"w": np.full((2, 2), -BOUND, np.float32)}) is None
    assert why_not(good(), TOTAL) is None


def with_element(value):
    w = np.ones((2, 2), np.float32)
    w[1, 0] = value
    return good() | {"w": w}


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (with_element(np.nan), "leaf 'w' is not finite"),
        (with_element(np.inf), "leaf 'w' is not finite"),
        (with_element(-np.inf), "leaf 'w' is not finite"),
        (with_element(1025.0), "leaf 'w' reaches 1025, beyond its bound 1024"),
        (with_element(-1025.0), "leaf 'w' reaches 1025, beyond its bound 1024"),
        (good() | {"w": np.ones(4, np.float32)}, "leaf 'w' has shape (4,), not (2, 2)"),
        (good() | {"w": np.ones((2, 2))}, "leaf 'w' is float64, not float32"),
        ({"w": good()["w"]}, "leaf 'n' is missing"),
        (good() | {"x": np.zeros(1)}, "leaf 'x' is unknown"),
    ],
)
def test_a_bad_update_is_refused_by_leaf(update, why):
    assert why_not(update) == why


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf, 2 * TOTAL, 2.0**-62])
def test_an_impossible_weight_is_refused(weight):
    # 2^-62 counts as zero in the total: alone it would make the mean a division by nothing.
    assert "its weight" in why_not(good(), weight)


def test_every_weight_that_may_enter_gives_a_mean():
    like = {"w": np.zeros(1, np.float32)}
    scales = scales_for(like)
    assert exact.refusal(like, 2.0**-60, like, scales, TOTAL) is None
    assert np.isfinite(exact.mean(summed([like], [2.0**-60], scales, like), scales)["w"]).all()


def test_empty_leaves_may_enter():
    like = {"w": np.zeros((0, 3), np.float32)}
    assert exact.refusal(like, 1.0, like, scales_for(like), TOTAL) is None


@pytest.mark.parametrize("two_limbs", [False, True])
def test_a_kept_accumulator_goes_on_where_it_was(two_limbs):
    updates, weights = thousand(stream(5, "exact"))
    like, scales = updates[0], scales_for(updates[0], two_limbs=two_limbs)
    half = exact.load(exact.save(summed(updates[:500], weights[:500], scales, like)))
    for update, weight in zip(updates[500:], weights[500:], strict=True):
        half = exact.add(half, update, weight, scales)
    assert bits(half, scales) == bits(summed(updates, weights, scales, like), scales)
    assert half.count == 1000


def test_what_was_saved_does_not_change_with_the_accumulator():
    like = {"w": np.ones(2, np.float32)}
    scales = scales_for(like)
    saved = exact.save(summed([like], [1.0], scales, like))
    exact.add(exact.load(saved), like, 1.0, scales)
    assert exact.mean(exact.load(saved), scales)["w"].tolist() == [1.0, 1.0]
    assert exact.load(saved).count == 1
