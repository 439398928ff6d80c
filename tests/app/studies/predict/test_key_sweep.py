"""Sweeps: words become values, each value its own prediction, and the sentence names the one that reaches the target first."""

import pytest

from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict.key_sweep import best_value, parse_sweep, predict_sweep, sentence, sweep_over
from fedfleet.app.studies.predict.prediction import predict
from fedfleet.core.errors import BadInput
from tests.app.studies.predict.conftest import TABLE

pytestmark = pytest.mark.slow


def test_words_become_values():
    assert parse_sweep("pace.seconds=30..600").values[0] == 30 and parse_sweep("pace.seconds=30..600").values[-1] == 600
    assert len(parse_sweep("pace.seconds=30..600").values) == 12 and len(parse_sweep("a=1.5..2.5:3").values) == 3
    assert parse_sweep("pace.cohort=1..4").values == (1, 2, 3, 4)
    assert parse_sweep("a.b=0.5,2").values == (0.5, 2)


@pytest.mark.parametrize("word", ["", "a", "a=", "=1..2", "a=x..y", "a=5..1", "a=0..1", "a=1..2:1", "a=1..2:x", "a=1,b", "a=inf"])
def test_what_is_no_sweep_is_refused(word):
    with pytest.raises(BadInput, match="--sweep"):
        parse_sweep(word)


def test_every_value_is_predicted_as_if_alone(foretold, kept):
    result = predict_sweep(TABLE, "small", parse_sweep("pace.seconds=15,40,200"), cache=kept)
    assert [row["value"] for row in result.rows] == [15, 40, 200]
    commits = [row["commits"] for row in result.rows]
    assert commits == sorted(commits) and result.rows[0]["never"] > result.rows[2]["never"]
    alone = predict(resolve(TABLE | {"pace": TABLE["pace"] | {"seconds": 200}}), reference=foretold.reference, draws=2)
    assert result.rows[2]["accuracy"] == sum(d.accuracy[-1] for d in alone.draws) / 2
    assert str(result.best) in result.sentence


def test_keys_of_the_world_are_swept_too(foretold, kept):
    result = predict_sweep(TABLE, "small", parse_sweep("world.devices.mbps=5,80"), cache=kept)
    slow, fast = result.rows
    assert slow["commits"] <= fast["commits"] and slow["never"] > fast["never"]


@pytest.mark.parametrize(
    ("word", "said"),
    [("pace.secnds=1,2", "secnds"), ("pace.cohort=2,99", "more than the fleet"), ("pace.seconds=-1,2", "seconds=-1")],
)
def test_a_value_that_cannot_be_is_one_sentence(foretold, kept, word, said):
    with pytest.raises(BadInput, match=said):
        predict_sweep(TABLE, "small", parse_sweep(word), cache=kept)


def test_a_value_that_makes_no_model_is_no_answer():
    none = {
        "value": 3,
        "accuracy": 0.2,
        "commits": 0.0,
        "virtual_seconds": 9.0,
        "seconds_to_target": None,
        "never": 1.0,
    }
    some = {**none, "value": 30, "accuracy": 0.19, "commits": 4.0, "virtual_seconds": 90.0}
    assert best_value([none, some]) == 30 and best_value([none]) == 3
    assert sentence("a.b", [none], 0.8, 3) == "No value of a.b makes a model."


def test_the_sentence_says_when_nothing_reaches_the_target():
    row = {"commits": 4.0, "value": 3, "accuracy": 0.4, "seconds_to_target": None, "virtual_seconds": 90.0}
    assert "No value of a.b reaches 80.0 %; 3 comes nearest" in sentence("a.b", [row], 0.8, 3)
    there = row | {"seconds_to_target": 50.0}
    assert "a.b = 3 reaches 80.0 % first, after 50 s" in sentence("a.b", [there], 0.8, 3)


def test_values_can_be_listed_in_python():
    assert sweep_over({"a.b": [1, 2.5]}) == parse_sweep("a.b=1,2.5")
    for odd in (
        {},
        {"a": []},
        {"a": 1},
        {"a": "12"},
        {"a": [True]},
        {"a": ["x"]},
        {"a": [float("nan")]},
        {"a": [1], "b": [2]},
    ):
        with pytest.raises(BadInput, match="sweep: "):
            sweep_over(odd)


def test_what_changes_the_learning_has_reference_runs_of_its_own(kept):
    said = []
    table = TABLE | {"stop": {"rounds": 3}, "pace": TABLE["pace"] | {"seconds": 1000.0}}
    result = predict_sweep(table, "small", parse_sweep("algorithm.lr=0.001,0.3"), cache=kept, tell=said.append)
    slow, fast = (row["accuracy"] for row in result.rows)
    assert slow < fast - 0.1 and result.best == 0.3 and "reference runs" in said[0]
    longer = predict_sweep(table, "small", parse_sweep("stop.rounds=1,8"), cache=kept)
    assert longer.rows[1]["accuracy"] > fast, "reference runs are as long as the longest that is asked for"
