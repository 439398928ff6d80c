"""Merged classes: a partition of the classes, and plans that lose nothing on the way there and back."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedfleet.core.errors import BadInput
from fedfleet.core.rng import stream
from fedfleet.edges.shufflefl.class_groups import group_count, group_counts, merge_classes, renumber, ungroup

pytestmark = pytest.mark.slow

LAWS = settings(deadline=None, derandomize=True, max_examples=50)


@st.composite
def plans(draw):
    """Counts by class, groups of classes, and a whole plan by group that hands out all there is."""
    devices, classes = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    counts = draw(hnp.arrays(np.int64, (devices, classes), elements=st.integers(0, 12)))
    groups = renumber(draw(hnp.arrays(np.int64, classes, elements=st.integers(0, 3))))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    rows = [[rng.multinomial(n, np.full(devices, 1 / devices)) for n in row] for row in group_counts(counts, groups)]
    return np.array(rows, np.int64), counts, groups


@LAWS
@given(plans(), st.integers(0, 1000))
def test_ungrouped_plans_hand_out_every_class_exactly_and_group_back(case, seed):
    plan, counts, groups = case
    result = ungroup(plan, counts, groups, stream(seed, "ungroup"))
    assert (result >= 0).all()
    assert np.array_equal(result.sum(2), counts)
    assert np.array_equal(group_counts(result.transpose(0, 2, 1), groups).transpose(0, 2, 1), plan)
    assert np.array_equal(result, ungroup(plan, counts, groups, stream(seed, "ungroup")))


@LAWS
@given(plans())
def test_groups_of_one_class_need_no_luck(case):
    _, counts, _ = case
    devices, classes = counts.shape
    rng = np.random.default_rng(1)
    plan = np.array([[rng.multinomial(n, np.full(devices, 1 / devices)) for n in row] for row in counts], np.int64)
    luck = np.random.default_rng(5)
    assert np.array_equal(ungroup(plan, counts, np.arange(classes), luck), plan)
    assert luck.random() == np.random.default_rng(5).random()


def test_every_sample_of_a_group_has_the_same_chance_to_go():
    counts, groups = np.array([[10, 30, 60], [5, 5, 5]]), np.array([0, 0, 0])
    plan = np.array([[[50, 50]], [[9, 6]]])
    rng = np.random.default_rng(0)
    mean = np.mean([ungroup(plan, counts, groups, rng) for _ in range(3000)], axis=0)
    np.testing.assert_allclose(mean[0, :, 1], [5, 15, 30], atol=0.2)
    np.testing.assert_allclose(mean[1, :, 0], [3, 3, 3], atol=0.1)


@LAWS
@given(plans())
def test_grouping_keeps_all_samples(case):
    _, counts, groups = case
    result = group_counts(counts, groups)
    assert np.array_equal(result.sum(1), counts.sum(1))
    for g in range(int(groups.max()) + 1):
        assert np.array_equal(result[:, g], counts[:, groups == g].sum(1))


def test_plans_that_do_not_fit_are_refused():
    counts, groups, rng = np.array([[2, 1], [0, 0]]), np.array([0, 0]), np.random.default_rng(0)
    for plan in ([[[2, 0]], [[0, 0]]], [[[4, -1]], [[0, 0]]], [[[3, 0]], [[1, 0]]]):
        with pytest.raises(BadInput, match="holds"):
            ungroup(np.array(plan), counts, groups, rng)
    with pytest.raises(BadInput, match="shape"):
        ungroup(np.zeros((2, 2, 2), np.int64), counts, groups, rng)


@LAWS
@given(hnp.arrays(np.int64, st.integers(1, 12), elements=st.integers(-3, 5)))
def test_in_order_renames_and_nothing_else(names):
    result = renumber(names)
    assert np.array_equal(result[:, None] == result, names[:, None] == names)
    assert result[0] == 0 and all(result[i] <= result[:i].max() + 1 for i in range(1, len(result)))


def test_group_counts_of_the_papers_table_5():
    for classes, gammas, counts in (
        (62, (0.25, 0.10, 0.15, 0.20), (15, 6, 9, 12)),
        (80, (0.20, 0.10, 0.125, 0.15), (16, 8, 10, 12)),
        (35, (0.35, 0.20, 0.25, 0.30), (12, 7, 8, 10)),
    ):
        assert tuple(group_count(classes, g) for g in gammas) == counts
    assert group_count(5, 0.1) == 1 and group_count(7, 1.0) == 7


@settings(deadline=None, derandomize=True, max_examples=15)
@given(st.integers(1, 12), st.integers(1, 5), st.floats(0.05, 1.0), st.integers(0, 99))
def test_every_class_is_in_one_of_k_groups(classes, width, gamma, seed):
    features = np.random.default_rng(seed).normal(size=(classes, width))
    groups = merge_classes(features, gamma, seed)
    assert groups.shape == (classes,) and groups.dtype == np.int64
    assert np.array_equal(np.unique(groups), np.arange(group_count(classes, gamma)))
    assert np.array_equal(groups, renumber(groups))
    assert np.array_equal(groups, merge_classes(features, gamma, seed))


def test_classes_that_look_alike_end_up_together():
    rng = np.random.default_rng(3)
    kind = np.repeat(np.arange(4), 10)
    features = 50.0 * np.eye(4, 8)[kind] + rng.normal(size=(40, 8))
    assert np.array_equal(merge_classes(features, 0.1, 1), kind)


@pytest.mark.parametrize("shape", [(3, 1), (3, 4), (6, 1), (10, 3)])
def test_equal_features_are_no_reason_to_fail(shape):
    groups = merge_classes(np.ones(shape), 0.7, 0)
    assert np.array_equal(groups, renumber(groups)) and groups.max() < group_count(shape[0], 0.7)


def test_no_merging_needs_no_library_and_merging_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    features = np.random.default_rng(0).normal(size=(6, 2))
    assert merge_classes(features, 1.0, 0).tolist() == [0, 1, 2, 3, 4, 5]
    assert merge_classes(features, 0.1, 0).tolist() == [0] * 6
    with pytest.raises(BadInput, match=r"fedfleet\[train\]"):
        merge_classes(features, 0.5, 0)


def test_what_cannot_be_merged_is_said():
    for gamma in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(BadInput, match="gamma"):
            merge_classes(np.eye(3), gamma, 0)
    with pytest.raises(BadInput, match="class 1"):
        merge_classes(np.array([[0.0], [np.nan], [1.0]]), 0.7, 0)
