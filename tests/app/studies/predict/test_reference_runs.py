"""Reference runs: trained once for a task, its data and an algorithm, whatever the fleet; kept, reread, made longer if needed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.spec import resolve
from fedfleet.app.studies.predict import reference_runs as made
from fedfleet.app.studies.predict.reference_runs import cache_folder, cohort_of, few_people, ideal_spec, reference_of
from fedfleet.core.errors import BadInput
from fedfleet.measure.calibration import EXPONENTS
from tests.app.studies.predict.conftest import TABLE


def test_an_ideal_fleet_learns_and_small_cohorts_learn_slower(foretold):
    ideal = foretold.reference.ideal
    assert len(ideal.accuracy) == len(foretold.reference.small) == 13 and (np.diff(ideal.accuracy) >= 0).all()
    assert ideal.accuracy[-1] > 0.5 and ideal.noise >= 0 and ideal.cohort == 6
    assert ideal.diversity.shape == (13, 10) and (ideal.diversity <= 1 + 1e-9).all()
    assert len(foretold.reference.same) == 13 and foretold.reference.same[-1] < ideal.accuracy[-1]
    assert ideal.exponent in EXPONENTS and 0 < foretold.reference.luck < 0.2


def test_the_same_few_people_are_a_twentieth_and_known():
    assert few_people(100, 3) == few_people(100, 3) != few_people(100, 4)
    for clients in (2, 24, 100, 1000):
        result = few_people(clients, 3)
        assert len(set(result)) == len(result) == max(2, round(clients / 20)) and max(result) < clients
    asked = ideal_spec(resolve(TABLE), 2, 40, fixed_length=True, only=few_people(24, 3)).table()
    assert asked["choose"]["ids"] == few_people(24, 3) and asked["stop"]["evaluate_every"] == 2


def test_other_fleets_find_them_kept(foretold, kept, monkeypatch):
    monkeypatch.setattr(made, "_train", None)  # whoever would train fails
    world = TABLE["world"] | {
        "devices": {"use": "homogeneous"},
        "states": {"use": "daily"},
        "model_bytes": 5_000,
        "charge": 7,
    }
    other = TABLE | {
        "world": world,
        "pace": {"use": "readiness", "cohort": 6},
        "seeds": {"fleet": 8},
    }
    result = reference_of(resolve(other), cache=kept)
    assert result.cached and result.ideal.accuracy.tolist() == foretold.reference.ideal.accuracy.tolist()
    assert result.ideal.noise == foretold.reference.ideal.noise and result.same.tolist() == foretold.reference.same.tolist()
    assert result.ideal.exponent == foretold.reference.ideal.exponent and result.luck == foretold.reference.luck


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"algorithm": {"use": "fedavg", "lr": 0.2}}, {"seeds": {"data": 9}}, {"task": "digits_mlp"},
     {"stop": {"rounds": 30}}, {"pace": {"use": "readiness", "cohort": 5}}, {"world": TABLE["world"] | {"data": {"use": "iid"}}}],
)  # fmt: skip
def test_what_they_depend_on_makes_them_anew(foretold, kept, monkeypatch, change):
    def asked(*_):
        raise BadInput("trained anew")

    monkeypatch.setattr(made, "_train", asked)
    with pytest.raises(BadInput, match="trained anew"):
        reference_of(resolve(TABLE | change), cache=kept)


def test_a_damaged_file_is_made_again(foretold, tmp_path, monkeypatch):
    monkeypatch.setattr(made, "_train", lambda *_: replace(foretold.reference, cached=False))
    spec, said = resolve(TABLE), []
    first = reference_of(spec, cache=tmp_path, tell=said.append)
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["spec"]["task"]["use"] == "digits_logreg" and "three reference runs" in said[0]
    assert not first.cached and reference_of(spec, cache=tmp_path).cached
    file.write_text(file.read_text()[:50])
    assert not reference_of(spec, cache=tmp_path).cached


def test_a_folder_that_cannot_be_made_is_one_sentence(foretold, tmp_path, monkeypatch):
    monkeypatch.setattr(made, "_train", lambda *_: foretold.reference)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="name another folder with --cache"):
        reference_of(resolve(TABLE), cache=tmp_path / "file" / "in")


def test_the_ideal_spec_keeps_what_is_learnt_and_nothing_of_the_fleet():
    table = TABLE | {
        "choose": {"use": "oort"},
        "world": TABLE["world"] | {"faults": {"use": "lossy"}, "tags": {"a": [1]}},
    }
    result = ideal_spec(resolve(table), 6, 10).table()
    assert result["world"]["devices"]["use"] == "homogeneous" and "faults" not in result["world"] and "tags" not in result["world"]
    assert result["choose"]["use"] == "uniform" and result["algorithm"]["lr"] == 0.3 and result["seed"] == 3
    assert cohort_of(resolve(TABLE | {"pace": {"use": "buffered", "k": 3, "concurrency": 9}})) == 3


def test_they_are_kept_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedfleet" / "reference"
