"""Correlation, and a bootstrap that knows that runs on one fleet are alike."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics import correlation as module
from fedfleet.measure.statistics.correlation import correlation

POINTS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=4, max_size=20)


def clustered(fleets=6, runs=20, seed=1):
    """Points whose fleets differ a lot and whose runs hardly do."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(fleets, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    points = np.repeat(centres, runs, axis=0) + 0.05 * random.normal(size=(fleets * runs, 2))
    return points[:, 0].tolist(), points[:, 1].tolist(), [f"fleet {i // runs}" for i in range(fleets * runs)]


@settings(max_examples=40)
@given(POINTS)
def test_r_is_scipys(points):
    x, y = ([float(p[i]) for p in points] for i in (0, 1))
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    assert correlation(x, y, draws=1).r == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-9)
    assert correlation(x, y, method="spearman", draws=1).r == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-9)


@settings(max_examples=20)
@given(POINTS, st.integers(-9, 9), st.sampled_from([0.5, 4.0]))
def test_shifting_and_scaling_changes_nothing(points, shift, scale):
    x, y = ([float(p[i]) for p in points] for i in (0, 1))
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    one, other = (correlation(v, y, draws=50) for v in (x, [scale * u + shift for u in x]))
    assert (other.r, other.low, other.high) == pytest.approx((one.r, one.low, one.high), abs=1e-9)
    turned = correlation([-v for v in x], y, draws=50)
    assert turned.r == pytest.approx(-one.r, abs=1e-12)


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_a_draw_is_the_r_of_the_sample_it_stands_for(method):
    random = np.random.default_rng(3)
    x, y = random.integers(0, 6, 12).astype(float), random.integers(0, 6, 12).astype(float)
    weights = random.multinomial(12, np.full(12, 1 / 12), size=30).astype(float)
    result = module._weighted_r(x, y, weights, method)
    known = stats.pearsonr if method == "pearson" else stats.spearmanr
    for row, r in zip(weights.astype(int), result, strict=True):
        assert r == pytest.approx(known(np.repeat(x, row), np.repeat(y, row))[0], abs=1e-9)


def test_whole_clusters_make_the_interval_as_wide_as_few_fleets_deserve():
    x, y, fleets = clustered()
    apart, together = correlation(x, y), correlation(x, y, clusters=fleets)
    assert together.r == apart.r and (together.n, together.clusters) == (120, 6)
    assert together.high - together.low > 2 * (apart.high - apart.low)
    assert together.low <= together.r <= together.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    covered = 0
    for seed in range(60):
        x, y = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=60).T
        result = correlation(x.tolist(), y.tolist(), draws=300, seed=seed)
        covered += result.low <= 0.6 <= result.high
    assert 51 <= covered <= 60


@pytest.mark.parametrize(("fleets", "runs"), [(4, 3), (6, 2), (10, 1)])
def test_few_clusters_are_covered_as_often_too(fleets, runs):
    random, covered = np.random.default_rng(7), 0
    root = np.linalg.cholesky([[1.0, 0.6], [0.6, 1.0]])
    for seed in range(120):
        points = np.repeat(random.normal(size=(fleets, 2)), runs, axis=0) + random.normal(size=(fleets * runs, 2))
        x, y = (points @ root.T).T.tolist()
        result = correlation(x, y, clusters=[i // runs for i in range(fleets * runs)], draws=200, seed=seed)
        covered += result.low is not None and result.low <= 0.6 <= result.high
    assert covered >= 112, "plain percentiles cover 108, 110 and 104 of 120"


def test_the_seed_decides_the_draws_and_nothing_else_does(monkeypatch):
    x, y, fleets = clustered()
    one = correlation(x, y, clusters=fleets, seed=4)
    assert one == correlation(x, y, clusters=[f.upper() for f in fleets], seed=4)
    assert one != correlation(x, y, clusters=fleets, seed=5)
    monkeypatch.setattr(module, "_BATCH", 500)  # in many parts
    assert one == correlation(x, y, clusters=fleets, seed=4)


def test_what_does_not_vary_or_has_too_few_clusters_has_no_interval():
    flat = correlation([1.0, 2.0, 3.0], [5.0, 5.0, 5.0])
    assert (flat.r, flat.low, flat.high) == (None, None, None)
    assert correlation([1.0, 2.0], [1.0, 2.0]).r is None
    two = correlation([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 5.0], clusters="aabb")
    assert two.r is not None and two.low is None and two.clusters == 2
    three = correlation([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 5.0], clusters="aabc")
    assert three.r is not None and three.low is None, "three clusters cover the truth four times of five at best"
    assert correlation([0.1 + 0.2, 0.3, 0.3], [1.0, 2.0, 3.0]).r is None, "rounding is no variation"


@pytest.mark.parametrize(
    ("x", "y", "more", "word"),
    [
        ([1.0], [1.0, 2.0], {}, "the same number of x and y"),
        ([], [], {}, "none"),
        ([1.0, 2.0], [1.0, 2.0], {"clusters": ["a"]}, "cluster"),
        ([1.0, float("nan")], [1.0, 2.0], {}, "nan"),
        ([1.0, 2.0], [1.0, 2.0], {"method": "kendall"}, "pearson"),
        ([1.0, 2.0], [1.0, 2.0], {"draws": 0}, "draws"),
    ],
)
def test_what_has_no_correlation_is_refused(x, y, more, word):
    with pytest.raises(BadInput, match=word):
        correlation(x, y, **more)
