"""How hard the fleet is, in words."""

import re

from fedfleet.app.fleets.hardness import Hardness, Measure
from fedfleet.app.pages.report.hardness_section import (
    hardness_section,
    hardness_sentence,
    observed_seconds,
    observed_share,
)
from fedfleet.measure.montecarlo.settings import Settings
from tests.app.pages.report.logs import DEADLINE, READINESS, facts_of, journal

LOG = journal([([0, 1], [2, 3])] * 10, clients=10)
HARD = Hardness({"DevMC-R": Measure(0.8, 0.0, 0.4), "InterMC-R": Measure(0.5, 0.01, 0.14)}, Settings(k=4, rounds=10, deadline=60.0))
LONG = Hardness({"DevMC-T": Measure(3.0, 0.0, 60.0), "InterMC-T": Measure(90.0, 1.0, 1800.0)}, Settings(k=4, rounds=10))


def test_what_the_run_saw_counts_nobody_beyond_an_equal_share():
    f = facts_of(LOG)
    assert observed_share(f) == 2 * 4 / 40, (
        "two clients gave ten reports each, an equal share is four" and observed_seconds(f) == 100.0
    )


def test_the_verdict_is_a_word_with_its_figure_beside_what_was_seen():
    assert hardness_sentence(facts_of(LOG, hardness=HARD)) == (
        "This fleet is very hard under a deadline of 60 s: 14 % of fair work gets through (both together); the run saw 20 %."
    )
    said = hardness_sentence(facts_of(LOG, READINESS, hardness=LONG))
    assert said.startswith("This fleet is very hard to wait for: a round takes 30 min (both together), ")
    assert said.endswith("; the run saw 1.7 min.")


def test_bare_metrics_are_in_titles_only():
    text = re.sub(r"<[^>]*>", " ", "".join(hardness_section(facts_of(LOG, hardness=HARD))))
    assert "40 %" in text and "0.8" not in text.replace("DevMC-R 0.8 ", "") and "4 at a time, 10 rounds" in text


def test_what_cannot_be_measured_is_said():
    text = "".join(hardness_section(facts_of(LOG, hardness=Hardness({}, Settings(), "this run is paced by <x>"))))
    assert "Not measured: this run is paced by &lt;x&gt;." in text and hardness_section(facts_of(LOG)) == []


def test_a_run_that_uses_late_reports_is_told_so():
    spec = DEADLINE.replace("[pace]", "[pace]\nmax_staleness = 5")
    assert spec != DEADLINE
    assert "the run, which uses late reports too, saw" in hardness_sentence(facts_of(LOG, spec, hardness=HARD))
