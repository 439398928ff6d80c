"""How to check a comparison."""

import shlex
from pathlib import Path

import pytest

from fedfleet.app.pages.sides.sections import (
    PageFacts,
    checks,
    commands_for,
    differences,
    panel,
    participation_section,
    participation_sentence,
    top_tenth,
)
from tests.app.pages.sides.looks import made, side


def test_few_runs_stand_beside_each_other_and_many_as_values():
    few = differences(["a", "b"], {"pace.use": ["deadline", None]})
    assert 'data-h="a"' in few and ">none<" in few
    many = differences([str(i) for i in range(9)], {"seed": list(range(9))})
    assert "0, 1, 2, 3, 4, 5, 6, 7 and 1 more" in many


def test_everything_is_escaped():
    what = {
        "names": ["<a>", "b"],
        "differs": {"k<": ["<v>", 1]},
        "digests": [("<run>", "12ab")],
        "commands": ["fedfleet replay '<x>'"],
    }
    page = checks(PageFacts("", "", **what))
    assert "<v>" not in page and "<run>" not in page and "<x>" not in page and "12ab" in page


def test_commands_name_the_runs():
    said = "\n".join(commands_for([Path("r/a"), Path("r/b")]))
    assert "fedfleet replay r/a" in said and "fedfleet compare r/a r/b mine" in said
    spaced = commands_for([Path("my runs/a"), Path("my runs/b")])
    assert [shlex.split(line)[2] for line in spaced] == ["my runs/a", "my runs/a", "my runs/a/spec.toml", "my runs/a"]


def test_those_left_out_are_drawn_by_why():
    result = panel(side("a", made(used=(5, 1, 0, 0, 0), late=(0, 0, 2, 0, 0))))
    assert (result.late, result.never, result.people) == (1, 2, 5)
    assert [c.full for c in result.columns] == [5, 1, 0, 0, 0]
    assert result.captions == ["3 of 5 never took part", "1 too late, 2 not selected"]
    assert panel(side("a", made(used=(2, 1), late=(0, 0)))).captions == ["all took part"]


def test_seeds_are_averaged_rank_by_rank():
    result = panel(side("a", made(used=(0, 4), late=(0, 0)), made(used=(2, 0), late=(0, 0))))
    assert [c.full for c in result.columns] == [3, 0] and result.never == 1


def test_the_busiest_tenth():
    assert top_tenth(side("a", made(used=[9] + [0] * 9, late=[0] * 10))) == 1.0
    assert top_tenth(side("a", made(used=[1] * 20, late=[0] * 20))) == pytest.approx(0.1)
    uneven = side("b", made(used=[9] + [0] * 9, late=[0] * 10))
    assert "'b' a tenth of the clients sent 100 %" in participation_sentence(
        [side("a", made(used=[1] * 10, late=[0] * 10)), uneven]
    )


def test_a_million_people_share_columns():
    many = made(used=[2] * 50_000, late=[0] * 50_000)
    assert len(participation_section([side("a", many)])) < 60_000


def test_what_has_one_name_stands_in_one_row():
    sides = [side(name, group=group) for group in ("mild", "severe") for name in ("wait", "go")]
    page = participation_section(sides)
    places = [page.index(f">{label}</text>") for label in ("mild, wait", "severe, wait", "mild, go", "severe, go")]
    assert places == sorted(places)
    assert participation_section([]) == ""


def test_names_are_escaped_in_the_sentence_too():
    page = participation_section([side("<i> & you", made(used=[3] * 10, late=[0] * 10))])
    assert "<i>" not in page and "&lt;i&gt; &amp; you&#x27; a tenth" in page
