"""`fedfleet measure SPEC`: the fleet of a spec under its own pacing, and a verdict that does not mislead."""

import pytest

from fedfleet.app.fleets.hardness import Hardness, Measure
from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict.fleet_hardness import measure_spec, undisturbed_seconds, verdict
from fedfleet.measure.montecarlo.settings import Settings

pytestmark = pytest.mark.slow

WORLD = {"clients": 20, "devices": {"use": "spread", "link": 1.0}, "states": {"use": "daily", "sessions": 24}}
SPEC = {
    "task": {"use": "digits_logreg"},
    "world": {**WORLD, "data": {"use": "dirichlet", "alpha": 0.3}, "model_bytes": 4e7},
    "pace": {"use": "deadline", "cohort": 5, "seconds": 60.0},
    "stop": {"rounds": 20},
}


def of(**more):
    return measure_spec(resolve({**SPEC, **more}), seeds=2)


def test_a_deadline_has_all_six_with_units_and_a_clock():
    result = of()
    assert [n for n in result if "MC-" in n] == ["DevMC-R", "DevMC-T", "StatMC-R", "StatMC-T", "InterMC-R", "InterMC-T"]
    both = result["InterMC-R"]
    assert 0 <= both["ci95"][0] <= both["fair_work"] <= both["ci95"][1] <= 1 and "their" in both["beside"]
    assert result["InterMC-T"]["round_seconds"] > result["under"]["pause_seconds"] == 20.0
    assert len(result["clock"]["classes"]) == 10 and result["not_measured"] == []
    under = result["under"]
    assert (under["cohort"], under["rounds"], under["deadline_seconds"]) == (5, 20, 60.0)
    assert under["model_bytes"] == pytest.approx(4e7) and under["samples"] > 0
    assert "of fair work gets through" in result["verdict"] and "label" in result["verdict"]


def test_less_time_is_harder_in_the_metrics_and_on_the_clock():
    hard, easy = (of(pace={**SPEC["pace"], "seconds": s}) for s in (5.0, 600.0))
    assert hard["InterMC-R"]["fair_work"] < easy["InterMC-R"]["fair_work"]
    assert min(hard["clock"]["classes"].values()) < min(easy["clock"]["classes"].values())
    assert "very hard" in hard["verdict"] and "very hard" not in easy["verdict"]


def test_the_horizon_is_that_of_the_run():
    result = of(stop={"rounds": 10_000, "virtual_seconds": 1800.0})
    assert 20 < result["under"]["rounds"] < 100


def test_an_ideal_fleet_is_easy_however_few_the_rounds_are():
    alike = {
        "world": {"clients": 20, "model_bytes": 1e5},
        "stop": {"rounds": 3},
        "pace": {**SPEC["pace"], "seconds": 100.0},
    }
    result = of(**alike)
    assert result["DevMC-R"]["fair_work"] < 0.8 and result["DevMC-R"]["word"] == "easy" and "is easy under" in result["verdict"]
    assert of(**{**alike, "pace": {**SPEC["pace"], "seconds": float("inf")}})["under"]["deadline_seconds"] is None


def test_waiting_has_no_deadline_to_be_measured_with():
    result = of(pace={"use": "readiness", "cohort": 5, "ready_share": 0.8})
    assert [n for n in result if "MC-" in n] == ["DevMC-T", "StatMC-T", "InterMC-T"]
    assert result["under"]["deadline_seconds"] is None and result["under"]["ready_share"] == 0.8
    assert "to wait for: a round takes" in result["verdict"]


def test_what_the_metrics_do_not_describe_still_has_its_clock():
    result = of(pace={"use": "buffered", "concurrency": 6, "k": 3}, algorithm={"use": "fedbuff"})
    assert not [n for n in result if "MC-" in n] and result["clock"] is not None
    assert "paced by buffered" in result["not_measured"][0]


def test_a_label_that_is_never_learnt_is_named_whatever_the_mean_says():
    hard = Hardness({"InterMC-R": Measure(0.99, 0.0, 0.9)}, Settings(k=5, rounds=100), "", 30.0)
    clock = {"classes": {"0": 150.0, "1": 2.0, "2": 140.0}, "rounds_done": 100.0}
    said = verdict(hard, clock)
    assert "easy under a deadline" in said and "label 1" in said and "A label loses most" in said
    assert "lose little" in verdict(hard, {**clock, "classes": {"0": 100.0, "1": 95.0}})
    assert undisturbed_seconds(hard) == 50.0
    assert verdict(Hardness({}, Settings()), None) == "Nothing about this fleet could be measured."
