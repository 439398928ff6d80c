"""A sampler's parameters as keywords of the call that draws with it."""

import inspect
import json
from typing import Any, Literal

import pytest

from fedfleet.app.api.sample import check_options, with_parameters
from fedfleet.app.cli.call_parameters import read_call
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Positive
from fedfleet.core.registry import parameters
from fedfleet.world.bases import load_devices, load_states
from tests.app.specs import fleet, refused


def first(*, kinds: Count = 5, mean_mbps: Positive = 2.5, exact: bool = False) -> None:
    """One part."""


def second(*, kinds: Count = 5, mode: Literal["a", "b"] = "a", limit: Count | None = None) -> None:
    """Another part."""


PARTS = {"first": parameters(first), "second": parameters(second)}
MEANING = {"kinds": "Kinds", "mean_mbps": "Speed", "exact": "Exactness", "mode": "Mode", "limit": "Limit"}


def draw(*, part: str = "first", given: dict[str, Any], seed: int = 0) -> Any:
    """Return what was given."""
    return {"part": part, "given": given, "seed": seed}


call = with_parameters(draw, PARTS, MEANING)


def test_what_is_given_arrives_and_nothing_else():
    assert call(kinds=3, mean_mbps=4.0, limit=None, part="first", seed=7) == {
        "part": "first", "given": {"kinds": 3, "mean_mbps": 4.0}, "seed": 7,
    }  # fmt: skip
    assert call(part="second", seed=0)["given"] == {}


def test_keywords_stand_where_given_stood():
    names = list(inspect.signature(call).parameters)
    assert names == ["part", "kinds", "mean_mbps", "exact", "mode", "limit", "seed"]


def test_help_has_meaning_part_type_and_default():
    read = {p.name: (p.kind, p.help) for p in read_call(call)}
    assert read["kinds"] == (int, "Kinds (int >= 1; default 5)."), "all parts have it"
    assert read["mean_mbps"] == (float, "Speed (first; float > 0; default 2.5).")
    assert read["mode"] == (str, "Mode (second; 'a' or 'b'; default a).") and read["exact"][0] is bool


def test_values_are_checked_against_the_chosen_part():
    assert check_options({"kinds": 3}, "first", PARTS["first"]) == {"kinds": 3}
    assert check_options({"kinds": 3, "mode": "b"}, "first", PARTS["first"], ignored=("mode",)) == {"kinds": 3}
    for given, says in (
        ({"kinds": 0}, "--kinds = 0"),
        ({"mean_mbps": float("inf")}, "--mean-mbps inf must be finite"),
        ({"mode": "b"}, "--mode does not apply to first; it takes --kinds, --mean-mbps, --exact"),
    ):
        with pytest.raises(BadInput, match=says):
            check_options(given, "first", PARTS["first"])


SCORING = ("--clients-k", 5, "--rounds", 100)


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_a_fleet_is_sampled_and_written(fedfleet, tmp_path, ending):
    base, states = fleet(tmp_path)
    made = tmp_path / f"made.{ending}"
    dials = ("--kinds", 5, "--sigma", 0.5, "--mean-mbps", 30, "--clients", 40)
    code, out, err = fedfleet("sample", "devices", "--base", base, *dials, "--out", made, "--json")
    assert (code, err) == (0, "")
    got = json.loads(out)
    assert set(got) == {"clients", "distinct", "mean_kbps", "std_kbps", "out"}
    assert got["clients"] == len(load_devices(str(made))) == 40
    assert got["distinct"] <= 5
    words = ("sample", "states", "--base", states, "--alpha", 2, "--clients", 40, *SCORING, "--out", made)
    assert fedfleet(*words)[0] == 0
    assert len(load_states(str(made))) == 40


def test_the_contract_of_the_command(fedfleet, tmp_path):
    base, states = fleet(tmp_path)
    common = ("--clients", 20, "--seed", 1, "--semantics", "paper", "--out", tmp_path / "made.json", "--json")
    for sampler, dials in (
        ("dpgmm", ("--kinds", 5, "--sigma", 1.1, "--mean-mbps", 42, "--alpha", 1000)),
        ("pool72", ("--distribution", "strong_heavy")),
        ("uniform", ()),
    ):
        words = ("sample", "devices", "--sampler", sampler, "--base", base, *dials, *common)
        assert json.loads(fedfleet(*words)[1])["clients"] == 20
    for sampler, dials in (("dpcsm", ("--alpha", 4, "--start-rank", 2, "--deadline", 120, *SCORING)), ("uniform", ())):
        words = ("sample", "states", "--sampler", sampler, "--base", states, *dials, *common)
        assert json.loads(fedfleet(*words)[1])["clients"] == 20


def test_an_alpha_beyond_the_range_of_dpcsm_is_warned_of(fedfleet, tmp_path):
    _, states = fleet(tmp_path)
    words = ("sample", "states", "--base", states, *SCORING, "--json", "--alpha")
    code, out, err = fedfleet(*words, 4)
    assert (code, json.loads(out)["warnings"], err) == (0, [], "")
    code, out, err = fedfleet(*words, 1000)
    (warning,) = json.loads(out)["warnings"]
    assert code == 0 and "alpha 1000 is beyond DPCSM's range" in warning and err == f"fedfleet: WARNING: {warning}\n"
    assert "warnings" not in fedfleet(*words[:-2], "--alpha", 1000)[1], "people read it on standard error"
    assert fedfleet(*words, 1000, "--semantics", "released")[2] == ""


def test_samples_repeat(fedfleet, tmp_path):
    base, states = fleet(tmp_path)
    for semantics in ("paper", "released"):
        words = ("sample", "devices", "--base", base, "--kinds", 5, "--semantics", semantics, "--seed", 3, "--out")
        fedfleet(*words, tmp_path / "a.json")
        fedfleet(*words, tmp_path / "b.json")
        assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text()
    words = ("sample", "states", "--base", states, *SCORING, "--semantics", "released", "--out")
    fedfleet(*words, tmp_path / "a.json")
    fedfleet(*words, tmp_path / "b.json", "--seed", 2022)
    assert (tmp_path / "a.json").read_text() == (tmp_path / "b.json").read_text(), "without a seed: 2022"


def test_scores_may_be_given(fedfleet, tmp_path):
    _, states = fleet(tmp_path, 5)
    (tmp_path / "scores.json").write_text(json.dumps({"s0": 0.1, "s1": 0.2, "s2": 0.9, "s3": 0.3, "s4": 0.4}))
    words = ("sample", "states", "--base", states, "--scores", tmp_path / "scores.json", "--alpha", 0.001)
    words += ("--semantics", "released")
    fedfleet(*words, "--out", tmp_path / "made.json")
    assert set(load_states(str(tmp_path / "made.json")).ids) == {"s2"}, "nearly everyone has the best state"
    (tmp_path / "scores.json").write_text(json.dumps({"s0": 0.1}))
    refused(fedfleet(*words), "no number for state s1")
    (tmp_path / "scores.json").write_text("[1]")
    refused(fedfleet(*words), "one JSON object")


def test_help_lists_every_option_with_meaning_type_and_default(fedfleet, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = fedfleet("sample", "devices", "--help")
    lines = {line.split()[1]: " ".join(line.split()) for line in out.splitlines() if line.startswith("│ --")}
    assert code == 0
    assert set(lines) >= {"--sampler", "--base", "--kinds", "--sigma", "--mean-mbps", "--alpha", "--clients", "--seed"}
    assert "Number of kinds of device (dpgmm; int >= 1 and <= 1000000; default 50)" in lines["--kinds"]
    assert "Mean speed in Mbit/s (dpgmm; float > 0; default 42)" in lines["--mean-mbps"]
    assert "'strong_heavy'" in out and "(pool72;" in lines["--distribution"]
    assert "--reallocate" not in out, "a row of a file is one device"
    _, out, _ = fedfleet("sample", "states", "--help")
    assert "(dpcsm; int >= 0; default 0)" in out and "--start-rank" in out and "--scores" in out


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (("devices", "--sampler", "dpgm"), ("did you mean 'dpgmm'",)),
        (("devices", "--alpha", -1), ("--alpha = -1.0", "greater than 0")),
        (("devices", "--mean-mbps", 0), ("--mean-mbps",)),
        (("devices", "--mean-mbps", "inf"), ("--mean-mbps", "finite")),
        (("devices", "--mean-mbps", "nan"), ("--mean-mbps", "finite")),
        (("devices", "--kinds", 0), ("--kinds = 0", "at least 1")),
        (("devices", "--kinds", "many"), ("--kinds",)),
        (("devices", "--semantics", "printed"), ("--semantics = 'printed'", "'released'")),
        (("devices", "--sampler", "pool72", "--distribution", "normal"), ("--distribution", "'near_normal'")),
        (("devices", "--sampler", "uniform", "--kinds", 3), ("--kinds does not apply to uniform", "it takes --base")),
        (("devices", "--clients", 0), ("--clients",)),
        (("devices", "--start-rank", 3), ("--start-rank",)),
        (("states",), ("has no states",)),
        (("states", "--start-rank", -1), ("--start-rank = -1",)),
        (("states", "--deadline", 0), ("--deadline",)),
        (("states", "--sampler", "uniform", "--alpha", 3), ("--alpha does not apply to uniform",)),
        (("devices", "--picture", "none/d.html"), ("--picture", "none/d.html")),
    ],
    ids=lambda value: " ".join(map(str, value)) if value and str(value[0]) in ("devices", "states") else "",
)
def test_bad_input(fedfleet, words, mentions):
    refused(fedfleet("sample", words[0], "--base", "fsreal", *words[1:]), *mentions)


def test_pictures_are_pages(fedfleet, tmp_path):
    devices, states = fleet(tmp_path)
    fedfleet("sample", "devices", "--sampler", "uniform", "--base", devices, "--picture", tmp_path / "d.html")
    fedfleet("sample", "states", "--sampler", "uniform", "--base", states, "--picture", tmp_path / "s.html")
    for name, word in (("d", "Mbit/s"), ("s", "hour of the day")):
        page = (tmp_path / f"{name}.html").read_text()
        assert "<svg" in page
        assert word in page
