"""Severe fleets with default keys, a sample: none ends silently without a model. tests/soak has all of them."""

import pytest

from benchmarks.severe_fleets import PACINGS, Walk, severe_world, walk

pytestmark = pytest.mark.slow
# Among them is the fleet that made no model under a deadline.
SAMPLE = [(1, "readiness"), (11, "deadline"), (2, "timeout"), (1, "buffered"), (13, "semi_async")]


@pytest.mark.parametrize(("fleet", "pacing"), SAMPLE)
def test_it_learns_or_says_what_to_do(fleet, pacing):
    result = walk(fleet, pacing)
    assert result.says_what_to_do, result
    if not result.commits:
        assert any("raise pace." in text for text in (*result.before, *result.after))
        assert any("pace.seconds to" in text for text in result.after), "a number that would do"


def test_the_fleets_are_as_severe_as_they_are_said_to_be():
    worlds = [severe_world(seed) for seed in range(20)]
    assert {w["devices"]["use"] for w in worlds} == {"dpgmm", "spread"} and {w["states"]["use"] for w in worlds} == {
        "dpcsm",
        "daily",
    }
    assert max(w["model_bytes"] for w in worlds) > 2.5e8 and set(PACINGS) == {pacing for _, pacing in SAMPLE}


def test_silence_is_noticed():
    said = {"fleet": 0, "pacing": "deadline", "world": "", "rounds": 9, "virtual_seconds": 1.0}
    said |= {"accuracy": 0.1, "chance": 0.1, "before": ()}
    assert not Walk(**said, commits=0, after=()).says_what_to_do
    assert not Walk(**said, commits=0, after=("it failed",)).says_what_to_do
    assert Walk(**said, commits=0, after=("raise pace.seconds",)).says_what_to_do
    assert Walk(**said, commits=9, after=()).says_what_to_do
