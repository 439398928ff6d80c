"""`fedfleet measure`, as people and programs use it."""

import json

import pytest

from tests.app.specs import fleet, refused

QUICK = ("--clients-k", 5, "--rounds", 200, "--trips", 500, "--seeds", 2)


def test_measure_answers_by_the_contract(fedfleet, tmp_path):
    devices, states = fleet(tmp_path)
    code, out, err = fedfleet("measure", "--devices", devices, "--states", states, *QUICK, "--json")
    got = json.loads(out)
    assert code == 0, err
    assert list(got) == ["DevMC-R", "DevMC-T", "StatMC-R", "StatMC-T", "InterMC-R", "InterMC-T", "per_state"]
    assert all({"value", "sd", "seconds"} <= set(got[name]) for name in got if "MC-" in name)
    assert set(got["per_state"]) == {f"s{i}" for i in range(5)}
    assert list(json.loads(fedfleet("measure", "--devices", devices, *QUICK, "--json")[1])) == ["DevMC-R", "DevMC-T"]
    only = fedfleet("measure", "--states", states, *QUICK, "--only", "StatMC-R", "--json")[1]
    assert list(json.loads(only)) == ["StatMC-R", "per_state"]


def test_people_are_told_what_the_numbers_mean(fedfleet, tmp_path):
    devices, _ = fleet(tmp_path)
    _, out, _ = fedfleet("measure", "--devices", devices, *QUICK, "--against", "fsreal")
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
    words = ("measure", "--devices", devices, "--states", states, *QUICK, "--picture")
    assert fedfleet(*words, tmp_path / "m.html")[0] == 0
    page = (tmp_path / "m.html").read_text()
    assert page.count('role="img"') == 6, "three charts, each also for phones"
    assert "InterMC-R" in page
    refused(fedfleet(*words, tmp_path / "none" / "m.html"), "--picture", "m.html")
