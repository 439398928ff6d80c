"""How hard a fleet is, as a record and as text: units on every number, the verdict of a spec first."""

from fedfleet.app.api.measure_result import make_measured

METRIC = {"value": 0.9, "sd": 0.0, "seeds": 1, "ci95": None, "notes": []}
UNDER = {
    "clients": 100, "pace": "deadline", "cohort": 10, "rounds": 50, "deadline_seconds": 120.0, "ready_share": 1.0,
    "pause_seconds": 20.0, "model_bytes": 3.4e8, "samples": 26.0, "trip_seconds": 120.0, "seeds": 3, "ideal_fair_work": 0.86,
}  # fmt: skip
SHARE = {
    "sd": 0.1, "seeds": 3, "value": 0.925,
    "fair_work": 0.44, "ci95": [0.4, 0.48], "word": "hard", "beside": "milder than their mild one", "notes": [],
}  # fmt: skip
WAIT = {
    "sd": 0.1,
    "seeds": 1,
    "value": 3.0,
    "round_seconds": 7200.0,
    "ci95": None,
    "word": "tight",
    "times_undisturbed": 51.0,
    "notes": ["one device"],
}
CLOCK = {"classes": {"0": 40.0, "1": 4.0}, "rounds_done": 50.0, "commits": 48.0, "effective": 0.3, "notes": []}
ANSWER = {
    "verdict": "This fleet is hard.", "InterMC-R": SHARE, "InterMC-T": WAIT, "clock": CLOCK, "under": UNDER, "not_measured": [],
}  # fmt: skip


def test_the_verdict_comes_first_and_every_number_has_a_unit():
    said = str(make_measured(ANSWER))
    assert said.startswith("This fleet is hard.")
    for words in (
        "44.0 %",
        "(40.0 % to 48.0 %)",
        "InterMC-R 0.925",
        "2.0 h",
        "(one seed)",
        "note: one device",
        "340.0 MB",
    ):
        assert words in said
    assert "0: 40, 1: 4" in said and "30.0 %" in said and "ideal" in said
    assert max(map(len, said.splitlines())) <= 132


def test_what_is_missing_is_said():
    bare = {
        "verdict": "x",
        "clock": None,
        "under": {**UNDER, "seeds": 1},
        "not_measured": ["this run is paced by buffered"],
    }
    said = str(make_measured(bare))
    assert "not measured: this run is paced by buffered" in said and "one seed" in said and "Class clock" not in said


def test_metrics_stand_with_a_labelled_interval_their_meaning_and_notes():
    answer = {
        "DevMC-R": {"value": 0.5, "fair_work": 0.05, "sd": 0.2, "seeds": 4, "ci95": [0.4, 0.6], "notes": []},
        "DevMC-T": {
            "value": 9.0,
            "round_seconds": 180.0,
            "sd": 0.0,
            "seeds": 1,
            "ci95": None,
            "notes": ["one device does it"],
        },
        "per_state": {"a": 0.1, "b": 0.3, "c": 0.9},
        "against": {"ks": 0.25},
    }
    first, second, note, states, against = str(make_measured(answer)).splitlines()
    assert "0.5  95 % interval 0.4 to 0.6 over 4 seeds" in first and "5.0 % of fair work" in first
    assert "9  one seed, so no interval" in second and "a round takes 3.0 min" in second and "+-" not in first + second
    assert note == "note: one device does it"
    assert states == "3 different states: the worst scores 0.100, the median 0.300, the best 0.900"
    assert against == "ks 0.25"


def test_metrics_have_units():
    result = make_measured({"DevMC-R": {**METRIC, "fair_work": 0.4}, "DevMC-T": {**METRIC, "round_seconds": 50.0}})
    assert {name: (one.comes_to, one.unit) for name, one in result.metrics.items()} == {
        "DevMC-R": (0.4, "share of fair work"),
        "DevMC-T": (50.0, "seconds of a round"),
    }
    assert repr(result) == "Measured(DevMC-R 0.9: 40.0 % of fair work; DevMC-T 0.9: 50 s a round)"
    assert "higher is easier" in str(result)
    assert repr(make_measured({"verdict": "Nothing.", "not_measured": ["users"]})) == "Measured(Nothing.)"
