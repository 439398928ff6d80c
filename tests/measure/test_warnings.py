"""What a run says loudly: that it made no model, that it failed often, that reports were refused, that nothing was learnt."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.aggregation import TOO_FEW
from fedfleet.core.events import CandidatesSeen, Evaluated, ModelCommitted, ReportRejected, RoundFailed, RunEnded
from fedfleet.core.records import ClientScores, Stop
from fedfleet.measure.score_info import ScoreInfo, chance_level
from fedfleet.measure.warnings import failed_rounds, warnings
from fedfleet.pace.rounds import readiness
from tests.worlds import Fleet, even_fleet, events_of, roster_of, toy_plan, world_of


def evaluated(version, correct, total=100):
    return Evaluated(float(version), version, correct, total, 1.0)


def committed(version):
    return ModelCommitted(float(version), version, version, "hash", 5)


def test_a_healthy_run_says_nothing():
    assert warnings([evaluated(0, 10), committed(1), evaluated(1, 50)]) == []
    assert warnings([evaluated(0, 10), committed(1), evaluated(1, 50)], ScoreInfo(chance=0.1)) == []
    assert warnings([]) == []


def test_no_model_is_the_first_thing_to_hear_with_the_reason_and_the_cure():
    log = [evaluated(0, 10)]
    log += [e for i in range(3) for e in (ReportRejected(i, i, 0, "odd"), RoundFailed(i, i, "no report could be folded"))]
    log += [CandidatesSeen(3.0, roster_of()), RoundFailed(3.0, 3, "fewer than 2 clients could be selected")]
    assert failed_rounds(log) == {"no report could be folded": 3, "fewer than 2 clients could be selected": 1}
    first, second = warnings(log)
    assert "all 4 rounds failed" in first
    assert "no usable update, 3 times" in first
    assert "3 reports of 1 clients" in second
    assert "(odd)" in second
    assert all(cure in second for cure in ("algorithm.lr", "algorithm.attack", "algorithm.bound"))


def test_many_failures_and_refusals_are_counted():
    log = [committed(1), RoundFailed(2.0, 1, "late"), RoundFailed(3.0, 2, "late"), evaluated(0, 10), evaluated(1, 60)]
    log += [ReportRejected(4.0, i, i % 2, f"client {i % 2}: leaf 'w' is not finite") for i in range(4)]
    first, second = warnings(log)
    assert first.startswith("2 of 3 rounds failed (late); no client reported within")
    assert second.startswith("4 reports of 2 clients were refused (leaf 'w' is not finite); ")


def test_reasons_that_are_all_unlike_are_shown_by_an_example():
    log = [ReportRejected(1.0, i, i, f"client {i}: leaf 'w' reaches {i}, beyond its bound 1") for i in (5, 7)]
    assert "(for example: leaf 'w' reaches 5, beyond its bound 1)" in warnings(log)[0]


def test_clients_that_learnt_for_themselves_have_learnt():
    own = ClientScores(np.array([0, 1]), np.array([8, 9]), np.array([10, 10]))
    last = replace(evaluated(1, 10), clients=own)
    for chance in (None, 0.1):
        assert warnings([evaluated(0, 10), committed(1), evaluated(1, 10), last], ScoreInfo(chance=chance)) == []


def test_a_run_that_learnt_nothing_says_so():
    log = [evaluated(0, 10), committed(1), evaluated(1, 10), committed(2), evaluated(2, 9)]
    assert "nothing was learnt: accuracy began at 10.0 % and never rose above 10.0 %" in warnings(log)[0]


def test_an_accuracy_that_rose_to_no_more_than_chance_is_no_success():
    # From 3 to 12 %, where the most frequent label alone makes 11 %: without labels that looks like learning.
    log = [evaluated(0, 30, 1000), committed(1), evaluated(1, 120, 1000)]
    assert warnings(log) == []
    (said,) = warnings(log, ScoreInfo(chance=0.11))
    assert said.startswith(
        "the model is not clearly better than chance: it ended at an accuracy of 12.0 %, and always saying the most frequent "
        "label scores 11.0 % on the same 1,000 test samples"
    )


@pytest.mark.parametrize(
    ("correct", "total", "chance", "warns"),
    [(129, 1000, 0.11, True), (130, 1000, 0.11, False), (13, 100, 0.11, True), (975, 1000, 0.97, True), (60, 100, 0.5, True),
     (61, 100, 0.5, False)],
)  # fmt: skip
def test_chance_has_a_spread_that_falls_with_the_test_samples(correct, total, chance, warns):
    log = [evaluated(0, 1, total), committed(1), evaluated(1, correct, total)]
    assert bool(warnings(log, ScoreInfo(chance=chance))) == warns


def test_a_model_that_fell_back_to_chance_says_how_good_it_was():
    log = [evaluated(0, 10), committed(1), evaluated(1, 80), committed(2), evaluated(2, 10)]
    assert "ended at an accuracy of 10.0 %, although it had reached 80.0 %," in warnings(log, ScoreInfo(chance=0.1))[0]


def test_chance_is_the_share_of_the_most_frequent_label():
    assert chance_level(np.array([0, 0, 1, 2])) == 0.5
    assert chance_level(np.zeros(0, np.int64)) is None


def test_a_run_that_ended_before_its_first_round_says_what_it_waited_for():
    asleep = Fleet(even_fleet(2).keys, (8.0,) * 2, (100.0,) * 2, (((0.0, 10.0),), ((20.0, 30.0),)))
    stop = Stop(virtual_seconds=7200.0)
    log, _ = events_of(toy_plan(readiness(2, if_few="wait"), 2, stop=stop), world_of(asleep))
    (said,) = warnings(log)
    assert said.startswith(
        "no model was made: the run ended at 02:00 of the first day by virtual_seconds, and the clients that a round needs"
    )
    log, _ = events_of(toy_plan(readiness(2), 2, stop=stop), world_of(even_fleet(2, 1e9)))
    assert "its first round was still waiting for reports" in warnings(log)[0]


def test_a_run_that_still_goes_on_or_was_good_from_the_start_is_not_accused():
    assert warnings([evaluated(0, 10)]) == []
    assert warnings([evaluated(0, 99), evaluated(0, 99), RunEnded(0.0, "target_accuracy")]) == []


def test_a_lead_over_chance_that_few_samples_cannot_tell_is_said_as_such():
    log = [evaluated(0, 2, 20), committed(1), evaluated(1, 13, 20)]
    (said,) = warnings(log, ScoreInfo(chance=0.5))
    assert said.startswith("the model is not clearly better than chance: it ended at an accuracy of 65.0 %")


def test_reports_that_came_with_too_few_others_are_not_blamed_on_the_learning_rate():
    why = f"client 1: only 2 reports could be folded, {TOO_FEW} 5"
    log = [ReportRejected(1.0, 0, 1, why), ReportRejected(1.0, 1, 2, why)]
    (said,) = [w for w in warnings(log) if "refused" in w]
    assert "algorithm.lr" not in said and "pace.cohort (pace.k)" in said
    both = [w for w in warnings([*log, ReportRejected(1.0, 2, 3, "client 3: leaf 'w' is not finite")]) if "refused" in w]
    assert ["algorithm.lr" in w for w in both] == [True, False]
