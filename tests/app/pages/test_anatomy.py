"""The picture of a round."""

import re

import pytest

from fedfleet.app.pages.anatomy import anatomy_figures, finding, round_picture
from fedfleet.measure.anatomy import Anatomy, Strand
from fedfleet.measure.tasks import task_table


def a_round(**changed):
    strands = (
        Strand(0, 3, 10.0, 20.0, "folded", "in model 1", {"download": 2.0, "compute": 4.0, "upload": 1.0}),
        Strand(1, 4, 10.0, 40.0, "dropped", "too late, given up", {"download": 30.0}),
        Strand(2, 5, 25.0, float("nan"), "running", "still at work", None),
    )
    usual = {
        "number": 7, "opened": 0.0, "closed": 40.0, "version": 1, "reason": "", "asked": ((10.0, 2), (25.0, 1)),
        "refills": False, "fates": {"folded": 1, "dropped": 1, "running": 1}, "strands": strands,
    }  # fmt: skip
    return Anatomy(**(usual | changed))


def bars(text, colour):
    """(x, width) of the bars of a colour in the wide drawing."""
    wide = text.partition('<div class="slim">')[0]
    pattern = rf'<rect x="([\d.]+)" y="\d+" width="([\d.]+)" height="11" fill="{re.escape(colour)}"'
    return [tuple(map(float, found)) for found in re.findall(pattern, wide)]


def test_a_bar_is_as_long_as_its_stages_and_the_rest_is_out_of_reach():
    text = round_picture(a_round())
    (down, late), (train,), (up,) = bars(text, "var(--c4)"), bars(text, "var(--c5)"), bars(text, "var(--c1)")
    away, unknown = bars(text, "var(--c6)")
    assert train[1] == pytest.approx(2 * down[1], abs=0.2) and up[1] == pytest.approx(down[1] / 2, abs=0.2)
    assert train[0] == pytest.approx(down[0] + down[1], abs=0.2) and up[0] == pytest.approx(
        train[0] + train[1], abs=0.2
    )
    assert away[1] == pytest.approx(3 / 2 * down[1], abs=0.2), "10 seconds, of which 7 were work"
    assert late[1] == pytest.approx(15 * down[1], abs=0.5)
    assert unknown[0] + unknown[1] == pytest.approx(late[0] + late[1], abs=0.2), "what still runs goes to the end"


def test_what_entered_no_model_is_hatched_and_each_drawing_has_its_own_hatching():
    text = round_picture(a_round())
    assert text.count('fill="url(#hatch-wide-7)"') == text.count('fill="url(#hatch-slim-7)"') == 2
    assert text.count('id="hatch-wide-7"') == text.count('id="hatch-slim-7"') == 1
    assert "entered no model" in text and "out of reach" in text and "exchanging" not in text


def test_rebroadcasts_are_marked_and_refills_are_not():
    assert round_picture(a_round()).count('class="mark again"') == 2, "one in each drawing"
    assert "mark again" not in round_picture(a_round(refills=True))
    assert "in 2 broadcasts" in finding(a_round(), "usual") and "as others ended" in finding(
        a_round(refills=True), "usual"
    )


def test_the_finding_is_said_in_words():
    assert finding(a_round(), "usual") == (
        "A usual round (7): 3 asked in 2 broadcasts; 1 used, 1 too late, 1 still at work; model 1 was made after 40 s"
    )
    silent = a_round(version=None, reason="<nobody>", fates={}, strands=(), asked=((10.0, 2),))
    assert finding(silent, "worst") == "The worst round (7): 2 asked; nobody reported; it failed after 40 s"


def test_a_round_in_which_nothing_took_time_is_drawn():
    one = (Strand(0, 3, 5.0, 5.0, "lost", "lost: <broken>", {}),)
    text = round_picture(a_round(opened=5.0, closed=5.0, strands=one, asked=((5.0, 1),)))
    assert "nan" not in text and "inf" not in text and "&lt;broken&gt;" in text


def test_a_run_shows_its_usual_and_its_worst_round(tiny_run):
    found = "".join(anatomy_figures(tiny_run.events, task_table(tiny_run.events)))
    assert found.count("<h3>") == 2 and found.count("<svg") == 4
    assert "4 asked; 4 used" in found
    assert anatomy_figures([], task_table([])) == []
