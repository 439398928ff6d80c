"""The fleet of a spec as text: the verdict first, units on every number."""

from fedfleet.app.terminal.hardness_text import hardness_text

UNDER = {
    "clients": 100, "pace": "deadline", "cohort": 10, "rounds": 50, "deadline_seconds": 120.0, "ready_share": 1.0,
    "pause_seconds": 20.0, "model_bytes": 3.4e8, "samples": 26.0, "trip_seconds": 120.0, "seeds": 3, "ideal_fair_work": 0.86,
}  # fmt: skip
SHARE = {
    "value": 0.925, "fair_work": 0.44, "ci95": [0.4, 0.48], "word": "hard", "beside": "milder than their mild one", "notes": [],
}  # fmt: skip
WAIT = {
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
    said = hardness_text(ANSWER)
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
    said = hardness_text(bare)
    assert "not measured: this run is paced by buffered" in said and "one seed" in said and "Class clock" not in said
