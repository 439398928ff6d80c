"""No two texts overlap."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.pages.charts.labels import Flag, cut_names, place_flags, separate, width_of


@given(st.lists(st.floats(0, 300), max_size=12))
def test_places_are_moved_apart_in_their_order_and_stay_inside(places):
    result = separate(places, 16, 0, 300)
    assert len(result) == len(places) and all(-1e-6 <= p <= 300 + 1e-6 for p in result)
    ranked = sorted(result)
    assert all(b - a >= 16 - 1e-6 for a, b in pairwise(ranked)), "twelve fit into 300"
    order = sorted(range(len(places)), key=lambda i: places[i])
    assert [result[i] for i in order] == ranked


@given(st.lists(st.integers(0, 18), max_size=10, unique=True))
def test_what_is_apart_already_stays(steps):
    places = [16.0 * s for s in steps]
    assert separate(places, 16, 0, 300) == places


def test_too_many_stand_closer():
    result = separate([5.0] * 5, 16, 0, 40)
    assert result == pytest.approx([0, 10, 20, 30, 40])


def boxes(places, widths, result):
    """(row, start, end, leader) of each label."""
    return [
        (f.row, p - 6 - w, p - 6, p) if f.left else (f.row, p + 6, p + 6 + w, p)
        for p, w, f in zip(places, widths, result, strict=True)
    ]


@given(st.lists(st.tuples(st.floats(50, 800), st.floats(40, 200)), min_size=1, max_size=6))
def test_flags_meet_neither_each_other_nor_a_leader(labels):
    places, widths = [p for p, _ in labels], [w for _, w in labels]
    placed = boxes(places, widths, place_flags(places, widths, 0, 880))
    for a, b in combinations(placed, 2):
        if a[0] == b[0]:
            assert a[2] <= b[1] or b[2] <= a[1], "words over words"
    rows = {row for row, *_ in placed}
    assert max(rows) <= len(labels)


def test_a_leader_does_not_cross_words():
    """Three runs end together, one later: its label stands right of its leader, not across theirs."""
    places, widths = [400.0, 400.0, 400.0, 470.0, 800.0], [180.0, 170.0, 150.0, 160.0, 120.0]
    placed = boxes(places, widths, place_flags(places, widths, 0, 880))
    for a, b in combinations(placed, 2):
        low, high = sorted((a, b))
        assert low[0] == high[0] or not low[1] < high[3] < low[2], (low, high)


def test_nothing_to_label():
    assert place_flags([], [], 0, 100) == [] and separate([], 10, 0, 100) == []
    assert place_flags([50.0], [20.0], 0, 100) == [Flag(0, left=True)]


def test_wide_words_are_wider():
    assert width_of("") == 0 and width_of("mild", strong=True) > width_of("mild") > width_of("il")


@given(st.text("abcdefgh, ", max_size=80), st.text("klm ", max_size=3), st.floats(60, 400), st.booleans())
def test_names_that_differ_at_their_ends_only_still_differ_when_they_are_cut(begin, end, room, strong):
    names = [f"{begin}{n}{end}" for n in ("1", "2", "3")]
    result = cut_names(names, room, strong=strong)
    assert len(set(result)) == 3 and all(width_of(said, strong=strong) <= room for said in result)


def test_names_that_differ_at_once_are_cut_at_their_ends():
    names = ["mild, a deadline of a minute", "severe, a deadline of a minute"]
    assert all(said.endswith("..") for said in cut_names(names, 90.0)) and cut_names(names, 900.0) == names
