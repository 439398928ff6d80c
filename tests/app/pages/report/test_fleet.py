"""The fleet."""

import numpy as np
import pytest

from fedfleet.app.pages.report.fleet import MOST, askable_sentence, fast_half, fleet_section, speed_mark, speeds
from fedfleet.core.records import DROPPED, FOLDED, LOST, WASTED
from fedfleet.measure.tasks import RUNNING, Tasks
from tests.app.pages.report.logs import facts_of, journal, seen


def tasks_of(clients, seconds, fates):
    n = len(clients)
    whole, zero = np.zeros(n, np.int64), np.zeros(n)
    took = np.array(seconds, float)
    fate, none = np.array(fates, np.int8), np.zeros(n, np.bool_)
    return Tasks(np.array(clients), whole, whole, zero, took, took, zero, zero, zero, fate, whole, none, none)


def test_a_client_that_never_finished_needs_longer_than_it_was_waited_for():
    fates = [FOLDED, FOLDED, DROPPED, DROPPED, WASTED, RUNNING, LOST]
    result = speeds(tasks_of([0, 0, 1, 1, 2, 3, 4], [10, 20, 30, 60, 60, 50, np.nan], fates), 6)
    assert result.clients.tolist() == [0, 1, 2], "who still runs, or could not, has no time"
    assert result.seconds.tolist() == [15.0, 60.0, 60.0] and result.lower_bound.tolist() == [False, True, False]
    assert result.used.tolist() == [2, 0, 0]


def test_a_lost_task_says_nothing_about_the_speed_of_one_who_reported():
    result = speeds(tasks_of([0, 0], [10, 90], [FOLDED, DROPPED]), 1)
    assert result.seconds.tolist() == [10.0] and not result.lower_bound.any()


@pytest.mark.parametrize(("used", "share"), [([0, 0], None), ([3, 1], 0.75), ([1, 3], 0.25)])
def test_what_the_fast_half_gave(used, share):
    who = [0] * (used[0] + 1) + [1] * (used[1] + 1)
    took = [5.0] * (used[0] + 1) + [9.0] * (used[1] + 1)
    fates = [FOLDED] * used[0] + [WASTED] + [FOLDED] * used[1] + [WASTED]
    assert fast_half(speeds(tasks_of(who, took, fates), 2)) == share


LOG = journal([([0, 1], [2]), ([0], [2])], clients=6)
WORLD = seen([1] * 6, mbps=[20, 30, 40, 50, 60, np.nan], ready=[0.01, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_devices_are_drawn_by_link_and_reachability():
    text = "".join(fleet_section(facts_of(LOG, hindsight=WORLD)))
    assert text.count("<circle") == 10, "five in each drawing: of the sixth no speed is known"
    assert "client 0: 20 Mbit/s, reachable 1 %, asked 2, used 2" in text and "19" not in text.partition("aria-label")[0]
    assert "20 to 60 Mbit/s; those who took part have 25 in the middle, the others 50" in text


def test_where_everybody_is_always_there_or_no_world_can_tell_tasks_are_drawn_by_their_time():
    for world in (None, seen([1] * 6)):
        text = "".join(fleet_section(facts_of(LOG, hindsight=world)))
        assert text.count("<circle") == 6 and "3 of 6 clients never ended a task" in text and "Hatched" in text


def test_how_many_could_be_asked_is_said():
    assert (
        askable_sentence(facts_of(LOG))
        == "When a round began, 2 of 6 clients could be asked on average, and in 2 of 2 rounds fewer than the 4 wanted."
    )
    assert askable_sentence(facts_of(LOG, "seed = 1")) == ""


def test_the_speed_that_is_needed_is_that_of_both_ways_in_the_time_that_training_leaves():
    f = facts_of(LOG, hindsight=seen([1] * 6, mbps=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    result = speed_mark(f)
    assert result is not None and result[0] == pytest.approx(8 * 2e6 / 60 / 1e6) and "60 s" in result[1]
    assert speed_mark(facts_of(LOG, hindsight=WORLD)) is None, "everybody is faster"


def test_a_large_fleet_has_no_more_dots():
    n = 5000
    world = seen([1] * n, mbps=np.linspace(1, 90, n), ready=np.linspace(0.01, 0.9, n))
    text = "".join(fleet_section(facts_of(journal([([0, 1], [2])], clients=n), hindsight=world)))
    assert text.count("<circle") == 2 * MOST and "600 of 5,000 are drawn" in text


def test_a_run_in_one_place_has_no_fleet():
    assert fleet_section(facts_of(journal([([0], [])], clients=1))) == []


def test_where_no_task_came_back_nobody_is_said_to_be_as_fast_as_the_deadline():
    text = "".join(fleet_section(facts_of(journal([([], [0, 1])] * 3, clients=2))))
    assert "<circle" not in text and "No task came back; those of 2 clients ended after" in text
