"""How long work takes on devices that a server knows only by their reports: as described at first, then as they showed it."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.baselines import fastest
from fedfleet.core.events import TaskArrived, TaskLost, TasksSent, TasksSpent
from fedfleet.core.records import Cost
from fedfleet.core.sources import DeviceSource
from fedfleet.network.server.learned_speeds import LearnedSpeeds
from tests.network.scene import play
from tests.network.server.test_commit import committed, opened
from tests.network.toys import Toy, plan_of

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


def test_a_server_that_goes_on_knows_the_speeds_again(tmp_path):
    """They follow from the journal; whoever was killed has lost none of them."""
    toy, kept = Toy(clients=4, rounds=3), {}
    plan = replace(plan_of(toy), choose=fastest())

    def known(scene):
        of = scene.processor.candidates.speeds
        assert of is not None
        return of.devices().seconds(CLIENTS, WORK, 0.0, np.zeros(4, np.int64)).tolist()

    async def first(scene):
        at = {0: [], 1: []}
        for n, task in enumerate(await opened(scene)):
            scene.pass_by(1.0)
            scene.claim(n % 2, task, names=["samples", "compute"], values=[10.0, 0.25 * (1 + scene.client(task))], stats=1)
            at[n % 2].append(task)
            await scene.turn()
        for index, own in at.items():
            assert all(grant.granted for grant in scene.grants(index))
            scene.safe(index, *own)
            scene.closed(index, 0, own)
        await committed(scene, 1)
        await scene.until(lambda: scene.events(TasksSpent))
        kept["seconds"] = known(scene)
        assert len(set(kept["seconds"])) == 4 and np.isfinite(kept["seconds"]).all()
        shutil.copytree(tmp_path / "a", tmp_path / "b", ignore=shutil.ignore_patterns("shared", "*.part"))

    async def second(scene):
        assert known(scene) == kept["seconds"]

    play(tmp_path / "a", toy, first, plan=plan)
    play(tmp_path / "b", toy, second, plan=plan, resume=True)
