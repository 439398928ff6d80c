"""What a report is made of."""

from dataclasses import replace

import pytest

from fedfleet.app.pages.report.report_facts import accuracy_margin, rounds_of, size_of_test_set
from tests.app.pages.report.logs import READINESS, facts_of, journal, seen

LOG = journal([([0, 1], [2]), ([0], [2, 3]), ([], [2, 3])], clients=6)


def test_everybody_took_part_or_was_asked_for_nothing_or_never():
    f = facts_of(LOG)
    assert (f.participants, f.late_only, f.never) == (
        2,
        2,
        2,
    ) and f.participants + f.late_only + f.never == f.clients == 6
    assert f.used.tolist() == [2, 1, 0, 0, 0, 0] and f.asked.tolist() == [2, 1, 3, 2, 0, 0]
    assert f.deadline == 60.0 and int(f.dropped_tasks.sum()) == 5
    assert facts_of(LOG, READINESS).deadline is None


def test_rounds_are_followed_in_order():
    result = rounds_of(LOG)
    assert result.number.tolist() == [0, 1, 2] and result.failed.tolist() == [False, False, True]
    assert result.asked.tolist() == [3, 3, 2] and result.used.tolist() == [2, 1, 0] and result.reachable.tolist() == [3, 3, 2]
    assert not len(rounds_of([]).number)


def test_a_world_of_other_clients_is_not_believed():
    assert facts_of(LOG, hindsight=seen([1] * 5)).hindsight is None and facts_of(LOG, hindsight=seen([1] * 6)).hindsight is not None


def test_devices_of_users_are_devices_and_users_are_people():
    users = 'seed = 1\n[world.users]\nuse = "x"\n'
    assert facts_of(LOG, users).people == "devices" and facts_of(LOG, users + '[edge]\nuse = "y"\n').people == "clients"


def test_a_run_keeps_the_colour_of_its_fleet():
    facts = facts_of(journal([([0], [1])]))
    assert [replace(facts, name=n).colour for n in ("mild-deadline", "Middle", "severe-x", "mine")] == [1, 2, 3, 1]


def test_what_the_test_set_leaves_open():
    assert size_of_test_set(LOG) == 100 and accuracy_margin(0.5, 100) == pytest.approx(0.098) and accuracy_margin(0.5, 0) == 0
    assert accuracy_margin(1.0, 100) > 0, "even a perfect score may have been luck"
