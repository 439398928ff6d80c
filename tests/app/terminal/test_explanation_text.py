"""Where the time went, for people."""

from fedfleet.app.runs.explanation import _round, attribution_answer
from fedfleet.app.terminal.explanation_text import explanation_text
from fedfleet.measure.attribution.causes import RoundTime, total_attribution


def test_causes_from_the_largest_down_then_rounds_then_the_sentence():
    rounds = [
        RoundTime(0, 0.0, 100.0, {"pause": 20.0, "upload": 80.0}, 3),
        RoundTime(1, 100.0, 150.0, {"failed": 50.0}, -1, "too few came"),
    ]
    result = total_attribution(rounds, {"upload": {3: 80.0}}, ended=True, cutting="none")
    answer = {**attribution_answer(result), "notes": ["mind this"], "longest_rounds": [_round(r) for r in rounds]}
    lines = explanation_text(answer).splitlines()
    assert lines[0] == "2.5 min of virtual time, 2 rounds"
    assert [line.split()[0] for line in lines[2:5]] == ["upload", "failed", "pause"]
    assert "all of it for client 3" in lines[2] and "53 %" in lines[2]
    assert "failed: 50 s because too few came" in lines
    assert any("80 % upload, 20 % pause; closed by client 3" in line for line in lines)
    assert any("all failed; too few came" in line for line in lines)
    assert lines[-2].startswith("53 % of the time was waiting for uploads") and lines[-1] == "note: mind this"


def test_nothing_is_explained_in_one_line():
    nothing = {**attribution_answer(total_attribution([], {}, ended=False, cutting="none")), "notes": []}
    assert explanation_text(nothing) == "No time has passed yet, so there is nothing to explain."
