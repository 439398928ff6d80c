"""Where time went and what work cost, side by side."""

import pytest

from fedfleet.app.pages.sides.side_times import (
    FAMILIES,
    cost_section,
    device_work,
    family_shares,
    mean_family_shares,
    sentence,
    time_section,
)
from fedfleet.measure.attribution.causes import CAUSES
from tests.app.pages.sides.looks import made, side


def test_every_cause_has_one_family():
    every = [cause for _, _, causes in FAMILIES for cause in causes]
    assert sorted(every) == sorted(CAUSES)


def test_shares_add_up_to_one():
    result = family_shares(made(causes=dict.fromkeys(CAUSES, 2.0)))
    assert sum(result.values()) == pytest.approx(1.0)
    assert family_shares(made(causes={})) == {}


def test_seeds_weigh_alike_however_long_they_took():
    quick, slow = made(causes={"compute": 1.0}), made(causes={"reachability": 1000.0})
    result = mean_family_shares(side("a", quick, slow))
    assert result["training"] == result["waiting for clients out of reach"] == 0.5


def test_the_sentence_groups_those_that_agree():
    told = [
        ("a", {"training": 0.6, "other": 0.4}),
        ("b", {"training": 0.8, "other": 0.2}),
        ("c", {"training": 0.1, "other": 0.9}),
    ]
    said = sentence(told)
    assert "training with 'a', 'b' (60 to 80 %)" in said and "other with 'c' (90 %)" in said


def test_work_that_entered_no_model_is_apart():
    assert device_work(made().metrics) == (7200.0, 3600.0, 5e8)
    page = cost_section([side("a")])
    assert "2 h used, 1 h wasted with 500.0 MB" in page
    assert cost_section([side("a", made(metrics={"fates": {}}))]) == ""


def test_the_figure_names_only_what_is_there():
    page = time_section([side("a")])
    assert "training" in page and "out of reach" not in page
    assert time_section([side("a", made(causes={}))]) == ""


def test_names_are_escaped_in_the_sentence_too():
    assert "<i>" not in time_section([side("<i> & you")]) and "&lt;i&gt; &amp; you&#x27; (" in time_section([side("<i> & you")])
