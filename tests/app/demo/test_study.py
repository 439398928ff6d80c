"""The demo's three fleets."""

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.demo.study import CLIENTS, FLEETS, PACES, always_ready, demo_spec, fleet_tables
from fedfleet.app.spec import resolve
from fedfleet.core.fleet import availability, client_ids, mean_kbps


def test_all_runs_can_be_assembled():
    for fleet in FLEETS:
        for pace in PACES:
            assert assemble(resolve(demo_spec(fleet, pace))).plan.pace.name == pace


def test_the_tables_are_the_fleets_that_the_runs_meet():
    for fleet in FLEETS:
        devices, states = fleet_tables(fleet)
        world = assemble(resolve(demo_spec(fleet, "deadline"))).world
        assert client_ids(devices).tolist() == list(world.devices.kinds)
        online = np.mean([world.states.online(t) for t in np.arange(0, 5 * 86400, 1200.0)])
        assert abs(online - availability(states).mean()) < 0.05


def test_fleets_go_from_mild_to_severe():
    spread = [mean_kbps(fleet_tables(fleet)[0]).std() for fleet in FLEETS]
    ready = [availability(fleet_tables(fleet)[1]).mean() for fleet in FLEETS]
    assert spread == sorted(spread) and ready == sorted(ready, reverse=True)
    assert availability(always_ready(CLIENTS)).tolist() == [1.0] * CLIENTS
