"""How sides stand at one moment."""

from fedfleet.app.pages.charts.marks import SLIM, WIDE
from fedfleet.app.pages.sides.standings import accuracies_at, highest_sides, standings, standings_figure
from tests.app.pages.sides.looks import made, side


def test_the_moment_decides():
    one = side("a", made([0.1, 0.5, 0.9]))
    assert accuracies_at(one, None) == [0.9] and accuracies_at(one, 60.0) == [0.5] and accuracies_at(one, 59.0) == []


def test_groups_stand_beside_each_other_and_on_phones_below():
    sides = [side(name, group=group) for group in ("mild", "severe") for name in "ab"]
    wide, slim = standings(sides, WIDE, None), standings(sides, SLIM, None)
    assert slim.height > 1.8 * wide.height
    assert sum(">mild<" in mark for mark in wide.marks) == 1
    assert sum(">a<" in mark for mark in wide.marks) == 1, "names once, at the left"
    assert sum(">a<" in mark for mark in slim.marks) == 2


def test_seeds_without_a_model_are_said():
    page = standings_figure(
        [side("a", made(), made(first=None)), side("b", made(first=None))], "title", "how", at=120.0
    )
    assert "90 % in 1 of 2" in page and "no model yet" in page and "b no model yet" in page


def test_where_nobody_has_a_model_there_is_no_figure():
    assert standings_figure([side("a", made(first=None))], "t", "h", at=1.0) == ""


def test_where_there_is_no_room_for_all_the_best_are_kept_in_their_order():
    sides = [side(str(i), made([0.1, v])) for i, v in enumerate((0.2, 0.9, 0.1, 0.5))] + [
        side("none", made([], end=9.0))
    ]
    assert [one.name for one in highest_sides(sides, 2)] == ["1", "3"] and highest_sides(sides, 9) == sides
