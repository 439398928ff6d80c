"""What a comparison is made of: which time passes in its runs, and which differences are significant."""

from dataclasses import replace

import pytest

from fedfleet.app.studies.compare.records import LEAST_SEEDS, LEVEL, REAL, VIRTUAL, Pair, clock_of
from fedfleet.measure.statistics.paired_tests import PairedResult
from tests.app.studies.compare.made import made


def test_real_and_virtual_time_have_no_clock_in_common():
    simulated, served = made(1), replace(made(2), served=True)
    assert clock_of([simulated, simulated]) == VIRTUAL and clock_of([served]) == REAL
    assert clock_of([simulated, served]) == "" == clock_of([])


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
def test_what_is_significant(paired, p, counts):
    assert Pair("a", "b", paired, p).significant == counts
