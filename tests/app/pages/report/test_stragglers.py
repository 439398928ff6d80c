"""Why reports were late, and when they would have come."""

import numpy as np
import pytest

from fedfleet.app.pages.report.stragglers import (
    LateTasks,
    deadline_to_try,
    find_late_tasks,
    late_section,
    lateness_causes,
)
from tests.app.pages.report.logs import READINESS, facts_of, journal, needs, seen

LOG = journal([([0], [1, 2, 3])] * 2, clients=5)


def late(over, worked=70.0, moving=20.0):
    n = len(over)
    return LateTasks(np.arange(n), np.array(over, float), 60.0 + np.array(over, float), np.full(n, worked), np.full(n, moving))


def test_lateness_is_what_the_world_says_beyond_what_was_waited():
    world = needs([50, 80, 100, np.inf] * 2)
    result = find_late_tasks(facts_of(LOG, hindsight=seen([1] * 5, needs=world)))
    assert result is not None and result.excess.tolist() == [20, 40, np.inf] * 2 and result.clients.tolist() == [1, 2, 3] * 2
    assert (
        find_late_tasks(facts_of(LOG)) is None and find_late_tasks(facts_of(journal([([0], [])]), hindsight=seen([1] * 10))) is None
    )


@pytest.mark.parametrize(("over", "aim"), [([5, 10, 20, 28, 500], 90), ([1e4] * 5, None), ([np.inf] * 5, None), ([0.0] * 5, None)])
def test_a_deadline_to_try_brings_in_four_of_five(over, aim):
    result = deadline_to_try(late(over), 60.0)
    assert result == aim
    assert aim is None or np.mean(60.0 + np.array(over) <= aim) >= 0.8


def test_every_late_report_has_one_cause():
    n = 6
    result = LateTasks(
        np.array([0, 0, 1, 2, 2, 3]),
        np.ones(n),
        np.full(n, 61.0),
        np.array([50, 70, 70, 90, 90, 90.0]),
        np.array([10, 10, 10, 80, 80, 80.0]),
    )
    rows = lateness_causes(result, 60.0)
    assert sum(count for _, count, _, _ in rows) == n and [c for _, c, _, _ in rows] == [3, 2, 1]
    assert (
        [who for _, _, who, _ in rows] == [2, 2, 1]
        and rows[0][0].startswith("The link alone")
        and rows[2][0].startswith("Went out of reach")
    )


def test_both_figures_are_drawn_where_a_deadline_was_missed_and_the_world_can_tell():
    world = seen([1] * 5, needs=needs([50, 80, 100, 4000] * 2))
    text = "".join(late_section(facts_of(LOG, hindsight=world)))
    assert (
        text.count("<figure") == 2 and "6 late reports, by cause" in text and "deadline of 60 s: 25 %" in text and "nan" not in text
    )
    assert late_section(facts_of(LOG)) == [] and late_section(facts_of(LOG, READINESS, hindsight=world)) == []
