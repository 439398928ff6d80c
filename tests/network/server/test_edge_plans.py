"""Turns that a server plans: those of the simulation, the same after a restart, with the memory of the last folded report."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.core.cost import cost_of
from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Job
from fedfleet.core.passes import NO_SETTINGS
from fedfleet.core.records import Wave, whole_work
from fedfleet.engine.hierarchy import EDGE, make_visits, memory_after
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.protocol.turn_format import turn_from_bytes
from fedfleet.network.server.edge_plans import EdgePlans
from tests.app.users import spec_with

FEDGS = ("edge={use='fedgs', per_sync=2, random=1, syncs=4, batch=16}",)


class Planned:
    """A run with edges, its plans, and the last folded task of each edge."""

    def __init__(self, folder, *words):
        self.setup = assemble(spec_with(*words))
        self.memory_task = np.full(self.setup.plan.clients, -1, np.int64)
        self.folder, self.shared = folder, folder / "shared"
        self.shared.mkdir(exist_ok=True)
        (folder / "wire").mkdir(exist_ok=True)
        self.plans = EdgePlans(self.setup.plan, self.setup.world, folder, self.shared, lambda: self.memory_task)

    def wave(self, first, clients, time=0.0):
        plan, world = self.setup.plan, self.setup.world
        server, asked = plan.algorithm.init(plan.params), whole_work(np.array(clients))
        cost = cost_of(plan.algorithm, server, asked, world.data.sizes(0)[clients])
        return Wave(first, 0, 0, time, asked, world.keys[clients], cost, server)

    def turns(self, wave):
        message = inside.Wave()
        blobs = self.plans.fill_in(wave, message)
        assert [blob.name for blob in blobs] == list(message.turns)
        places = [len(self.inside().fleet.users.devices_of(client)) for client in wave.assignments.clients.tolist()]
        return [turn_from_bytes((self.shared / f"{b.name}.blob").read_bytes(), n) for b, n in zip(blobs, places, strict=True)]

    def inside(self):
        return self.setup.plan.algorithm.local(0, NO_SETTINGS)

    def simulated(self, wave, memories):
        """Turns and memories of the same wave as a simulation has them."""
        plan, world = self.setup.plan, self.setup.world
        jobs = [
            Job(wave.first + n, client, int(wave.keys[n]), plan.seed, plan.algorithm.offer(wave.server, client, {}), self.inside(),
                world.data.shard(client, "train", 0), 0, memories.get(client, {}), NO_SETTINGS, 0, wave.time)
            for n, client in enumerate(wave.assignments.clients.tolist())
        ]  # fmt: skip
        turns = self.inside().rule.plan(make_visits(jobs))
        return turns, {job.client: memory_after(job, turn, 0.0) for job, turn in zip(jobs, turns, strict=True)}


def rows_of(turns):
    return [[[some.tolist() for some in sync.rows if len(some)] for sync in turn.syncs] for turn in turns]


def named(turns):
    return [[[some.tolist() for some in sync.rows] for sync in turn.syncs] for turn in turns]


def test_turns_are_those_of_the_simulation_and_go_on_from_what_was_folded(tmp_path):
    run = Planned(tmp_path, *FEDGS)
    first = run.wave(0, [0, 2])
    turns, memories = run.simulated(first, {})
    assert named(run.turns(first)) == rows_of(turns)
    second = run.wave(2, [0, 2], time=9.0)
    # Only the report of edge 0 was folded: edge 2 begins again.
    run.memory_task[0] = 0
    again, _ = run.simulated(second, {0: memories[0]})
    assert named(run.turns(second)) == rows_of(again)
    assert rows_of(again)[0] != rows_of(turns)[0]


def test_a_server_that_starts_again_hands_out_the_same_turns(tmp_path):
    run = Planned(tmp_path, *FEDGS)
    wave = run.wave(0, [0, 1])
    before = named(run.turns(wave))
    # Whatever was folded meanwhile: what was planned is on the disk.
    after = Planned(tmp_path, *FEDGS)
    after.memory_task[:] = 99
    assert named(after.turns(wave)) == before
    # A journal that lost its end gives the numbers of tasks again, at other moments.
    after.memory_task[:] = -1
    assert named(after.turns(after.wave(0, [1, 0], time=1.0))) == named(run.turns(run.wave(0, [1, 0], time=1.0)))
    after.memory_task[1] = 7
    with pytest.raises(RunFailed, match="remembers of task 7"):
        after.turns(after.wave(8, [1], time=2.0))


def test_devices_that_train_on_all_they_hold_are_not_told_rows(tmp_path):
    run = Planned(tmp_path, "edge={use='hierfl', kappa2=3}")
    (turn,) = run.turns(run.wave(5, [1]))
    assert len(turn.syncs) == 3
    assert {rows is None for sync in turn.syncs for rows in sync.rows} == {True}
    assert turn.samples == len(run.setup.world.data.shard(1, "train", 0))


def test_old_turns_of_an_edge_are_removed(tmp_path):
    run = Planned(tmp_path, "edge={use='hierfl', kappa2=1}")
    for task in range(8):
        run.turns(run.wave(task, [1], time=float(task)))
        run.memory_task[1] = task
    kept = sorted(path.stem for path in (tmp_path / "wire" / "turns").iterdir())
    assert [int(name.partition("-")[2]) for name in kept] == [5, 6, 7]
    assert EDGE in run.plans._memory(1)
