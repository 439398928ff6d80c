"""What a comparison is made of: which time passes in its runs."""

from dataclasses import replace

from fedfleet.app.studies.compare.records import REAL, VIRTUAL, clock_of
from tests.app.studies.compare.made import made


def test_real_and_virtual_time_have_no_clock_in_common():
    simulated, served = made(1), replace(made(2), served=True)
    assert clock_of([simulated, simulated]) == VIRTUAL and clock_of([served]) == REAL
    assert clock_of([simulated, served]) == "" == clock_of([])
