"""How the model learnt."""

import re

import numpy as np
import pytest

from fedfleet.app.pages.report.learning_curve import bytes_until, deepest_fall, finding, learning_section
from fedfleet.measure.accuracy import Curve
from tests.app.pages.report.logs import facts_of, journal


def curve(accuracy):
    seen = np.array(accuracy, float)
    at = 10.0 * np.arange(len(seen))
    return Curve(at, np.arange(len(seen), dtype=float), seen, seen)


def test_the_deepest_fall_is_found_and_small_ones_and_beginnings_are_not():
    result = deepest_fall(curve([0.1, 0.6, 0.64, 0.5, 0.33, 0.6, 0.68]))
    assert result is not None and (result.start, result.end, result.high, result.low) == (20.0, 40.0, 0.64, 0.33)
    assert deepest_fall(curve([0.1, 0.6, 0.55, 0.65])) is None
    assert deepest_fall(curve([0.1, 0.4, 0.2, 0.9, 0.88])) is None, "little was learnt yet"
    assert deepest_fall(curve([0.5])) is None


def test_bytes_are_those_that_had_moved_by_then():
    f = facts_of(journal([([0, 1], [2]), ([0], [])]))
    assert bytes_until(f, np.array([0.0, 30.0, 55.0, 99.0, 1e9])).tolist() == [0.0, 3e6, 5e6, 5e6, 7e6]
    assert bytes_until(f, np.array([1e9]))[0] == f.metrics["bytes_down"] + f.metrics["bytes_up"]


def test_the_finding_is_true():
    f = facts_of(journal([([0], [])] * 3 + [([], [1])], clients=2, accuracy=[40, 80, 60]))
    assert finding(f) == (
        "Accuracy begins at 10 %, is highest with 80 % after 2.7 min and ends at 60 % after 4.3 min. "
        "It falls from 80 % to 60 % between 2.7 min and 4.3 min. 1 round failed."
    )


def test_it_is_drawn_against_time_models_and_bytes_with_the_reports_below():
    text = "".join(learning_section(facts_of(journal([([0, 1], [2])] * 5, accuracy=[20, 30, 40, 50, 60]))))
    assert text.count('type="radio"') == 3 and text.count("<svg") == 6
    assert all(word in text for word in ("virtual time", "models made", "MB moved", "reports used in each round of up to 3 asked"))
    assert re.search(r'class="a1"', text) and "nan" not in text


@pytest.mark.parametrize("log", [journal([], end=None), journal([([], [0])] * 2), journal([([0], [])])])
def test_short_and_failed_runs_are_drawn(log):
    text = "".join(learning_section(facts_of(log)))
    assert "<svg" in text and "nan" not in text and "inf" not in text.replace("info", "")


def test_a_run_that_nobody_tested_says_so():
    from fedfleet.core.events import Evaluated

    log = [e for e in journal([([0], [])]) if not isinstance(e, Evaluated)]
    assert "accuracy is unknown" in "".join(learning_section(facts_of(log)))


def test_patience_that_changed_is_shown():
    from fedfleet.core.events import PaceSet

    log = journal([([0], [])] * 2)
    log[1:1] = [PaceSet(0.0, "timeout", 30.0), PaceSet(40.0, "timeout", 60.0)]
    text = "".join(learning_section(facts_of(log)))
    assert "How long the policy waits: timeout" in text and "from 30 to 60 seconds" in text
