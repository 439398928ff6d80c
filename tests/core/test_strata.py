"""Strata by which partitions deal samples of every kind."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset
from fedfleet.core.strata import BINS, strata


def of(y, classes=1):
    return strata(Dataset(np.zeros((len(y), 2), np.float32), y, classes), "world.data")


def test_numbers_fall_into_bins_of_equal_size_in_their_order():
    y = np.random.default_rng(0).normal(size=(50, 1)).astype(np.float32)
    found = of(y)
    assert found.count == BINS and np.bincount(found.of).tolist() == [5] * BINS
    assert (np.diff(found.of[np.argsort(y[:, 0])]) >= 0).all()


def test_an_output_in_large_units_does_not_decide_alone():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(200, 2)).astype(np.float32)
    assert np.array_equal(of(y).of, of(y * np.array([1000, 1], np.float32)).of)


def test_a_set_of_labels_counts_as_its_rarest_and_an_empty_set_is_a_stratum():
    y = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 0]], bool)
    found = of(y, 3)
    assert found.of.tolist() == [0, 1, 2, 3, 1] and found.count == 4


def test_classes_are_their_own_strata():
    assert of(np.array([2, 0, 1]), 3).of.tolist() == [2, 0, 1]


def test_sequences_are_refused_with_what_deals_them():
    with pytest.raises(BadInput, match="quantity"):
        of(np.zeros((3, 4), np.int64), 5)


def test_strata_have_names_that_people_understand():
    from fedfleet.core.strata import stratum_names

    numbers = Dataset(np.zeros((40, 1)), np.arange(40, dtype=np.float32)[:, None] - 20, 1, target_scale=((0.0, 10.0),))
    names = stratum_names(numbers, strata(numbers, "here"))
    assert names[0] == "-200 to -170" and len(set(names)) == 10
    several = Dataset(np.zeros((4, 1)), np.zeros((4, 2), np.float32), 2)
    assert stratum_names(several, strata(several, "here"))[0] == "tenth 1 of 10"
    labels = Dataset(np.zeros((2, 1)), np.eye(2) > 0, 2, label_names=("loop",))
    assert stratum_names(labels, strata(labels, "here")) == ("loop", "label 1", "no label")
