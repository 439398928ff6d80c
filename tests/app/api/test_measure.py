"""`fedfleet.measure` is `fedfleet measure`, of specs and of files; the package of the same name does not hide it."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import fedfleet as package
from fedfleet.app.api.measure import measure
from fedfleet.app.cli.call_options import read_call
from fedfleet.app.fleets.metrics import settings_of
from tests.app.specs import fleet

SPEC = {
    "task": "digits_logreg",
    "world": {"clients": 12, "model_bytes": 1e7, "devices": "spread"},
    "pace": {"use": "deadline", "cohort": 4, "seconds": 30.0},
    "stop": {"rounds": 6},
}
QUICK = {"clients_k": 5, "rounds": 100, "trips": 100, "seeds": 1}


def test_a_spec_by_call_and_by_verb(fedfleet, tmp_path):
    import tomli_w

    (tmp_path / "s.toml").write_text(tomli_w.dumps(SPEC))
    result = package.measure(SPEC, "pace.seconds=40", seeds=np.int64(2))
    _, out, _ = fedfleet("measure", tmp_path / "s.toml", "pace.seconds=40", "--seeds", 2, "--json")
    assert json.loads(out) == json.loads(json.dumps(result.answer()))
    assert result.verdict.startswith("This fleet is") and result.under["deadline_seconds"] == 40.0
    assert result.metrics["DevMC-R"].comes_to == json.loads(out)["DevMC-R"]["fair_work"]
    assert len(result.clock["classes"]) == 10 and result.metrics["DevMC-R"].word in str(result)


def test_files_by_call_and_by_verb(fedfleet, tmp_path):
    devices, states = fleet(tmp_path)
    result = package.measure(devices=devices, states=str(states), only=["InterMC-R", "StatMC-R"], **QUICK)
    words = ("--clients-k", 5, "--rounds", 100, "--trips", 100, "--seeds", 1, "--only", "InterMC-R, StatMC-R")
    _, out, _ = fedfleet("measure", "--devices", devices, "--states", states, *words, "--json")
    told = json.loads(out)
    for name, got in result.metrics.items():
        assert (got.value, got.comes_to) == (told[name]["value"], told[name]["fair_work"])
    assert result.per_state == told["per_state"] and list(result.metrics) == ["InterMC-R", "StatMC-R"]


def test_an_own_model_has_a_clock_too():
    x = np.random.default_rng(0).normal(size=(120, 4))
    spec = {key: value for key, value in SPEC.items() if key != "task"}
    result = package.measure(spec, model=torch.nn.Linear(4, 3), data=(x, np.arange(120) % 3), seeds=1)
    assert list(result.clock["classes"]) == ["0", "1", "2"]


def test_the_help_states_the_defaults_that_are_used():
    stated = {
        p.name: p.kind(match[1]) for p in read_call(measure) if (match := re.search(r"default: ([\d.]+)\.$", p.help))
    }
    assert len(stated) == 7 and settings_of(stated) == settings_of({})


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "give a spec file .* a devices file"),
        ({"spec": 5}, "of type 'int' is no spec"),
        ({"spec": SPEC, "deadline": 4}, "deadline and a spec were both given"),
        ({"spec": SPEC, "seeds": 0}, "seeds = 0: give a whole number from 1"),
        ({"spec": SPEC, "seeds": "3"}, "seeds = '3'"),
        ({"devices": "fsreal", "deadline": "soon"}, "--deadline 'soon' is not a number"),
        ({"devices": "fsreal", "clients_k": 2.5}, "--clients-k = 2.5"),
        ({"devices": "fsreal", "t_cost": [1]}, "--t-cost"),
        ({"devices": "fsreal", "semantics": 3}, "--semantics 3 is not known"),
        ({"devices": "fsreal", "only": "DevMC"}, "did you mean 'DevMC-"),
        ({"devices": "none.json"}, "none.json"),
        ({"devices": "fsreal", "page": "no/x.html"}, "page: cannot write"),
        ({"data": (1, 2)}, "go with a spec"),
    ],
)
def test_mistakes_are_one_sentence(asked, says):
    with pytest.raises(package.BadInput, match=says) as caught:
        package.measure(**asked)
    assert "\n" not in str(caught.value)


CODE = """
import sys
import fedfleet
heavy = [m for m in ("numpy", "torch", "optuna", "starlette") if m in sys.modules]
assert not heavy, heavy
from fedfleet import measure
for call in (measure, fedfleet.measure):
    try:
        call("none.toml")
    except fedfleet.BadInput as said:
        print(said)
import fedfleet.measure.montecarlo.settings as settings
assert fedfleet.measure.montecarlo.settings is settings
"""


def test_the_package_of_that_name_is_the_call_too():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("there is no spec file none.toml") == 2, done.stderr
