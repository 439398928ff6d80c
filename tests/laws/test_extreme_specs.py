"""Numbers of specs at their extremes: a sentence or a valid spec, in a moment, and none of numpy's warnings on the terminal.

`make soak` tries all of them, and runs those that are valid.
"""

import pytest

from fedfleet.app.spec.spec_file import set_values
from tests.mutations.extremes import Extreme, complaint, extremes

STEP = 97
BASE = {"task": "digits_logreg", "world": {"clients": 8, "devices": "spread"}, "pace": {"cohort": 3}, "stop": {"rounds": 2}}


def extreme(place, value, **others):
    return Extreme(place, value, set_values(BASE, {**others, place: value}))


@pytest.mark.parametrize(
    ("place", "value", "others"),
    [
        ("pace.cohort", 10**9, {}),
        ("pace.cohort", 2**31 - 1, {"pace.use": "deadline"}),
        ("pace.min_clients", 10**9, {}),
        ("world.devices.jitter", 100_000.0, {}),
        ("world.devices.jitter", 10.0, {}),
        ("world.devices.link", 10.0, {}),
        ("world.devices.compute", 10**9, {}),
        ("algorithm.rows", 10**9, {"algorithm.use": "fetchsgd"}),
        ("algorithm.columns", 2**31 - 1, {"algorithm.use": "fetchsgd"}),
    ],
)
def test_what_once_took_minutes_or_failed_is_answered_at_once(tmp_path, place, value, others):
    assert complaint(extreme(place, value, **others), tmp_path / "run", limit=2.0) == ""


@pytest.mark.slow
def test_a_sample_of_all_extremes_is_answered_at_once():
    wrong = {(e.place, repr(e.value)): why for i, e in enumerate(extremes()) if i % STEP == 0 and (why := complaint(e))}
    assert not wrong


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_all_extremes_are_answered_at_once(part, tmp_path):
    wrong = {}
    for i, one in enumerate(extremes()):
        if i % 8 == part and (why := complaint(one, None if one.place.startswith("task.") else tmp_path / str(i))):
            wrong[one.place, repr(one.value)] = why
    assert not wrong
