"""What arms had reached at a moment, with runs that had no model by then counted in one way."""

import pytest

from fedfleet.app.studies.compare.arms import arms
from fedfleet.app.studies.compare.criteria import CRITERIA, Yardstick
from fedfleet.app.studies.compare.moments import moment, scores
from tests.app.studies.compare.made import hurried, waiting

SEEDS = range(1, 6)


def late(seed, first):
    """A run that waits, and has its first model at that second."""
    return waiting(seed, (0.0, 0.1), (first, 0.8 + seed / 1000), (100.0, 0.9 + seed / 1000), first=first)


def test_runs_without_a_model_count_with_their_first_weights_in_the_mean():
    groups = arms([*(late(s, 50.0 if s < 3 else 10.0) for s in SEEDS), *(hurried(s, (0.0, 0.1), (9.0, 0.5)) for s in SEEDS)])
    slow, quick = moment(groups, 20.0).standings
    assert (slow.without, quick.without) == (2, 0) and not slow.nothing
    assert slow.mean.value == pytest.approx((0.1 * 2 + 0.803 + 0.804 + 0.805) / 5)
    assert moment(groups, 20.0).leader == "deadline", "an arm that lacks models does not lead"
    assert moment(groups, None).leader == "readiness"


def test_arms_with_runs_that_did_not_get_there_are_tested_by_themselves():
    groups = arms(
        [*(late(s, 50.0 if s < 3 else 10.0) for s in SEEDS), *(hurried(s, (0.0, 0.1), (9.0, 0.5 + s / 99)) for s in SEEDS)]
    )
    result = scores(groups, CRITERIA["accuracy"], Yardstick(20.0))
    assert result.contenders == ["deadline"] and result.design.contrasts[0].other == "readiness"
    assert result.design.sd is None, "one arm has no residuals"


def test_a_pair_has_the_same_figures_at_a_moment_and_in_the_scores():
    groups = arms([*(waiting(s, (9.0, 0.8 + s / 90)) for s in SEEDS), *(hurried(s, (9.0, 0.5 + s / 80)) for s in SEEDS)])
    (pair,) = moment(groups, 9.0).pairs
    (contrast,) = scores(groups, CRITERIA["accuracy"], Yardstick(9.0)).design.contrasts
    assert (pair.paired, pair.p) == (contrast.paired, contrast.p)
