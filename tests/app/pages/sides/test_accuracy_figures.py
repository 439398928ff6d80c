"""Accuracy of several sides against time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.pages.charts.marks import SLIM, WIDE
from fedfleet.app.pages.sides.accuracy_figures import (
    accuracies_at,
    accuracy_figure,
    accuracy_steps,
    curve,
    highest_sides,
    standings,
    standings_figure,
)
from tests.app.pages.sides.looks import made, side

accuracies = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(st.lists(accuracies, min_size=2, max_size=4))
def test_the_mean_lies_in_the_band_of_its_seeds(seeds):
    line = curve(side("a", *(made(values) for values in seeds)))
    assert all(low - 1e-12 <= y <= high + 1e-12 for low, y, high in zip(line.low, line.y, line.high, strict=True))
    assert line.x == sorted(line.x)


@given(accuracies)
def test_one_seed_is_drawn_as_it_is(values):
    one = made(values)
    line = curve(side("a", one))
    assert line.low == () and line.y[-1] == values[-1]
    assert accuracy_steps(one, one.seconds).tolist() == values


def test_a_run_that_has_ended_keeps_its_last_model():
    short, long = made([0.1, 0.5]), made([0.1, 0.2, 0.3, 0.4])
    line = curve(side("a", short, long))
    assert line.x[-1] == 180.0 and line.y[-1] == np.mean([0.5, 0.4])
    assert line.label == "a: 45 % in up to 3 min", "one of them needed less"


def test_many_points_are_thinned_and_the_last_stays():
    long = made(np.linspace(0, 1, 5000))
    line = curve(side("a", long))
    assert len(line.x) <= 400 and line.y[-1] == 1.0


def test_the_figure_has_two_drawings_and_says_its_finding():
    sides = [
        side("a", group="mild"),
        side("b", made([0.1, 0.3]), group="mild", thin=True),
        side("a", group="severe", colour=3),
    ]
    page = accuracy_figure(sides, target=0.8)
    assert page.count("<svg") == 2 and 'class="wide"' in page and 'class="slim"' in page
    assert "mild, a: 90 % in 2 min; mild, b: 30 % in 60 s; severe, a: 90 % in 2 min." in page
    assert ">mild</text>" in page and ">severe</text>" in page, "on phones a panel for each group"


def test_nothing_tried_is_nothing_drawn():
    assert accuracy_figure([side("a", made([], seconds=[], end=5.0))]) == ""


def test_the_axis_is_named_by_the_clock():
    virtual, real = side("a", made([0.1, 0.5])), side("b", replace(made([0.1, 0.5]), served=True))
    assert "Accuracy against virtual time" in accuracy_figure([virtual])
    assert "Accuracy against real time" in accuracy_figure([real]) and "virtual" not in accuracy_figure([real])
    assert "Time is real in runs that were served, virtual in the others." in accuracy_figure([virtual, real])


def test_of_more_lines_than_can_be_drawn_the_best_is_drawn():
    sides = [side(f"arm {i}", made([0.1, 0.05 * i])) for i in range(1, 13)]
    page = accuracy_figure(sides)
    assert "arm 12: 60 %" in page and "arm 4:" not in page and "the 8 of 12 that end highest" in page


def test_long_names_on_lines_keep_what_tells_them_apart():
    sides = [side(f"fedavg with momentum and a deadline of {s} s", made([0.1, 0.5])) for s in (60, 90)]
    page = accuracy_figure(sides).partition("aria-label")[2]
    assert all(page.count(f"{s} s: 50 %") >= 2 for s in (60, 90)), "wide and slim"


def test_the_moment_decides():
    one = side("a", made([0.1, 0.5, 0.9]))
    assert accuracies_at(one, None) == [0.9] and accuracies_at(one, 60.0) == [0.5] and accuracies_at(one, 59.0) == [0.1]


def test_groups_stand_beside_each_other_and_on_phones_below():
    sides = [side(name, group=group) for group in ("mild", "severe") for name in "ab"]
    wide, slim = standings(sides, WIDE, None), standings(sides, SLIM, None)
    assert slim.height > 1.8 * wide.height
    assert sum(">mild<" in mark for mark in wide.marks) == 1
    assert sum(">a<" in mark for mark in wide.marks) == 1, "names once, at the left"
    assert sum(">a<" in mark for mark in slim.marks) == 2


def test_seeds_without_a_model_are_said():
    bare = made([0.1], first=None)
    page = standings_figure([side("a", made(), bare), side("b", bare)], "title", "how", at=120.0)
    assert "50 % (1 of 2)" in page and "count with their first weights" in page, "as in tables"
    assert "no model yet" in page and "b no model yet" in page


def test_where_nobody_has_a_model_there_is_no_figure():
    assert standings_figure([side("a", made(first=None))], "t", "h", at=1.0) == ""


def test_where_there_is_no_room_for_all_the_best_are_kept_in_their_order():
    sides = [side(str(i), made([0.1, v])) for i, v in enumerate((0.2, 0.9, 0.1, 0.5))] + [side("none", made([], end=9.0))]
    assert [one.name for one in highest_sides(sides, 2)] == ["1", "3"] and highest_sides(sides, 9) == sides
