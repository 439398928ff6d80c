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
from fedfleet.app.cli.call_parameters import read_call
from fedfleet.app.fleets.metrics import settings_of
from tests.app.specs import fleet, refused

pytestmark = pytest.mark.slow

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
    stated = {p.name: p.kind(match[1]) for p in read_call(measure) if (match := re.search(r"default: ([\d.]+)\.$", p.help))}
    assert len(stated) == 7 and settings_of(stated) == settings_of({})


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "give a spec file .* a devices file"),
        ({"spec": 5}, "of type 'int' is not a spec"),
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
        ({"data": (1, 2)}, "give both model and data"),
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


QUICK_WORDS = ("--clients-k", 5, "--rounds", 200, "--trips", 500, "--seeds", 2)


def test_measure_answers_by_the_contract(fedfleet, tmp_path):
    devices, states = fleet(tmp_path)
    code, out, err = fedfleet("measure", "--devices", devices, "--states", states, *QUICK_WORDS, "--json")
    got = json.loads(out)
    assert code == 0, err
    assert list(got) == ["DevMC-R", "DevMC-T", "StatMC-R", "StatMC-T", "InterMC-R", "InterMC-T", "per_state"]
    assert all({"value", "sd", "seconds"} <= set(got[name]) for name in got if "MC-" in name)
    assert set(got["per_state"]) == {f"s{i}" for i in range(5)}
    assert list(json.loads(fedfleet("measure", "--devices", devices, *QUICK_WORDS, "--json")[1])) == [
        "DevMC-R",
        "DevMC-T",
    ]
    only = fedfleet("measure", "--states", states, *QUICK_WORDS, "--only", "StatMC-R", "--json")[1]
    assert list(json.loads(only)) == ["StatMC-R", "per_state"]


def test_people_are_told_what_the_numbers_mean(fedfleet, tmp_path):
    devices, _ = fleet(tmp_path)
    _, out, _ = fedfleet("measure", "--devices", devices, *QUICK_WORDS, "--against", "fsreal")
    assert "higher is easier" in out
    assert "ks " in out


def test_a_spec_is_measured_under_its_own_pacing(fedfleet, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(
        '[task]\nuse = "digits_logreg"\n[world]\nclients = 12\nmodel_bytes = 1e7\ndevices = "spread"\n'
        '[pace]\nuse = "deadline"\ncohort = 4\nseconds = 30\n[stop]\nrounds = 10\n'
    )
    code, out, err = fedfleet("measure", file, "pace.seconds=40", "--seeds", 1, "--json")
    assert code == 0, err
    got = json.loads(out)
    assert got["under"]["deadline_seconds"] == 40.0 and {"verdict", "clock", "DevMC-R", "DevMC-T"} <= set(got)
    assert "of fair work gets through" in fedfleet("measure", file, "--seeds", 1)[1]
    refused(fedfleet("measure", file, "--devices", "builtin"), "--devices and a spec", "KEY=VALUE")
    refused(fedfleet("measure", file, "--clients-k", 5), "--clients-k and a spec")
    refused(fedfleet("measure", file, "pace.secnds=40"), "did you mean 'seconds'")
    refused(fedfleet("measure", tmp_path / "none.toml"), "none.toml")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("measure",), "fedfleet measure spec.toml"),
        (("measure", "--devices", "none.json"), "none.json"),
        (("measure", "--devices", "fsreal", "--clients-k", 73), "fleet of 72"),
        (("measure", "--devices", "fsreal", "--deadline", 0), "--deadline 0 must be positive"),
        (("measure", "--devices", "fsreal", "--ready-share", 1.5), "--ready-share"),
        (("measure", "--devices", "fsreal", "--semantics", "printed"), "--semantics"),
        (("measure", "--devices", "fsreal", "--t-cost", "often"), "--t-cost"),
        (("measure", "--devices", "fsreal", "--only", "DevMC"), "did you mean 'DevMC-"),
        (("measure", "--devices", "fsreal", "--only", "StatMC-R"), "StatMC"),
        (("measure", "--against", "fsreal"), "a devices file"),
        (("measure", "--devices", "fsreal", "--t-cost", "-1"), "--t-cost"),
    ],
)
def test_bad_input(fedfleet, words, says):
    refused(fedfleet(*words), says)


def test_the_picture_is_a_page(fedfleet, tmp_path):
    devices, states = fleet(tmp_path)
    words = ("measure", "--devices", devices, "--states", states, *QUICK_WORDS, "--picture")
    assert fedfleet(*words, tmp_path / "m.html")[0] == 0
    page = (tmp_path / "m.html").read_text()
    assert page.count('role="img"') == 6, "three charts, each also for phones"
    assert "InterMC-R" in page
    refused(fedfleet(*words, tmp_path / "none" / "m.html"), "--picture", "m.html")
