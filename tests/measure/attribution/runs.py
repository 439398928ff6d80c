"""Runs whose time is to be explained: tasks with stages, probes that take time, things that go wrong; all in whole seconds."""

from dataclasses import replace

import numpy as np

from fedfleet.core.parts import Selector
from fedfleet.core.records import Stop, whole_work
from fedfleet.core.rng import hash_keys
from fedfleet.core.sources import FaultDraws, FaultSource
from fedfleet.core.stages import STAGES, source_from_stages
from tests.worlds import events_of, toy_plan, world_of


def stages_world(fleet, *, faults=False, scale=1.0):
    """The fleet with tasks in five stages, of which computing varies from trip to trip; a probe takes its time."""
    shortest = np.array(fleet.seconds)

    def stages(clients, cost, start, tasks):
        own = shortest[clients]
        share = np.minimum(np.asarray(cost.samples, np.float64), 1.0)
        return {
            "latency": np.full(len(clients), 1.0 * scale),
            "download": own,
            "planning": np.where(clients % 2, 2.0 * scale, 0.0),
            "compute": own * (1.0 + tasks % 3) * (share > 0),
            "upload": 2.0 * own,
        }

    world = replace(world_of(fleet), devices=source_from_stages(stages, ["toy"] * len(fleet)))
    return replace(world, faults=mishaps(fleet.keys, scale)) if faults else world


def mishaps(keys, scale=1.0):
    """Of eight tasks one is lost unnoticed, one is noticed, one is late, one arrives twice; the others go well."""

    def befall(clients, start, ends, tasks):
        fate = np.array([int(hash_keys(1, "fate", keys[[c]], t)[0]) % 8 for c, t in zip(clients, tasks, strict=True)])
        never = np.full(len(tasks), np.inf)
        return FaultDraws(
            np.where(fate < 2, STAGES.index("upload"), -1),
            np.full(len(tasks), 0.5),
            never,
            fate == 1,
            np.where(fate == 2, 7.0 * scale, 0.0),
            np.where(fate == 3, 5.0 * scale, np.inf),
        )

    return FaultSource(lambda clients, start, tasks: np.ones(len(tasks)), befall, silences=True)


def prober(seconds=np.inf):
    """A selector that looks how long its first candidates would take, and picks whom it looked at."""

    def probe(state, roster, n, draw):
        return roster.clients[:n], "seconds"

    def pick(state, roster, n, draw):
        return whole_work(roster.clients[:n])

    return Selector("prober", pick, probe=probe, probe_seconds=seconds)


def told(fleet, pace, *, horizon=2000.0, rounds=5, faults=False, choose=None, scale=1.0):
    """The events of a run, and its world."""
    world = stages_world(fleet, faults=faults, scale=scale)
    stop = Stop(rounds=rounds, virtual_seconds=horizon * scale)
    plan = toy_plan(pace.policy(scale), len(fleet), stop=stop, choose=choose)
    return events_of(plan, world)[0], world


def progress_in(world):
    """What the world says of how far a task has come."""
    from fedfleet.simulation.trips import ready_seconds

    def progress(client, sent, time):
        return float(ready_seconds(world.states, np.array([client]), sent, np.array([time]))[0])

    return progress
