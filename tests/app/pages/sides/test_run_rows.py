"""The table of runs."""

from fedfleet.app.pages.sides.run_rows import Head, accuracy_cell, html_table, runs_table, strip, time_to
from tests.app.pages.sides.looks import made, side


def test_every_seed_leads_to_its_run_and_the_name_to_the_first():
    two = side("a<b", made(seed="7", link="r7/report.html"), made([0.1, 0.4], seed="8", link="r8/report.html"), group="mild")
    page = runs_table([two], target=0.8)
    assert page.count('href="r7/report.html"') == 2 and page.count('href="r8/report.html"') == 1
    assert "mild, a&lt;b" in page and ">7</a>" in page and ">8</a>" in page
    assert "65.0\u00a0%</b>" in page and "40 to 90\u00a0%" in page


def test_without_a_report_there_is_no_link():
    assert "<a " not in runs_table([side("a")])


def test_times_to_a_target_count_those_who_never_got_there():
    there, never = made([0.1, 0.9]), made([0.1, 0.2, 0.3])
    assert time_to([there], 0.8) == "60 s" and time_to([never], 0.8) == "never"
    assert time_to([there, there, never], 0.8) == "60 s (never in 1 of 3)"
    assert time_to([there, never, never], 0.8) == "never in 2 of 3"


def test_who_was_never_tried_has_no_accuracy():
    assert accuracy_cell([]) == "not evaluated" and accuracy_cell([0.5]) == "<b>50.0 %</b>"
    assert "95 % interval of the mean" in accuracy_cell([0.5, 0.7])
    assert strip([0.5, 0.7], 2).count("<circle") == 2


def test_cells_carry_their_heads_for_phones():
    page = html_table([Head("key"), Head("one & two", "a gloss", "words")], [["x", "5 h"]])
    assert 'data-h="one &amp; two"' in page and 'class="words"' in page and "5\u00a0h" in page


def test_long_names_of_rows_may_break_and_short_ones_do_not():
    page = html_table([Head("run"), Head("n")], [[f'<a href="{"x" * 90}">short</a>', "9" * 60], ["long " * 12, "1"]])
    assert page.count('class="long"') == 1 and '<td class="long">long' in page
