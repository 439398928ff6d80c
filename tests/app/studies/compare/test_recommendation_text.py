"""A recommendation in words: units, signs, and no riddles."""

import pytest

from fedfleet.app.studies.compare.criteria import CRITERIA, Yardstick
from fedfleet.app.studies.compare.recommendation import ArmFacts
from fedfleet.app.studies.compare.recommendation_text import (
    _reasons,
    better_at_the_end,
    difference_text,
    failures,
    interval_text,
    left_out,
    nothing_to_recommend,
    traffic_of_others,
)


def facts(name, accuracy=0.7, end=3600.0, traffic=1e9, never=0.0, failed=0):
    return ArmFacts(name, accuracy, end, traffic, never, 36, failed, 5)


@pytest.mark.parametrize(
    ("aim", "difference", "words"),
    [
        ("accuracy", 0.041, "4.1 points more"),
        ("accuracy", -0.02, "2.0 points less"),
        ("time", 0.41, "41 % less time"),
        ("bytes", -0.2, "20 % more traffic"),
    ],
)
def test_differences_have_units_and_signs(aim, difference, words):
    assert difference_text(CRITERIA[aim], difference) == words


def test_intervals_share_their_unit():
    assert interval_text(CRITERIA["accuracy"], -0.008, 0.05) == "-0.8 to 5.0"
    assert interval_text(CRITERIA["time"], 0.2, 0.55) == "20 to 55 %"


def test_less_than_one_client_is_no_reason_for_an_equal_arm():
    assert "leaves out" not in _reasons(facts("a", never=0.4), facts("b", never=0.6))[0]
    assert "leaves out 1 more" in _reasons(facts("a", never=0.4), facts("b", never=1.6))[0]


def test_who_leaves_out_hardly_fewer_is_no_trade_off():
    two = {"a": facts("a", never=30), "b": facts("b", never=29.5)}
    assert left_out("a", two, {"a": 0.7, "b": 0.6}) == ""
    two["b"] = facts("b", never=0.2)
    assert left_out("a", two, {"a": 0.7, "b": 0.6}).endswith("'b' leaves out none and is 10.0 points behind")


def test_of_arms_that_end_alike_the_soonest_is_named():
    arms = {"a": facts("a", 0.5), "b": facts("b", 0.73, 86400.0 * 6), "c": facts("c", 0.72, 3600.0 * 16)}
    assert better_at_the_end("a", arms).startswith("'c' ends at 72.0 % after 16.0 h")
    assert better_at_the_end("b", arms) == ""


def test_traffic_is_worth_a_word_from_twice_on():
    arms = {"a": facts("a", traffic=1.9e9), "b": facts("b")}
    assert traffic_of_others("a", arms) == "" == traffic_of_others("b", arms)
    arms["a"] = facts("a", traffic=4e9)
    assert "4.0 GB" in traffic_of_others("a", arms) and "1.0 GB" in traffic_of_others("a", arms)


def test_failures_are_counted_by_what_was_not_reached():
    text = failures({"a": 0, "b": 2}, {"a": 5, "b": 5}, CRITERIA["accuracy"], Yardstick(60.0))
    assert text.startswith("2 of 5 runs of 'b' had no model by then") and "first weights" in text
    assert "did not reach 60.0 %" in failures({"b": 5}, {"b": 5}, CRITERIA["time"], Yardstick(None, 0.6))
    assert failures({"a": 0}, {"a": 5}, CRITERIA["accuracy"], Yardstick()) == ""


def test_why_there_is_nothing():
    assert "one arm only" in nothing_to_recommend(CRITERIA["accuracy"], Yardstick(), 1)
    assert "world.energy" in nothing_to_recommend(CRITERIA["joules"], Yardstick(None, 0.6), 2)
