"""Small pictures: steps on one scale, columns that add up, words for those who do not see them."""

import re

from fedfleet.app.dashboard.sparklines import ROUNDS, curve_description, round_bars, rounds_picture, sparkline
from fedfleet.app.dashboard.status_text import round_rows
from fedfleet.measure.run_progress import Evaluation, Round
from fedfleet.measure.run_record import read_record
from tests.app.dashboard.runs import END, STORY


def test_sparklines_share_one_scale():
    half = [Evaluation(0, 0, 0, 100), Evaluation(1, 50, 100, 100)]
    assert 'cx="96.0" cy="2.0"' in sparkline(half, 100, live=False)
    assert 'cx="48.5" cy="2.0"' in sparkline(half, 100, live=True)  # half of what is planned
    assert "path" not in sparkline([], None, live=False)
    many = [Evaluation(i, i, i % 100, 100) for i in range(5000)]
    assert len(sparkline(many, None, live=False)) < 2000


def test_rounds_show_what_was_used_and_what_was_not():
    said = rounds_picture(read_record([*STORY, *END]).progress.rounds)
    heights = [float(h) for h in re.findall(r'height="([\d.]+)" class="f1"', said)]
    assert heights == [40.0, 0.0] and said.count('class="f3"') == 1
    assert "1 failed" in said and 'role="img"' in said and "<title>round 2: 0 used, 3 asked; failed: too few reports" in said
    assert rounds_picture([Round(i, asked=1) for i in range(1000)]).count("<g>") == ROUNDS
    assert "No round" in rounds_picture([])


def test_bars_name_people_and_end():
    said = round_bars(*round_rows(read_record(STORY)))
    assert said.count("<li>") == 3 and "its battery was empty" in said
    assert "and 7 more" in round_bars(1.0, [], 7)


def test_words_for_the_curve():
    assert curve_description([], "a", "") == "Accuracy of a: no model has been evaluated yet."
    assert "60 % now; compared with b" in curve_description(read_record(STORY).progress.evaluations, "a", "b")
