"""The sentences of the conclusion are true of the journals that they are made of."""

import numpy as np
import pytest

from fedfleet.app.pages.report import conclusion
from fedfleet.app.pages.report.client_participation import participation_section
from fedfleet.app.pages.report.conclusion import (
    confidence_sentence,
    lead,
    report_figures,
    suggestions,
    title,
    usual_reachable,
)
from fedfleet.app.pages.report.learning_curve import learning_section
from fedfleet.app.pages.report.report_facts import collect_facts
from fedfleet.measure.attribution.critical_path import attribution
from fedfleet.measure.score_info import ScoreInfo
from fedfleet.measure.summary import summary
from tests.app.pages.report.logs import DEADLINE, READINESS, facts_of, journal, needs, scores, seen

FEW = journal([([0, 1], [2, 3])] * 10, clients=20, accuracy=[20, 40, 60, 62, 64, 70, 68, 66, 60, 55])


def test_the_title_is_the_finding():
    assert title(facts_of(FEW)) == "55 %: the model learnt from 2 of 20 clients"
    held = seen([5, 5] + [5] * 18)
    assert title(facts_of(FEW, hindsight=held)) == "55 %: the model learnt from 2 clients that hold a tenth of the data"
    everyone = journal([([0, 1, 2], [])] * 3, clients=3, accuracy=[30, 60, 90])
    assert title(facts_of(everyone)) == "90 %: the model learnt from all 3 clients"


def test_a_run_without_a_model_says_so():
    none = facts_of(journal([([], [0, 1])] * 5))
    assert title(none) == "No model was made: all 5 rounds failed" and "there is no new model" in lead(none)
    begun = facts_of(journal([], end=None), ended=False)
    assert title(begun) == "So far no model: its first round did not end"
    assert [value for value, _, _ in report_figures(none)][2] == "0 of 10"
    assert report_figures(none)[0][1].startswith("accuracy of the first weights") and report_figures(none)[1][0] == "-"
    assert "all 5 rounds" in lead(none) and confidence_sentence(none) == ""
    said = "".join(participation_section(none))
    assert "the model is right" not in said and "Whose data the model saw" not in said


def test_where_parts_of_the_model_stay_at_home_the_title_is_of_what_people_use():
    caveat = "2 of the 4 arrays of weights (a, b) stay with the clients: read accuracy_clients"
    result = {**summary(FEW), "accuracy_clients": 0.75, "warnings": [caveat]}
    f = collect_facts("x", DEADLINE, result, FEW)
    assert title(f) == "75 % on the clients' own data: each keeps a part of the model"
    assert "75 % of its own test data" in lead(f) and "55 %" in lead(f)
    assert report_figures(f)[0][:2] == (
        "75.0 %",
        "accuracy on the clients' own data",
    ) and "±" not in confidence_sentence(f)


def test_a_model_that_only_guesses_is_called_so():
    log = journal([([0], [])] * 4, clients=4, accuracy=[11, 12, 10, 11])
    f = collect_facts("x", "seed = 1", summary(log, score=ScoreInfo(chance=0.12)), log)
    assert title(f) == "11 %: no better than guessing" and report_figures(f)[0][0].startswith("!")


def test_a_test_set_of_one_class_is_not_called_a_guess():
    log = journal([([0], [])] * 4, clients=4, accuracy=[100] * 4)
    f = collect_facts("x", "seed = 1", summary(log, score=ScoreInfo(chance=1.0)), log)
    assert "guessing" not in title(f) and "only one class" in title(f) and "only one class" in f.metrics["warnings"][0]


def test_the_lead_says_what_was_reached_what_it_cost_and_what_held_it_back():
    f = facts_of(FEW, hindsight=seen([5] * 20, reached=[3, 3, 3, 3] + [0] * 16))
    said = lead(f)
    assert "After 10 rounds and 16.7 min" in said and "right on 55 %" in said and "its best was 70 %" in said
    # 20 reports of 50 s, 20 tasks of 60 s
    assert "60.0 MB" in said and "55 % of the devices' time was wasted" in said
    assert "20 of 40 reports missed the deadline of 60 s" in said and "16 clients were out of reach" in said


def test_people_who_were_in_reach_are_not_said_to_be_out_of_it():
    f = facts_of(FEW, hindsight=seen([5] * 20, reached=[3] * 19 + [0]))
    assert "16 clients were never asked" in lead(f) and "out of reach" not in lead(f)
    assert "16 clients were never asked" in lead(facts_of(FEW)), "nor where no world can tell"


def test_how_late_most_reports_were_comes_from_the_world():
    took = np.where(np.arange(40) % 4 < 2, 50.0, 90.0)
    f = facts_of(FEW, hindsight=seen([5] * 20, needs=needs(took)))
    assert "half of them by less than 30 s" in lead(f)
    assert any("A deadline of 90 s (pace.seconds=90): 20 of the 20 late reports would have come" in s for s in suggestions(f))
    far = facts_of(FEW, hindsight=seen([5] * 20, needs=needs(np.where(took > 60, 1e6, took))))
    assert not any("deadline of" in s for s in suggestions(far)), "nobody would wait so long"


def test_failed_rounds_are_told_with_their_reason_and_a_cure():
    f = facts_of(journal([([0], []), ([], [1]), ([0], []), ([0], []), ([0], [])], clients=2))
    assert "1 of 5 rounds was lost (because no report came in time)" in lead(f)
    assert any("reported within the 60 s" in s for s in suggestions(f))


def test_where_nothing_stood_in_the_way_the_time_is_explained():
    log = journal([([0, 1], [])] * 4, clients=2, accuracy=[50, 60, 70, 80])
    assert "of the rest, most was waiting until clients" in lead(facts_of(log, READINESS, attribution=attribution(log)))


def test_waiting_for_all_is_weighed_against_a_deadline():
    slow = journal([([0, 1], [])] * 12, clients=2, length=10_000.0, deadline=9_000.0)
    assert any(
        s.startswith("A deadline instead of waiting for all") and "within 50 s" in s for s in suggestions(facts_of(slow, READINESS))
    )
    pause = READINESS + "t_break = 9950.0\n"  # which no deadline shortens
    assert not any("instead of waiting" in s for s in suggestions(facts_of(slow, pause)))
    quick = journal([([0, 1], [])] * 12, clients=2)
    assert not any("instead of waiting" in s for s in suggestions(facts_of(quick, READINESS)))


RISES = range(5, 65, 3)
FLAT, DIPPED, FALLING = [60] * 20, [60] * 8 + [20] * 4 + [60] * 8, [20] * 15 + [70, 70, 60, 50, 40]


@pytest.mark.parametrize(("accuracy", "rises"), [(RISES, True), (FLAT, False), (DIPPED, False), (FALLING, False)])
def test_more_rounds_are_advised_only_while_it_rises(accuracy, rises):
    """A dip that was made good is no rise."""
    f = facts_of(journal([([0], [])] * 20, clients=1, accuracy=list(accuracy)))
    assert any(s.startswith("More rounds") for s in suggestions(f)) == rises


def test_key_figures_have_units_and_alarms():
    log = journal([([0, 1], [2])] * 3, clients=4, accuracy=[60, 70, 80], scores=scores([1.0, 0.9, 0.1, 0.0]))
    result = report_figures(facts_of(log))
    assert [value for value, _, _ in result] == ["80.0 %", "!3 %", "2 of 4", "5.0 min", "15.0 MB", "38 %"]
    assert result[0][1] == "accuracy on unseen data, ±8" and "95 %" in result[0][2] and "100 samples" in result[0][2]


def test_one_run_is_not_sure():
    sure = confidence_sentence(facts_of(FEW))
    assert "one seed" in sure and "±10 points" in sure and "100 test samples" in sure
    assert confidence_sentence(facts_of(journal([], end=None))) == "" and usual_reachable(facts_of(FEW)) == (4.0, 0, 10)


def test_of_a_served_run_time_is_real():
    served = facts_of(FEW, served=True)
    assert report_figures(served)[3][1] == "real time" and "server" in report_figures(served)[3][2]
    assert report_figures(facts_of(FEW))[3][1].startswith("virtual time")
    assert "virtual" not in "".join(learning_section(served)) and "real time" in "".join(learning_section(served))


def test_every_sentence_of_the_lead_begins_with_a_capital(monkeypatch):
    alone = journal([([0], [])] * 3, clients=1, accuracy=[30, 60, 90])
    monkeypatch.setattr(conclusion, "sentence", lambda _: "all of the time was the pause between rounds.")
    assert lead(facts_of(alone, READINESS, attribution=attribution(alone))).endswith(
        ". All of the time was the pause between rounds."
    )
