"""Predictions: repeatable, from other draws than the run's own, better on kinder fleets, and never out of bounds."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict.prediction import Band, band, band_around, clock_of, predict, summarise
from tests.app.studies.predict.conftest import TABLE

pytestmark = pytest.mark.slow


def test_the_band_is_whole():
    result = band()
    assert len(result.progress) == len(result.below) == len(result.above) >= 2 and (np.diff(result.progress) > 0).all()
    assert (result.below >= 0).all() and (result.above >= 0).all() and result.below.max() < 0.6
    assert "fleets" in result.note


def test_between_known_places_it_is_interpolated():
    known = Band(np.array([0.0, 1.0]), np.array([0.2, 0.1]), np.array([0.0, 0.4]), "a test")
    below, above = known.margins_at(np.array([-1.0, 0.5, 2.0]))
    assert below == pytest.approx([0.2, 0.15, 0.1]) and above == pytest.approx([0.0, 0.2, 0.4])


def test_the_answer_is_json_and_agrees_with_itself(foretold):
    got = json.loads(json.dumps(summarise(foretold).to_dict()))
    accuracy, curve = got["accuracy"], got["curve"]
    assert 0 <= accuracy["low"] <= accuracy["value"] <= accuracy["high"] <= 1
    assert accuracy["value"] == pytest.approx(np.mean([draw.accuracy[-1] for draw in foretold.draws]))
    assert curve["accuracy"][-1] == accuracy["value"] and len({len(column) for column in curve.values()}) == 1
    assert got["commits"]["low"] <= got["commits"]["value"] <= got["commits"]["high"] <= 12
    assert got["rounds"] == pytest.approx(got["commits"]["value"] + sum(got["failed_rounds"].values()))
    assert got["draws"] == 4 and set(got["clock"]) == {str(c) for c in range(10)} and 0 < got["effective"] <= 1
    assert got["closed_form"]["commits"] == pytest.approx(got["commits"]["value"], abs=2)
    assert any("label counts only" in note for note in got["notes"])


def test_it_can_be_repeated(foretold, kept):
    again = predict(resolve(TABLE), cache=kept)
    assert again.reference.cached and [d.accuracy.tolist() for d in again.draws] == [d.accuracy.tolist() for d in foretold.draws]


def test_more_time_never_hurts_and_an_ideal_fleet_has_its_own_curve(foretold):
    def end(**changes):
        result = predict(resolve(TABLE | changes), reference=foretold.reference)
        return np.mean([draw.accuracy[-1] for draw in result.draws])

    hard, easy = (end(pace=TABLE["pace"] | {"seconds": s}) for s in (12.0, 400.0))
    ideal = end(world=TABLE["world"] | {"devices": {"use": "homogeneous"}}, pace={"use": "readiness", "cohort": 6})
    assert hard < np.mean([d.accuracy[-1] for d in foretold.draws]) <= easy + 0.02
    assert ideal == pytest.approx(foretold.reference.ideal.accuracy[-1], abs=0.05)


def test_a_fleet_on_which_nothing_is_learnt_is_foretold_so(foretold):
    result = summarise(predict(resolve(TABLE | {"pace": TABLE["pace"] | {"seconds": 0.001}}), reference=foretold.reference))
    assert result.commits.value == 0 and sum(result.failed_rounds.values()) == 12
    assert result.accuracy.value == foretold.reference.ideal.accuracy[0] and result.left_out["never"] == 1.0


def test_what_it_cannot_see_is_said(foretold):
    late = predict(resolve(TABLE | {"pace": {"use": "buffered", "k": 3, "concurrency": 6}}), reference=foretold.reference)
    assert any("versions late" in note for note in late.notes)
    own = predict(resolve(TABLE | {"algorithm": {"use": "ditto"}}), reference=foretold.reference)
    assert any("models that clients keep for themselves" in note for note in own.notes)


def test_a_target_is_found_on_the_curve(foretold):
    def when(target):
        spec = resolve(TABLE | {"stop": {"rounds": 12, "target_accuracy": target}})
        return summarise(predict(spec, reference=foretold.reference)).target["seconds"]

    assert summarise(foretold).target is None
    assert when(0.99) is None and 0 < when(0.2) <= when(0.3)


def test_long_runs_are_drawn_less_often(foretold):
    result = [predict(resolve(TABLE | {"stop": {"rounds": n}}), reference=foretold.reference) for n in (900, 1500)]
    assert [len(f.draws) for f in result] == [2, 1]
    low, high = (getattr(summarise(result[1]).accuracy, end) for end in ("low", "high"))
    assert low < high  # one draw has no spread, and still a band


def test_the_clock_needs_no_training():
    result = clock_of(resolve(TABLE))
    assert 0 < result["score"] <= 1 and result["rounds"] == 12 and len(result["classes"]) == 10
    easier = clock_of(resolve(TABLE | {"pace": TABLE["pace"] | {"seconds": 1e6}}))
    assert easier["score"] > result["score"] and easier["effective"] > result["effective"]


def test_the_band_holds_the_errors_the_draws_and_the_luck(foretold):
    known = Band(np.array([0.0, 1.0]), np.array([0.2, 0.0]), np.array([0.0, 0.0]), "a test")
    plain = replace(foretold.reference, luck=0.0)
    end = float(plain.ideal.accuracy[-1])
    low, high = band_around(known, np.array([end]), np.array([0.1]), plain)
    assert low[0] == pytest.approx(end - 0.164) and high[0] == pytest.approx(min(end + 0.164, 1.0))
    low, _ = band_around(known, np.array([end]), np.array([0.03]), replace(plain, luck=0.04))
    assert low[0] == pytest.approx(end - 1.64 * 0.05)
    start = float(plain.ideal.accuracy[0])
    low, _ = band_around(known, np.array([start]), np.zeros(1), plain)
    assert low[0] == pytest.approx(max(start - 0.2 * (end - start), 0.0))


def test_like_people_who_are_always_there_are_foretold_the_reference_curve(kept):
    world = {"clients": 24, "data": {"use": "iid"}}
    ideal = {**TABLE, "world": world, "pace": {"use": "readiness", "cohort": 24, "min_clients": 1}}
    result = predict(resolve(ideal), cache=kept)
    for draw in result.draws:
        assert draw.accuracy == pytest.approx(result.reference.ideal.accuracy)
