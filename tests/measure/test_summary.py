"""The summary of a run says it all."""

from fedfleet.measure.summary import summary
from tests.measure.journals import LOG


def test_the_summary_says_it_all():
    got = summary(LOG)
    assert (got["rounds"], got["commits"], got["rounds_failed"]) == (4, 3, 1)
    assert got["stopped_by"] == "rounds"
    assert got["best_accuracy"] == 0.9
    assert got["reports_rejected"] == 1
    assert got["virtual_seconds"] == 150.0
    assert got["staleness"] == [3, 1]
