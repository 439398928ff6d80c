"""Numbers as text."""

import pytest

from fedfleet.app.terminal.text import failure_lines, join_words, joules, metrics_text, percent, size, span


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0 s"), (89, "89 s"), (90, "1.5 min"), (7200, "2.0 h"), (200_000, "2.3 days")])
def test_time_is_said_in_a_convenient_unit(seconds, said):
    assert span(seconds) == said


@pytest.mark.parametrize(("nbytes", "said"), [(999, "999 B"), (1e3, "1.0 kB"), (343_200_776, "343.2 MB"), (2e12, "2.0 TB")])
def test_sizes_are_said_in_a_convenient_unit(nbytes, said):
    assert size(nbytes) == said


def test_shares_are_percentages_and_unknown_ones_a_dash():
    assert (percent(0.9123), percent(None)) == ("91.2 %", "-")


def test_energy_lists_failures_and_tables():
    assert joules(5000) == "5.0 kJ" and metrics_text({"a": 1, "long": 2}) == "a     1\nlong  2"
    assert [join_words(words) for words in ([], ["a"], ["a", "b", "c"])] == ["", "a", "a, b and c"]
    assert join_words(["a", "b", "c"], most=2) == "a, b and 1 more"
    assert failure_lines({"late": 3, "few": 1}) == ["failed rounds: 4 (3 x late; 1 x few)"] and failure_lines({}) == []
