"""Who contributed how often, by hand."""

import numpy as np
import pytest

from fedfleet.measure.participation import contributions, participation_fairness, staleness_histogram, utilisation
from tests.measure.journals import TASKS, ints


def test_participation():
    counts = contributions(TASKS, 6)
    assert counts.tolist() == [1, 2, 1, 0, 0, 0]
    assert staleness_histogram(TASKS).tolist() == [3, 1]
    fair = participation_fairness(counts)
    assert fair.jain == pytest.approx(16 / (6 * 6))
    assert fair.never == 3
    # Half the mean absolute difference of any two clients, over the mean.
    assert fair.gini == pytest.approx(np.abs(counts[:, None] - counts).mean() / (2 * counts.mean()))
    # Up to the best evaluation, at 120 s, three reports had come in and been folded.
    used = utilisation(TASKS, 6, 120.0)
    per_hour = np.array([1, 1, 1, 0, 0, 0]) / (120 / 3600)
    assert used.mean == pytest.approx(per_hour.mean())
    assert used.sd == pytest.approx(per_hour.std())
    assert participation_fairness(ints(3, 3, 3)).jain == pytest.approx(1.0)
    assert participation_fairness(ints(3, 3, 3)).gini == pytest.approx(0.0)
    assert participation_fairness(ints(0, 0, 0, 8)).gini == pytest.approx(1 - 1 / 4)
    assert participation_fairness(ints(0, 0)).gini == 0.0
