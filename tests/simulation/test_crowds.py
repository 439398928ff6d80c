"""Two, then five processes on one folder: one works, the rest are refused, nothing is lost."""

import pytest

from fedfleet.app.runs import perform
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.app.spec import resolve
from tests.app.runs.flipping import killed_run
from tests.app.runs.tampering import SPEC
from tests.simulation.crowds import check_crowd

pytestmark = pytest.mark.slow

LONGER = {**SPEC, "stop": {"rounds": 30}}


@pytest.mark.slow
def test_of_two_and_of_five_one_works(tmp_path):
    digest = perform(resolve(LONGER), tmp_path / "straight").metrics["digest"]
    refused = 0
    for processes in (2, 5):
        refused += check_crowd(tmp_path / str(processes), processes, resume=False, digest=digest)
        killed = killed_run(LONGER, tmp_path / f"killed{processes}", 4)
        refused += check_crowd(killed, processes, resume=True, digest=digest)
        assert replay_run(killed, quick=True)["ok"]
    assert refused >= 5
