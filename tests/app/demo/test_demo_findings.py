"""What the demo says: true of the runs that it is given."""

import re

import pytest

from fedfleet.app.demo import demo_findings, demo_study
from fedfleet.app.demo.demo_study import USERS, WAITING, WITH_DEADLINE
from tests.app.pages.sides.arms import compared

HOUR = 3600.0


def done_of(table):
    """Runs by fleet and way that end at these accuracies, one for each seed, after the demo's hours."""
    result = {}
    for (fleet, way), ends in table.items():
        runs = [compared([0.1, v], seed=7 + i, end=3 * HOUR) for i, v in enumerate(ends)]
        for run in runs:
            run.metrics.update({"participation": {"never": 40 if way == WITH_DEADLINE else 0}})
        result[fleet, way] = runs
    return result


@pytest.fixture
def done():
    table = {(fleet, way): [0.9, 0.91, 0.92, 0.9] for fleet in demo_study.FLEETS for way in demo_study.WAYS}
    table |= {("mild", WITH_DEADLINE): [0.905, 0.905, 0.92, 0.9], ("severe", "FedBuff"): [0.8, 0.83, 0.81, 0.8]}
    table |= {("severe", WITH_DEADLINE): [0.5, 0.52, 0.51, 0.52], ("severe", WAITING): [0.3, 0.31, 0.29, 0.3]}
    return done_of(table | {(USERS, way): [0.9, 0.9, 0.9, 0.9] for way in demo_study.METHODS})


def test_the_headline_says_what_to_use_on_each_fleet_and_how_far_it_is_ahead(done):
    mild, _, severe = demo_findings.headline(done).split("; ")
    assert "as good as any" in mild
    assert "'FedBuff' is 30 points ahead" in severe


def test_what_is_not_decided_is_not_said_as_a_finding(done):
    close = {way: [0.5 + 0.3 * (i % 2), 0.6, 0.4, 0.7 - 0.2 * i] for i, way in enumerate(demo_study.WAYS)}
    unsure = done | done_of({("severe", way): ends for way, ends in close.items()})
    assert "not decided yet" in demo_findings.headline(unsure)
    assert "not decided yet" in demo_findings.paragraph(unsure)


def test_the_paragraph_has_the_figures_of_the_runs_with_their_interval(done):
    text = demo_findings.paragraph(done)
    severe = text.split("On the severe fleet ")[1]
    assert severe.startswith("use 'FedBuff': after 3 h it reaches 81.0 %, ")
    low, high = map(float, re.findall(r"points more than 'FedAvg, deadline' \(95 % interval (\S+) to (\S+)\)", severe)[0])
    assert low < 29.75 < high


def test_of_equal_ways_the_one_that_leaves_out_fewer_is_recommended(done):
    found = demo_findings.recommendation(done, "mild")
    assert found.arm != WITH_DEADLINE
    assert found.equal_within is not None


def test_a_line_for_the_terminal_names_the_fleet(done):
    assert demo_findings.fleet_finding(done, "severe").startswith("Severe fleet: use 'FedBuff'")


def test_how_many_times_as_fast_is_computed():
    slow, fast = ([compared([*[0.1] * n, 0.9], seed=s) for s, n in enumerate(steps)] for steps in ((4, 4, 4, 5), (2, 2, 2, 2)))
    done = {(USERS, way): fast if way == "ShuffleFL" else slow for way in demo_study.METHODS}
    assert demo_findings.speedup_text(demo_findings.recommendation(done, USERS)).startswith("2.1 times as fast as '")


def test_rows_are_the_runs(done):
    ways = demo_findings.way_rows(done)
    assert len(ways) == len(done) and ways[0]["seeds"] == 4
    buff = next(r for r in ways if (r["fleet"], r["method"]) == ("severe", "FedBuff"))
    assert buff["against_deadline"]["p_holm"] < 0.05 and buff["accuracy_at_equal_time"] == pytest.approx(0.81, abs=1e-3)
    assert [row["fleet"] for row in demo_findings.recommendation_rows(done)] == [*demo_study.FLEETS, USERS]
