"""A wait that is too short is named before a run and after it, with a wait that would do; and that wait does."""

import re

import pytest

import fedfleet
from fedfleet.app.assemble import assemble, feasibility_warnings
from fedfleet.app.assemble.trip_times import _trips
from fedfleet.app.spec import resolve

WORLD = {"clients": 12, "model_bytes": 3e8, "devices": {"use": "dpgmm"}}


def spec_of(seconds, **pace):
    pace = {"use": "deadline", "cohort": 5, "seconds": seconds, **pace}
    return {"seed": 1, "task": "digits_logreg", "world": WORLD, "pace": pace, "stop": {"rounds": 4}}


def advised(text):
    return float(re.search(r"raise pace\.seconds to ([\d,.e+]+)", text)[1].rstrip(",.").replace(",", ""))


@pytest.mark.filterwarnings("ignore")
def test_a_deadline_below_every_trip_names_one_that_nine_in_ten_keep():
    setup = assemble(resolve(spec_of(30.0)))
    (before,) = feasibility_warnings(setup)
    better = advised(before)
    assert "no client can report within 30 s" in before
    assert 0.85 < float((_trips(setup.plan, setup.world) <= better).mean()) < 1.0
    bad, good = fedfleet.run(spec_of(30.0)).metrics, fedfleet.run(spec_of(better)).metrics
    assert (bad["commits"], good["commits"]) == (0, 4)
    assert any(advised(w) == better for w in bad["warnings"] if "half of all trips" in w) and not good["warnings"]


@pytest.mark.filterwarnings("ignore")
def test_a_deadline_that_few_keep_is_named_too_and_one_that_most_keep_is_not():
    trips = _trips(assemble(resolve(spec_of(30.0))).plan, assemble(resolve(spec_of(30.0))).world)
    few, most = (float(sorted(trips)[int(len(trips) * share)]) for share in (0.05, 0.9))
    (said,) = feasibility_warnings(assemble(resolve(spec_of(few, min_share=0.6))))
    assert "most rounds will fail" in said and "a round needs 3 of 5 reports" in said and advised(said) > few
    assert feasibility_warnings(assemble(resolve(spec_of(most, min_share=0.6)))) == []


@pytest.mark.filterwarnings("ignore")
def test_refused_reports_of_attackers_do_not_blame_the_learning_rate_alone():
    attack = {"use": "scaled", "factor": 1e9, "share": 0.5}
    spec = {"task": "digits_logreg", "world": {"clients": 8}, "pace": {"cohort": 8}, "stop": {"rounds": 1}}
    said = fedfleet.run({**spec, "algorithm": {"attack": attack}}).metrics["warnings"]
    assert any("algorithm.attack = 'scaled', and 4 of the 4 clients" in warning for warning in said)
    assert not any("algorithm.attack =" in warning for warning in fedfleet.run(spec).metrics["warnings"])
