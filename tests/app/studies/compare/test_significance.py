"""A difference counts if chance does not explain it, and never from fewer than three seeds."""

import pytest

from fedfleet.app.studies.compare.records import Pair
from fedfleet.app.studies.compare.significance import LEAST_SEEDS, LEVEL, is_clear
from fedfleet.measure.statistics.paired_tests import PairedResult


@pytest.mark.parametrize(
    ("paired", "p", "counts"),
    [
        (PairedResult(0.1, 0.05, 0.15, 0.01, 5), 0.01, True),
        (PairedResult(0.1, 0.05, 0.15, 0.01, 5), LEVEL, False),
        (PairedResult(0.1, -0.01, 0.2, 0.06, 5), 0.06, False),
        (PairedResult(-0.1, -0.15, -0.05, 0.01, 5), 0.01, False),
        (PairedResult(0.1, 0.05, 0.15, 0.01, LEAST_SEEDS - 1), 0.01, False),
        (PairedResult(0.1, None, None, 2.0**-5, 6), 2.0**-5, True),
        (PairedResult(0.1, None, None, 0.25, 3), 0.25, False),
        (PairedResult(0.1, None, None, None, 1), None, False),
        (None, None, False),
    ],
)
def test_what_counts(paired, p, counts):
    assert is_clear(Pair("a", "b", paired, p)) == counts
