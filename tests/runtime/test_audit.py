"""Replay: every run replays, also those that probe, forget, remember and reject; no change goes unnoticed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import ModelCommitted, ReportsGathered, TaskArrived
from fedfleet.core.parts import Selector
from fedfleet.core.records import Stop, whole_work
from fedfleet.core.trees import content_hash
from fedfleet.runtime.audit import audit, keep_aggregate
from fedfleet.runtime.rows import decode, encode
from fedfleet.runtime.simulate import simulate
from fedfleet.testing.toys import consensus, opaque_executor
from tests.worlds import commits_at, even_fleet, events_of, fleets, paces, toy_plan, world_of


def stored(log):
    """Events as the journal gives them back."""
    return list(decode(row for event in log for row in encode(event)[0]))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(fleets(), paces())
def test_every_run_replays_to_its_end(fleet, pace):
    plan = toy_plan(pace.policy(), len(fleet), algorithm=consensus(remembers=True), stop=Stop(rounds=5))
    log, end = events_of(plan, world_of(fleet))
    found = audit(plan, world_of(fleet), opaque_executor(), stored(log))
    assert content_hash(found.replayed.state.server.params) == content_hash(end.state.server.params)
    assert found.replayed.state.book == end.state.book
    assert found.source == "training again"


def test_a_selector_that_probes_replays():
    def probe(state, roster, n, draw):
        return roster.clients[:3], "seconds"

    def pick(state, roster, n, draw):
        return whole_work(roster.clients[np.argsort(roster.stats["seconds"], kind="stable")[:n]])

    plan = toy_plan(commits_at(2, 2), 5, choose=Selector("probing", pick, probe=probe))
    log, end = events_of(plan, world_of(even_fleet(5)))
    found = audit(plan, world_of(even_fleet(5)), opaque_executor(), stored(log))
    assert content_hash(found.replayed.state.server.params) == content_hash(end.state.server.params)


def test_kept_aggregates_need_no_training(tmp_path):
    plan, world, log = toy_plan(commits_at(3, 2), 6), world_of(even_fleet(6)), []
    simulate(plan, world, opaque_executor(), watch=log.extend)
    numbers = iter(range(100))
    simulate(
        plan, world, opaque_executor(),
        watch=lambda events: [keep_aggregate(tmp_path, next(numbers), e) for e in events if isinstance(e, ReportsGathered)],
    )  # fmt: skip

    def nobody(jobs):
        raise AssertionError("nothing should be trained")

    idle = replace(opaque_executor(), train=nobody)
    found = audit(plan, world, idle, stored(log), tmp_path)
    assert found.source == "kept aggregates"
    assert found.replayed.commits == sum(isinstance(e, ModelCommitted) for e in log)
    (tmp_path / "aggregates/00000001.safetensors").write_bytes(b"torn")
    with pytest.raises(RunFailed, match="00000001"):
        audit(plan, world, idle, stored(log), tmp_path)


def test_no_change_to_the_record_goes_unnoticed():
    plan, world = toy_plan(commits_at(3, 2), 6), world_of(even_fleet(6))
    log = stored(events_of(plan, world)[0])
    committed = next(i for i, e in enumerate(log) if isinstance(e, ModelCommitted))
    arrived = next(i for i, e in enumerate(log) if isinstance(e, TaskArrived))
    changes = {
        "another model": [*log[:committed], replace(log[committed], model_hash="0" * 64), *log[committed + 1 :]],
        "a task that ends twice": [*log[: arrived + 1], log[arrived], *log[arrived + 1 :]],
        "an outcome left out": log[:committed] + log[committed + 1 :],
        "a fact left out": log[:arrived] + log[arrived + 1 :],
        "the end cut off an outcome": log[:-1],
    }
    for changed in changes.values():
        with pytest.raises(RunFailed):
            audit(plan, world, opaque_executor(), changed)
    with pytest.raises(RunFailed):
        audit(replace(plan, seed=99), world, opaque_executor(), log)


def test_a_replay_from_kept_aggregates_learns_from_the_same_statistics(tmp_path):
    def learning(log):
        def learn(state, ended, now):
            log.append({name: column.tolist() for name, column in ended.stats.items()})
            return {"loss": state["loss"] + np.nansum(ended.stats["loss"])}

        return replace(uniform(), learn=learn, initial=lambda clients: {"loss": np.zeros(1)})

    lived, again, log = [], [], []
    world, numbers = world_of(even_fleet(6)), iter(range(100))
    plan = toy_plan(
        commits_at(3, 2), 6, algorithm=consensus(remembers=True), choose=learning(lived), stop=Stop(rounds=6)
    )

    def watch(events):
        log.extend(events)
        for event in events:
            if isinstance(event, ReportsGathered):
                keep_aggregate(tmp_path, next(numbers), event)

    end = simulate(plan, world, opaque_executor(), watch=watch)
    found = audit(replace(plan, choose=learning(again)), world, opaque_executor(), stored(log), tmp_path)
    assert found.source == "kept aggregates"
    assert lived
    assert repr(again) == repr(lived)
    assert found.replayed.state.selector["loss"] == end.state.selector["loss"] > 0
