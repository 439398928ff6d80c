"""Results by class, by hand and against their definition."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.measure.class_counts import class_results, confusion_matrix


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_every_sample_is_counted_once(classes, pairs):
    labels, answers = (np.array([p[i] % classes for p in pairs], np.int64) for i in (0, 1))
    matrix = confusion_matrix(labels, answers, classes)
    assert matrix.sum() == len(pairs) and np.trace(matrix) == (labels == answers).sum()
    for one in class_results(matrix):
        mine, named = labels == one["label"], answers == one["label"]
        assert one["n"] == mine.sum()
        assert one["recall"] == ((mine & named).sum() / mine.sum() if mine.any() else None)
        assert one["precision"] == ((mine & named).sum() / named.sum() if named.any() else None)


def test_a_class_that_nobody_names_has_no_precision():
    assert class_results(np.array([[2, 0], [1, 0]]))[1] == {"label": 1, "n": 1, "recall": 0.0, "precision": None}
