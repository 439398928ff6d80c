"""How long work takes on devices that a server knows only by their reports: as described at first, then as they showed it."""

import numpy as np
import pytest

from fedfleet.core.events import TaskArrived, TaskLost, TasksSent, TasksSpent
from fedfleet.core.records import Cost
from fedfleet.core.sources import DeviceSource
from fedfleet.network.server.learned_speeds import LearnedSpeeds

CLIENTS = np.arange(4)
WORK = Cost(np.full(4, 10.0), np.full(4, 60.0), np.full(4, 40.0))


def described(clients, cost, start, tasks):
    return 1.0 + clients + cost.samples


def speeds():
    return LearnedSpeeds(4, DeviceSource(described, ["any"] * 4))


def sent(first, *clients):
    n = len(clients)
    return TasksSent(0.0, 0, 0, first, np.array(clients), np.zeros(n, np.int64), np.ones(n), np.full(n, 10.0), np.full(n, 60.0))


def spent(task, client, compute):
    return TasksSpent(9.0, np.array([task]), np.array([client]), {"compute": np.array([compute])})


def seconds(of, work=WORK):
    return of.devices().seconds(CLIENTS, work, 0.0, np.zeros(4, np.int64)).tolist()


def test_before_the_first_report_devices_are_as_the_spec_describes_them():
    of = speeds()
    of.on_events([sent(0, 1, 2)])
    assert seconds(of) == described(CLIENTS, WORK, 0.0, None).tolist()


def test_a_report_says_how_long_its_client_takes_and_the_others_count_as_the_median():
    of = speeds()
    of.on_events([sent(0, 1, 2), TaskArrived(5.0, 0, 1, 5.0, 40.0), TaskArrived(9.0, 1, 2, 9.0, 40.0)])
    of.on_events([spent(0, 1, 2.0), spent(1, 2, 8.0)])
    # Client 1 computed for 2 of 5 seconds, client 2 for 8 of 9.
    assert seconds(of) == pytest.approx([7.0, 5.0, 9.0, 7.0])
    assert seconds(of, Cost(np.full(4, 20.0), np.zeros(4), np.zeros(4))) == pytest.approx([10.0, 4.0, 16.0, 10.0])


def test_the_last_report_counts_and_a_lost_task_never_makes_a_client_look_faster():
    of = speeds()
    for first, took in ((0, 4.0), (1, 2.0)):
        of.on_events([sent(first, 3), TaskArrived(took, first, 3, took, 40.0), spent(first, 3, took)])
    assert seconds(of)[3] == pytest.approx(2.0)
    of.on_events([sent(2, 3), TaskLost(30.0, 2, 3, 30.0, "lease")])
    assert seconds(of)[3] == pytest.approx(30.0)
    of.on_events([sent(3, 3), TaskLost(1.0, 3, 3, 1.0, "lease")])
    assert seconds(of)[3] == pytest.approx(30.0)


def test_what_a_device_does_not_say_teaches_nothing():
    of = speeds()
    of.on_events([sent(0, 1), TaskArrived(5.0, 0, 1, 5.0, 40.0), spent(0, 1, np.nan)])
    assert seconds(of) == described(CLIENTS, WORK, 0.0, None).tolist()
