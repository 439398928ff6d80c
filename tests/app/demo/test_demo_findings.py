"""What the demo says: true of the runs that it is given."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.demo import demo_findings, demo_study
from fedfleet.app.demo.demo_study import USERS, WAITING, WITH_DEADLINE
from tests.app.pages.sides.arms import compared

HOUR = 3600.0


def done_of(table):
    """Runs by fleet and way that end at these accuracies, one for each seed; the waiting ones take ten days."""
    result = {}
    for (fleet, way), ends in table.items():
        runs = [compared([0.1, v], seed=7 + i, end=10 * 24 * HOUR if way == WAITING else 3 * HOUR) for i, v in enumerate(ends)]
        for run in runs:
            run.metrics.update({"participation": {"never": 0 if way == WAITING else 40}})
        result[fleet, way] = runs
    return result


@pytest.fixture
def done():
    table = {(fleet, way): [0.9, 0.91, 0.92] for fleet in demo_study.FLEETS for way in demo_study.WAYS}
    table |= {("severe", WITH_DEADLINE): [0.5, 0.52, 0.51], ("severe", "FedBuff"): [0.8, 0.83, 0.81]}
    return done_of(table | {(USERS, way): [0.9, 0.9, 0.9] for way in demo_study.METHODS})


def test_the_headline_says_how_far_ways_are_apart_and_what_is_significant(done):
    text = demo_findings.headline(done)
    assert "0 points apart on the mild fleet and 40 on the severe one" in text
    rest = text.split("significantly better than 'FedAvg, deadline'")[1]
    assert "'FedBuff'" in rest and "(severe)" in rest
    same = done | {("severe", way): done["mild", way] for way in demo_study.WAYS}
    assert "no statistically significant winner" in demo_findings.headline(same)


def test_only_what_is_significant_is_called_so(done):
    better, worse = demo_findings.significant_differences(done, "severe")
    assert "FedBuff" in better and worse == [] and demo_findings.significant_differences(done, "mild") == ([], [])
    rest = demo_findings.paragraph(done).split("Significantly better")[1]
    assert "'FedBuff'" in rest and "on the severe fleet" in rest and "mild" not in rest


def test_what_is_significant_at_one_moment_only_is_not_called_so(done):
    """FedBuff and FedAvg are alike halfway, and clearly apart at the end."""
    half = 1.5 * HOUR
    apart = {
        way: [
            replace(run, seconds=np.array([0.0, half, 2 * half]), accuracy=np.array([0.1, 0.6 + 0.1 * i, run.accuracy[-1]]))
            for i, run in enumerate(done["severe", way])
        ]
        for way in (WITH_DEADLINE, "FedBuff")
    }
    late = done | {("severe", way): runs for way, runs in apart.items()}
    assert demo_findings.against_deadline(late, "severe")["FedBuff"][1] < 0.05
    assert "FedBuff" not in demo_findings.significant_differences(late, "severe")[0]


def test_nothing_significant_is_said_too(done):
    same = done | {("severe", way): done["mild", way] for way in demo_study.WAYS}
    assert "No difference to 'FedAvg, deadline' is statistically significant" in demo_findings.paragraph(same)


def test_the_paragraph_has_the_figures_of_the_runs(done):
    text = demo_findings.paragraph(done)
    assert "40, 40 and 40 of 100 clients" in text and "10.0 days" in text and "('FedAvg, deadline': 51 %)" in text


def test_a_run_without_a_model_by_then_has_no_standing(done):
    late = [type(run)(**{n: getattr(run, n) for n in run.__slots__} | {"first": 9 * HOUR}) for run in done["mild", WAITING]]
    assert demo_findings.mean_accuracy(late) is None and demo_findings.accuracy_at_hours(late[0]) is None
    assert WAITING not in dict(demo_findings.ranking({**done, ("mild", WAITING): late}, "mild"))


def test_rows_are_the_runs(done):
    ways = demo_findings.way_rows(done)
    assert len(ways) == len(done) and ways[0]["seeds"] == 3
    buff = next(r for r in ways if (r["fleet"], r["method"]) == ("severe", "FedBuff"))
    assert buff["against_deadline"]["p_holm"] < 0.05 and buff["accuracy_at_equal_time"] == pytest.approx(0.8133, abs=1e-3)
