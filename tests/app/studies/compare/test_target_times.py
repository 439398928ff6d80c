"""How long arms take to an accuracy, and which accuracy that is."""

import pytest

from fedfleet.app.studies.compare.arms import arms
from fedfleet.app.studies.compare.moments import moment
from fedfleet.app.studies.compare.target_times import arm_target_time, choose_target, time_to
from fedfleet.core.errors import BadInput
from tests.app.studies.compare.made import hurried, made, waiting


def test_runs_that_never_got_there_are_counted_as_such():
    runs = [waiting(1, (10.0, 0.2), (20.0, 0.9)), waiting(2, (10.0, 0.2), (40.0, 0.9)), waiting(3, (60.0, 0.3))]
    result = arm_target_time(arms(runs)[0], 0.8, 30.0)
    assert (result.median, result.reached, result.runs) == (40.0, 2, 3)
    assert result.restricted.value == pytest.approx((20 + 30 + 30) / 3)
    assert arm_target_time(arms(runs)[0], 0.95, 30.0).median is None
    assert arm_target_time(arms([*runs, waiting(4, end=5.0)])[0], 0.8, 30.0).restricted is None, "the last was watched for 5 s only"


def test_a_target_is_asked_or_the_specs_or_in_reach():
    runs = [waiting(1, (10.0, 0.94)), hurried(1, (10.0, 0.5))]
    groups = arms(runs)
    standings = moment(groups, None).standings
    assert choose_target(groups, standings, 0.7) == 0.7
    assert choose_target(groups, standings, None) == 0.8, "nine tenths of 94 %, down to 5 %"
    for aim, result in ((0.77, 0.77), (0.95, 0.8)):
        same = arms([made(s, ((10.0, 0.9),), name=str(s), stop={"target_accuracy": aim}) for s in (1, 2)])
        assert choose_target(same, standings, None) == result, "one that nobody reached tells nothing apart"
    assert choose_target(arms([waiting(1, end=1.0)]), (), None) is None
    for wrong in (0.0, 1.5, -1.0, float("nan")):
        with pytest.raises(BadInput, match="--target"):
            choose_target(groups, standings, wrong)


def test_the_first_evaluation_there_counts():
    assert time_to(waiting(1, (1.0, 0.1), (2.0, 0.5), (3.0, 0.4)), 0.5).seconds == 2.0
