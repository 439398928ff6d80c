"""Answers as text."""

import pytest

from fedfleet.app.terminal.text import (
    datasets_text,
    fleet_metrics_text,
    metrics_text,
    parts_text,
    percent,
    run_text,
    size,
    span,
)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (89, "89 s"), (90, "1.5 min"), (7200, "2.0 h"), (200_000, "2.3 days")]
)
def test_time_is_said_in_a_convenient_unit(seconds, said):
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("nbytes", "said"), [(999, "999 B"), (1e3, "1.0 kB"), (343_200_776, "343.2 MB"), (2e12, "2.0 TB")]
)
def test_sizes_are_said_in_a_convenient_unit(nbytes, said):
    assert size(nbytes) == said


def test_shares_are_percentages_and_unknown_ones_a_dash():
    assert (percent(0.9123), percent(None)) == ("91.2 %", "-")


def test_the_end_of_a_run(tiny_run):
    text = run_text(tiny_run.answer(), tiny_run.metrics)
    assert text.startswith("6 rounds, 6 commits in ")
    assert "stopped by rounds" in text
    assert "10th-percentile client" in text and "mean of the worst tenth" in text
    assert text.endswith(f"see {tiny_run.out}/report.html")


def test_failed_rounds_are_counted_by_reason(tiny_run):
    answer = {**tiny_run.answer(), "failed_rounds": {"late": 3, "few": 1}}
    assert "failed rounds: 4 (3 x late; 1 x few)" in run_text(answer, tiny_run.metrics)
    assert "failed" not in run_text(tiny_run.answer(), tiny_run.metrics)


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
    first, second, note, states, against = fleet_metrics_text(answer).splitlines()
    assert "0.5  95 % interval 0.4 to 0.6 over 4 seeds" in first and "5.0 % of fair work" in first
    assert "9  one seed, so no interval" in second and "a round takes 3.0 min" in second and "+-" not in first + second
    assert note == "note: one device does it"
    assert states == "3 different states: the worst scores 0.100, the median 0.300, the best 0.900"
    assert against == "ks 0.25"


def test_tables_are_aligned():
    assert metrics_text({"a": 1, "long": 2}) == "a     1\nlong  2"
    part = {"name": "x", "summary": "An x.", "parameters": {"n": {"type": "int", "required": True}}}
    assert parts_text({"kind": "devices", "items": [part]}).splitlines()[1].split() == ["n", "int", "required"]
    assert parts_text({"kind": "codecs", "items": []}) == "there are no codecs yet"


def test_a_dataset_of_which_not_all_sizes_are_known_says_so():
    files = [{"bytes": 2_000_000}, {"bytes": None}]
    text = datasets_text({"datasets": [{"name": "x", "summary": "an x", "terms": "free", "files": files}]})
    assert "2 files, 2.0 MB and more; free" in text
