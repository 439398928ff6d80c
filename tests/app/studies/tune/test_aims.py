"""An aim knows what is better, what a run's value is, and how to say it."""

import math

import pytest

from fedfleet.app.studies.tune.aims import Aim, aim_of
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated


def test_what_is_better_is_known_unless_it_is_said():
    assert not aim_of("accuracy").minimise and not aim_of("accuracy_bottom10").minimise
    assert all(aim_of(m).minimise for m in ("loss", "time_to.0.8", "bytes_up", "accuracy_std", "wasted.share"))
    assert aim_of("commits", "minimise").minimise and not aim_of("loss", "maximise").minimise
    assert aim_of("accuracy").is_better(0.9, 0.8) and aim_of("loss").is_better(0.1, 0.2)


@pytest.mark.parametrize(
    ("metric", "direction", "said"),
    [
        ("acc", None, "did you mean 'accuracy'"),
        ("curve", None, "no measure 'curve'"),
        ("time_to", None, "choose one value of time_to"),
        ("time_to.0.99", None, "choose one value of time_to"),
        (3, None, "no measure 3"),
        ("accuracy", "up", "direction"),
    ],
)
def test_no_such_measure(metric, direction, said):
    with pytest.raises(BadInput, match=said):
        aim_of(metric, direction)


def test_the_value_of_a_run():
    metrics = {"accuracy": 0.9, "time_to": {"0.8": 60.0, "0.9": None}, "loss": math.nan, "stopped_by": "rounds"}
    assert aim_of("accuracy").value_of(metrics) == 0.9
    assert aim_of("time_to.0.8").value_of(metrics) == 60.0
    assert aim_of("time_to.0.9").value_of(metrics) == math.inf
    assert math.isnan(aim_of("loss").value_of(metrics)) and math.isnan(Aim("accuracy_unseen").value_of(metrics))


def test_on_the_way_only_what_an_evaluation_says():
    event = Evaluated(1.0, 1, 3, 4, 0.5)
    assert aim_of("accuracy").early_value(event) == 0.75 and aim_of("loss").early_value(event) == 0.5
    assert aim_of("loss").early_value(Evaluated(1.0, 1, 0, 0, 0.5)) is None
    assert aim_of("accuracy").known_early and not aim_of("time_to.0.8").known_early


def test_values_have_units():
    assert aim_of("accuracy").format_value(0.912) == "91.2 %" and aim_of("time_to.0.8").format_value(7200.0) == "2.0 h"
    assert aim_of("time_to.0.8").format_value(math.inf) == "not reached" and aim_of("bytes_up").format_value(2e6) == "2.0 MB"
    assert aim_of("loss").format_value(None) == "-" and aim_of("loss").format_value(0.25) == "0.25"
    assert aim_of("accuracy").gain(0.9, 0.8) == "10.0 points better than"
    assert aim_of("time_to.0.8").gain(60.0, 660.0) == "10.0 min better than"
    assert aim_of("loss").gain(0.5, 0.5) == "the same as" and aim_of("loss").gain(math.inf, 0.5) == ""
    assert aim_of("time_to.0.8").description == "virtual time to 80.0 %"


def test_measures_of_evaluations_are_aims_with_their_direction_and_stop_trials_early():
    rmse, own = aim_of("rmse"), aim_of("own.recall")
    assert rmse.minimise and not own.minimise and rmse.known_early and own.known_early and aim_of("own.recall", "minimise").minimise
    assert not aim_of("f1_macro").minimise and aim_of("measures.perplexity").minimise
    event = Evaluated(1.0, 1, 5, 10, 0.5, measures={"rmse": 54.3, "recall": 0.8})
    assert rmse.early_value(event) == 54.3 and own.early_value(event) == 0.8 and aim_of("mae").early_value(event) is None
    metrics = {"measures": {"rmse": 54.3, "recall": 0.7}, "own": {"recall": 0.8}}
    assert rmse.value_of(metrics) == 54.3 and own.value_of(metrics) == 0.8 and math.isnan(aim_of("mae").value_of(metrics))


def test_the_score_of_another_kind_has_its_own_unit():
    from fedfleet.measure.score_info import kind_score

    r2 = Aim("accuracy", False, kind_score("regression"))
    assert r2.format_value(0.4123) == "0.412" and r2.gain(0.5, 0.4) == "0.100 better than" and r2.description.startswith("R2")
    assert "points" in Aim("accuracy").gain(0.5, 0.4) and aim_of("rmse").gain(50.0, 60.0) == "10.0 better than"
