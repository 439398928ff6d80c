"""Kills in runs that really train, cohorts smaller than their fleets, and a fleet of a hundred thousand."""

from pathlib import Path

import pytest

from tests.network.bench import bench
from tests.network.fleets import METHODS
from tests.network.test_parity import served_as_simulated
from tests.network.test_regressions import UNTIL_STOPPED
from tests.network.test_torch import killed_while_devices_train
from tests.network.toys import Toy


@pytest.mark.parametrize("kind", ["processor", "transmitter"])
def test_a_server_that_is_killed_while_devices_train_ends_with_the_same_bits(kind, tmp_path):
    killed_while_devices_train(kind, tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_a_cohort_that_is_smaller_than_its_fleet_ends_as_its_simulation_does(method, tmp_path):
    served_as_simulated(tmp_path, METHODS[method], clients=20, cohort=7, rounds=3)


def test_a_hundred_thousand_clients_do_not_make_each_fact_dear(tmp_path):
    """The first version built the set of busy clients anew for each fact: 39 ms of each of them with so many clients."""
    spent = {}
    for clients in (100, 100_000):
        folder = tmp_path / str(clients)
        folder.mkdir()
        toy = Toy(clients=clients, cohort=8, buffer=8, rounds=UNTIL_STOPPED)
        with bench(folder, toy, devices=8, patience=20.0) as desk:
            people = [desk.newcomer() for _ in range(8)]
            for puppet in people:
                puppet.check()
            for puppet in people:  # the first round warms everything up
                desk.hand(puppet, *desk.honest(puppet, puppet.await_work()))
            before = cpu_seconds(desk.ground.server.pid)
            for _ in range(3):
                for puppet in people:
                    desk.hand(puppet, *desk.honest(puppet, puppet.await_work()))
            spent[clients] = cpu_seconds(desk.ground.server.pid) - before
    # 24 reports, and what goes with them, are some 120 facts: in the first version 5 s.
    assert spent[100_000] < spent[100] + 2.0, spent


def cpu_seconds(pid):
    """What a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100.0
