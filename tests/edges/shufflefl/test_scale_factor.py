"""Adaptive scaling: the law of Eq. 10, estimates that follow the devices, and a memory that forgets nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedfleet.core.edges import Abilities
from fedfleet.core.trees import content_hash
from fedfleet.edges.shufflefl.rule import (
    History,
    alphas,
    estimate,
    history_from_memory,
    history_to_memory,
    kappa,
    means,
    slowdown_factor,
)

pytestmark = pytest.mark.slow

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
positive = st.floats(1e-3, 1e6)
histories = st.builds(History, positive, positive, positive, st.integers(1, 10**6), st.integers(0, 10**6))


@st.composite
def rounds(draw):
    """Users of a round: their own alpha, and an estimate that some of them lack."""
    n = draw(st.integers(1, 8))
    base = draw(hnp.arrays(np.float64, n, elements=positive))
    return base, draw(hnp.arrays(np.float64, n, elements=st.one_of(positive, st.just(float("nan")))))


@LAWS
@given(rounds())
def test_alpha_times_time_is_the_same_for_all_who_have_a_history(case):
    base, estimates = case
    result, known = alphas(base, estimates), np.isfinite(estimates)
    assert np.array_equal(result[~known], base[~known])
    if known.any():
        np.testing.assert_allclose(result[known] / base[known] * estimates[known], estimates[known].mean(), rtol=1e-12)
        order = np.argsort(estimates[known])
        factors = (result / base)[known][order]
        assert (np.diff(factors) <= 1e-12 * factors[1:]).all()


@LAWS
@given(rounds(), st.floats(1e-3, 1e3))
def test_units_do_not_matter_and_alpha_scales(case, factor):
    base, estimates = case
    np.testing.assert_allclose(alphas(base, factor * estimates), alphas(base, estimates), rtol=1e-9)
    np.testing.assert_allclose(alphas(factor * base, estimates), factor * alphas(base, estimates), rtol=1e-9)


@LAWS
@given(hnp.arrays(np.float64, 5, elements=positive), positive)
def test_without_history_or_with_equal_ones_nobody_is_scaled(base, seconds):
    assert np.array_equal(alphas(base, np.full(5, np.nan)), base)
    np.testing.assert_allclose(alphas(base, np.full(5, seconds)), base, rtol=1e-12)


def test_a_user_twice_as_slow_as_the_mean_gets_half():
    result = alphas(np.full(4, 3.0), np.array([20.0, 5.0, 5.0, np.nan]))
    assert result.tolist() == [1.5, 6.0, 6.0, 3.0]


def test_alphas_leaves_what_it_was_given():
    base = np.ones(2)
    alphas(base, np.array([1.0, 3.0]))
    assert base.tolist() == [1.0, 1.0]


@LAWS
@given(histories, st.floats(0, 1))
def test_nothing_changed_nothing_scaled(history, share):
    for printed in (False, True):
        beta = slowdown_factor(history, history.seconds_per_sample, history.bandwidth, share, printed=printed)
        assert beta == pytest.approx(1.0, rel=1e-12)


@LAWS
@given(histories)
def test_devices_twice_as_slow_double_the_estimate_and_halve_the_printed_one(history):
    slower = 2.0 * history.seconds_per_sample, 0.5 * history.bandwidth
    assert estimate(history, *slower, epochs=5) == pytest.approx(2.0 * history.seconds, rel=1e-9)
    assert estimate(history, *slower, epochs=5, printed=True) == pytest.approx(0.5 * history.seconds, rel=1e-9)


def test_kappa_weighs_computing_against_links():
    history = History(100.0, 0.1, 1e6, 50, 50)
    assert slowdown_factor(history, 0.2, 1e6, 1.0) == 2.0
    assert slowdown_factor(history, 0.2, 1e6, 0.0) == 1.0
    assert slowdown_factor(history, 0.1, 5e5, 0.0) == 2.0
    assert slowdown_factor(history, 0.1, 5e5, 0.0, printed=True) == 0.5
    assert slowdown_factor(history, 0.2, 1e6, 0.75) == pytest.approx(1.75)


@LAWS
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 20))
def test_kappa_is_a_share_that_grows_with_epochs_and_falls_with_moves(samples, moved, epochs):
    assert 0.0 <= kappa(samples, moved, epochs=epochs) <= kappa(samples, moved, epochs=epochs + 1) <= 1.0
    assert kappa(samples, moved + 1, epochs=epochs) <= kappa(samples, moved, epochs=epochs)


def test_kappa_at_its_ends_and_as_printed():
    assert kappa(10, 0, epochs=5) == kappa(0, 0, epochs=5) == 1.0
    assert kappa(0, 10, epochs=5) == 0.0
    assert kappa(100, 100, epochs=1) == 0.75


@LAWS
@given(histories)
def test_memory_keeps_a_history(history):
    tree = history_to_memory(history)
    assert history_from_memory(tree) == history
    assert history_from_memory({**tree, "slot": np.zeros(3, np.int64)}) == history
    assert content_hash(history_to_memory(history_from_memory(tree))) == content_hash(tree)


def test_the_engines_seconds_replace_those_of_the_plan():
    planned = history_to_memory(History(float("nan"), 0.1, 1e6, 40, 7))
    kept = {**planned, "seconds": np.array([12.5])}  # what engine.hierarchy.memory_after does
    assert history_from_memory(kept) == History(12.5, 0.1, 1e6, 40, 7)


def test_the_first_time_there_is_nothing_to_recall():
    assert history_from_memory({}) is None and history_from_memory({"seconds": np.ones(1)}) is None
    assert np.isnan(estimate(None, 0.1, 1e6, epochs=5))


def test_devices_that_need_no_time_spoil_nothing():
    free = History(9.0, 0.0, 1e6, 40, 0)
    for printed in (False, True):
        assert estimate(free, 0.0, 1e6, epochs=5, printed=printed) == 9.0
    assert np.isnan(estimate(free, 0.1, 1e6, epochs=5))
    assert alphas(np.ones(2), np.array([np.nan, 4.0])).tolist() == [1.0, 1.0]


def test_means_are_over_devices_and_both_directions():
    able = Abilities(np.array([0.1, 0.3]), np.array([1e6, 3e6]), np.array([5e6, 7e6]))
    assert means(able) == pytest.approx((0.2, 4e6))
