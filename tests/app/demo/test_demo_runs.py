"""The demo's fleets and ways."""

import numpy as np

from fedfleet.app.assemble import assemble
from fedfleet.app.demo.demo_runs import CLIENTS, FLEETS, HOURS, SEEDS, WAITING, WAYS, fleet_spec
from fedfleet.app.spec import resolve


def test_six_ways_meet_the_same_fleet():
    setups = {way: assemble(resolve(fleet_spec("middle", way, SEEDS[0]))) for way in WAYS}
    assert len(setups) == 6 and {s.plan.clients for s in setups.values()} == {CLIENTS}
    assert len({tuple(s.world.devices.kinds) for s in setups.values()}) == 1


def test_all_but_waiting_have_the_same_hours():
    ends = {way: resolve(fleet_spec("mild", way, 7)).stop["virtual_seconds"] for way in WAYS if way != WAITING}
    assert set(ends.values()) == {3600.0 * HOURS}


def test_fleets_go_from_mild_to_severe():
    worlds = [assemble(resolve(fleet_spec(fleet, WAITING, 7))).world for fleet in FLEETS]
    online = [np.mean([world.states.online(t) for t in np.arange(0, 2 * 86400, 3600.0)]) for world in worlds]
    assert online == sorted(online, reverse=True) and online[0] == 1.0


def test_what_travels_of_a_frozen_backbone_is_small():
    frozen = assemble(resolve(fleet_spec("mild", "BiasPrompt+", 7)))
    sizes = [sum(v.nbytes for v in tree.values()) for tree in (frozen.plan.params, frozen.task.frozen)]
    assert sizes[0] < 0.1 * sizes[1]


def test_folders_are_told_apart():
    assert len({way.folder for way in WAYS.values()}) == len(WAYS)
