"""Participation against speed."""

import numpy as np
import pytest

from fedfleet.app.pages.participation import MOST, fast_half, speed_caption, speed_picture, speeds
from fedfleet.core.records import DROPPED, FOLDED, LOST, WASTED
from fedfleet.measure.tasks import RUNNING, Tasks, task_table


def tasks_of(clients, seconds, fates):
    n = len(clients)
    whole, zero = np.zeros(n, np.int64), np.zeros(n)
    took = np.array(seconds, float)
    fate, none = np.array(fates, np.int8), np.zeros(n, np.bool_)
    return Tasks(np.array(clients), whole, whole, zero, took, took, zero, zero, zero, fate, whole, none, none)


def test_a_client_that_never_finished_needs_longer_than_it_was_waited_for():
    found = speeds(
        tasks_of(
            [0, 0, 1, 1, 2, 3, 4],
            [10, 20, 30, 60, 60, 50, np.nan],
            [FOLDED, FOLDED, DROPPED, DROPPED, WASTED, RUNNING, LOST],
        ),
        6,
    )
    assert found.clients.tolist() == [0, 1, 2], "who still runs, or could not, has no time"
    assert found.seconds.tolist() == [15.0, 60.0, 60.0] and found.least.tolist() == [False, True, False]
    assert found.used.tolist() == [2, 0, 0] and found.kind.tolist() == [0, 2, 2]


def test_a_lost_task_says_nothing_about_the_speed_of_one_who_reported():
    found = speeds(tasks_of([0, 0], [10, 90], [FOLDED, DROPPED]), 1)
    assert found.seconds.tolist() == [10.0] and found.kind.tolist() == [1] and not found.least.any()


@pytest.mark.parametrize(("used", "share"), [([0, 0], None), ([3, 1], 0.75), ([1, 3], 0.25)])
def test_what_the_fast_half_gave(used, share):
    who = [0] * (used[0] + 1) + [1] * (used[1] + 1)
    took = [5.0] * (used[0] + 1) + [9.0] * (used[1] + 1)
    fates = [FOLDED] * used[0] + [WASTED] + [FOLDED] * used[1] + [WASTED]
    assert fast_half(speeds(tasks_of(who, took, fates), 2)) == share


def test_every_client_with_a_time_has_a_dot_and_the_others_are_named():
    tasks = tasks_of([0, 1, 2, 2], [10, 100, 1000, 2000], [FOLDED] * 4)
    text = speed_picture(tasks, 9)
    assert text.count("<circle") == 6, "three in each drawing"
    assert "client 2: 2 of 2 tasks used, 25 min a task" in text
    assert "6 of 9 clients were never asked" in speed_caption(tasks, 9)
    assert speed_picture(task_table([]), 9) == ""


def test_those_at_one_place_share_a_dot_that_says_so():
    text = speed_picture(tasks_of(list(range(8)), [60] * 8, [DROPPED] * 8), 8)
    assert text.count("<circle") == 2 and "8 clients: 0 tasks used, more than 1 min a task" in text


def test_large_fleets_have_no_more_dots_than_cells():
    rng = np.random.default_rng(0)
    n = 50_000
    tasks = tasks_of(rng.integers(0, n, 3 * n), rng.lognormal(5, 2, 3 * n), rng.choice([FOLDED, DROPPED], 3 * n))
    text = speed_picture(tasks, n)
    assert text.count("<circle") < 2 * MOST and len(text) < 90_000 and "A dot is all clients" in speed_caption(tasks, n)
