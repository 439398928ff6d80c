"""Who took part, whose data, how well it serves."""

import re

import numpy as np
import pytest

from fedfleet.app.pages.report.client_participation import (
    accuracy_sentence,
    busiest_sentence,
    client_accuracy_figure,
    data_figure,
    holdings_sentence,
    participation_figure,
    participation_section,
)
from fedfleet.app.pages.report.report_facts import collect_facts
from fedfleet.measure.summary import summary
from tests.app.pages.report.logs import DEADLINE, facts_of, journal, scores, seen

LOG = journal([([0, 1], [2])] * 3 + [([0], [2, 3])], clients=8, scores=scores([1.0, 0.95, 0.5, 0.0]))
WORLD = seen([10, 2, 4, 4, 5, 5, 5, 5], reached=[3, 3, 3, 3, 0, 0, 0, 0])


def test_how_few_gave_how_much():
    assert busiest_sentence(facts_of(LOG)) == "The busiest client gave 57 % of the 7 reports that were used."
    even = journal([([0, 1], [])] * 2, clients=2)
    assert "contributed equally" in busiest_sentence(facts_of(even)) and busiest_sentence(facts_of(journal([], end=None))) == ""


def test_what_they_hold_is_said_beside_each_other():
    f = facts_of(LOG, hindsight=WORLD)
    assert [float(n) for n in re.findall(r"\d+\.\d", holdings_sentence(f))] == [6.0, 4.0, 5.0]
    assert holdings_sentence(facts_of(LOG)) == ""
    text = data_figure(f)
    assert "Training samples, 40 in all" in text and "30 % of the 40 training samples" in text


def test_every_person_has_a_column_and_groups_say_who_they_are():
    text = participation_figure(facts_of(LOG, hindsight=WORLD)).partition('<div class="slim">')[0]
    titles = re.findall(r"<title>client (\d+): asked (\d+) times?, used (\d+), (\d+) samples?</title>", text)
    assert [tuple(map(int, t)) for t in titles] == [(0, 4, 4, 10), (1, 3, 3, 2), (2, 4, 0, 4), (3, 1, 0, 4)]
    assert all(said in text for said in ("2 took part", "2 asked, nothing used", "4 never asked", "out of reach"))


def test_where_people_were_in_reach_nothing_else_is_claimed():
    assert "out of reach" not in participation_figure(facts_of(LOG, hindsight=seen([5] * 8))) + participation_figure(facts_of(LOG))


def test_the_histogram_counts_everybody():
    text = client_accuracy_figure(facts_of(LOG))
    assert "Of 4 clients, for 1" in text and "less than 10 %" in text and "2 in 90 % or more" in text
    assert client_accuracy_figure(facts_of(journal([([0], [])]))) == ""


NOBODY = dict.fromkeys(("accuracy_took_part", "accuracy_never", "accuracy_unseen"))


@pytest.mark.parametrize("key", ["accuracy_took_part", "accuracy_never", "accuracy_unseen"])
def test_people_who_never_took_part_or_were_held_out_are_told_apart(key):
    f = collect_facts("x", DEADLINE, {**summary(LOG), **NOBODY, key: 0.25}, LOG)
    assert "25 % for" in accuracy_sentence(f) and accuracy_sentence(f).count("%") == 1
    assert accuracy_sentence(collect_facts("x", DEADLINE, {**summary(LOG), **NOBODY}, LOG)) == ""


def test_a_large_fleet_is_no_larger_on_the_page():
    log = journal([(list(range(0, 1000, 2)), list(range(1, 1000, 2)))] * 2, clients=200_000)
    text = "".join(participation_section(facts_of(log)))
    assert len(text) < 60_000 and "200,000 clients" in text and "199,000 never asked" in text and "nan" not in text


def test_a_run_in_one_place_has_no_section():
    assert participation_section(facts_of(journal([([0], [])], clients=1))) == []
    assert np.isfinite(len(participation_section(facts_of(LOG))))
