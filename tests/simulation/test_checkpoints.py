"""Checkpoints: from each of them a run goes on to the same events, models and memories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import RunFailed
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import NOTHING, Decision, Stop, whole_work
from fedfleet.core.trees import content_hash
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.simulation.checkpoints import Checkpoints, checkpoint_files, restore
from fedfleet.simulation.simulator import simulate
from fedfleet.store import files
from fedfleet.store import journal as journals
from fedfleet.store.files import write_atomically
from fedfleet.testing.toys import consensus, opaque_executor
from tests.worlds import buffered, commits_at, even_fleet, fleets, paces, toy_plan, world_of

pytestmark = pytest.mark.slow


def counting_selector():
    """A selector with state: it prefers those whom it has seen least."""

    def pick(state, roster, n, draw):
        order = np.lexsort((roster.clients, state["seen"][roster.clients]))
        return whole_work(roster.clients[order[:n]])

    def learn(state, ended, now):
        seen = state["seen"].copy()
        np.add.at(seen, ended.clients, 1)
        return {"seen": seen}

    return Selector("counting", pick, learn, initial=lambda clients: {"seen": np.zeros(clients, np.int64)})


class Every:
    """Keeps every checkpoint of a run, not only the newest."""

    def __init__(self, folder, journal):
        self.inner, self.folder, self.count = Checkpoints(folder, journal, 1), folder, 0

    def save_if_due(self, sim):
        before = set(checkpoint_files(self.folder))
        self.inner.save_if_due(sim)
        for path in set(checkpoint_files(self.folder)) - before:
            keep = self.folder / f"kept-{self.count}"
            keep.mkdir()
            for file in (path, *self.folder.glob("memory-*.bin")):
                (keep / file.name).write_bytes(file.read_bytes())
            self.count += 1


def run_keeping_everything(plan, world, folder, *, eager):
    journal = journals.create(folder / "run.db")
    sim = simulate(plan, world, opaque_executor(), journal=journal, keeper=Every(folder, journal), eager=eager)
    journal.close()
    return sim, journal.digest


policies = st.one_of(
    paces().map(lambda pace: pace.policy()), st.sampled_from([buffered(2, 3, pause=11.0), buffered(1, 4, pause=11.0)])
)


@settings(deadline=None, derandomize=True, max_examples=16)
@given(fleets(), policies)
def test_every_checkpoint_leads_to_the_same_end(tmp_path_factory, fleet, policy):
    stop = Stop(rounds=6, virtual_seconds=1000.0)
    for eager in (False, True):
        tmp_path = tmp_path_factory.mktemp("run")
        algorithm = consensus(remembers=True)
        plan = toy_plan(policy, len(fleet), algorithm=algorithm, choose=counting_selector(), stop=stop)
        world = world_of(fleet)
        straight, digest = run_keeping_everything(plan, world, tmp_path, eager=eager)
        for kept in tmp_path.glob("kept-*"):
            back = restore(kept, plan, world_of(fleet), opaque_executor(), eager=eager)
            sim, position = back.sim, back.position
            journal = journals.reopen(tmp_path / "run.db")
            journal.truncate(position)
            done = simulate(plan, world_of(fleet), opaque_executor(), journal=journal, resume=sim)
            journal.close()
            assert journal.digest == digest
            assert content_hash(done.state.server.params) == content_hash(straight.state.server.params)
            assert np.array_equal(done.state.selector["seen"], straight.state.selector["seen"])
            ours, theirs = ({c: m.slots_of(c)["toy"]["count"].tolist() for c in m.current} for m in (done.memory, straight.memory))
            assert ours == theirs


def test_tasks_in_flight_survive_a_checkpoint(tmp_path):
    plan = toy_plan(commits_at(4, 2), 8, algorithm=consensus(remembers=True), stop=Stop(rounds=12))
    world = world_of(even_fleet(8, [1.0, 2.0, 30.0, 4.0, 5.0, 60.0, 7.0, 8.0]))
    journal = journals.create(tmp_path / "run.db")
    in_flight = []

    class Look:
        def save_if_due(self, sim):
            meta, arrays = freeze(sim.state)
            in_flight.append(len(sim.state.running))
            assert thaw(meta, arrays).book == sim.state.book

    simulate(plan, world, opaque_executor(), journal=journal, keeper=Look())
    assert max(in_flight) >= 2


def test_waves_that_end_at_the_same_moment_survive_a_checkpoint(tmp_path):
    # Waves of one are sent one second apart and take 8 or 7 seconds: two of them end at the same moment.
    fleet = even_fleet(6, [8.0, 7.0, 8.0, 7.0, 8.0, 7.0])

    def decide(book):
        if book.asking:
            return NOTHING
        if book.arrived >= 2:
            return Decision(commit=True)
        if book.running < 4 and book.now >= book.sent_at + 1 and not book.answered:
            return Decision(ask=1)
        return Decision(wake_at=max(book.now, book.sent_at) + 1)

    first_come = Selector("first_come", lambda state, roster, n, draw: whole_work(roster.clients[:n]))
    plan = toy_plan(Policy("one_by_one", decide, 4), 6, choose=first_come, stop=Stop(rounds=5))
    world = world_of(fleet, steady=True)
    _, digest = run_keeping_everything(plan, world, tmp_path, eager=False)
    tied = 0
    for kept in sorted(tmp_path.glob("kept-*")):
        back = restore(kept, plan, world, opaque_executor(), eager=False)
        sim, position = back.sim, back.position
        ends = [entry[0] for entry in sim.queue if entry[3] is not None]
        tied += len(set(ends)) < len(ends)
        journal = journals.reopen(tmp_path / "run.db")
        journal.truncate(position)
        simulate(plan, world, opaque_executor(), journal=journal, resume=sim)
        journal.close()
        assert journal.digest == digest
    assert tied, "no checkpoint held waves that tie"


def test_a_checkpoint_can_be_taken_while_candidates_are_awaited(tmp_path):
    plan = toy_plan(buffered(1, 3), 6, stop=Stop(rounds=6))
    _, digest = run_keeping_everything(plan, world_of(even_fleet(6)), tmp_path, eager=False)
    asking = 0
    for kept in sorted(tmp_path.glob("kept-*")):
        back = restore(kept, plan, world_of(even_fleet(6)), opaque_executor(), eager=False)
        sim, position = back.sim, back.position
        asking += sim.state.book.asking
        journal = journals.reopen(tmp_path / "run.db")
        journal.truncate(position)
        simulate(plan, world_of(even_fleet(6)), opaque_executor(), journal=journal, resume=sim)
        journal.close()
        assert journal.digest == digest
    assert asking


def test_a_torn_checkpoint_falls_back_to_the_one_before(tmp_path):
    plan, world = toy_plan(commits_at(4, 2), 8, stop=Stop(rounds=6)), world_of(even_fleet(8))
    journal = journals.create(tmp_path / "run.db")
    simulate(plan, world, opaque_executor(), journal=journal, keeper=Checkpoints(tmp_path, journal, 1))
    journal.close()
    newest, before = checkpoint_files(tmp_path)
    whole = restore(tmp_path, plan, world, opaque_executor(), eager=False)
    newest.write_bytes(newest.read_bytes()[:100])
    fallen = restore(tmp_path, plan, world, opaque_executor(), eager=False)
    assert fallen.sim.state.book.version == whole.sim.state.book.version - 1
    assert not whole.damages and len(fallen.damages) == 1
    before.write_bytes(b"")
    assert restore(tmp_path, plan, world, opaque_executor(), eager=False).sim is None


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write_atomically(path, b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(RunFailed, match="check disk space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert {p.name for p in tmp_path.iterdir()} == {"model"}
