"""Worlds: heterogeneity that can be switched off, and all data in one place."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.api.run import run
from fedfleet.app.assemble import assemble, score_states
from fedfleet.app.assemble.world import apply_holdouts
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.events import TasksSpent
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.records import Cost
from fedfleet.tasks.task import hold_out
from fedfleet.world.bases import load_states

WORLD = {"clients": 30, "devices": {"use": "spread"}, "states": {"use": "daily", "ready": 0.3}}


def seen(heterogeneity):
    """How different the devices are, and how many clients are online at some times."""
    world = assemble(resolve({"world": {**WORLD, "heterogeneity": heterogeneity}})).world
    n = np.arange(30)
    seconds = world.devices.seconds(n, Cost(np.ones(30), np.full(30, 1e6), np.full(30, 1e6)), 0.0, n)
    online = [world.states.online(t).mean() for t in np.arange(0, 86400, 3600.0)]
    return len(np.unique(seconds.round(9))), float(np.mean(online))


@pytest.mark.parametrize(
    ("heterogeneity", "devices_differ", "always_online"),
    [("both", True, False), ("devices", True, True), ("states", False, False), ("none", False, True)],
)
def test_each_kind_of_heterogeneity_can_be_switched_off(heterogeneity, devices_differ, always_online):
    kinds, online = seen(heterogeneity)
    assert (kinds > 1) == devices_differ
    assert (online == 1.0) == always_online


def test_equal_devices_draw_as_much_as_each_other_and_kinds_that_are_levelled_can_still_be_named():
    energy = {"use": "per_kind", "watts": {"slow": {"compute": 2.0}, "fast": {"compute": 9.0}}}
    for heterogeneity, differ in (("both", True), ("none", False)):
        world = assemble(resolve({"world": {**WORLD, "heterogeneity": heterogeneity, "energy": energy}})).world
        result = world.energy.charges(np.arange(30), {"compute": np.ones(30)}, np.zeros(30))["joules"]
        assert (len(np.unique(result)) > 1) == differ


def small_run(*words):
    pace = {"use": "deadline", "cohort": 4, "seconds": 10.0, "if_few": "wait"}
    return run({"seed": 2, "task": "digits_logreg", "world": WORLD, "pace": pace, "stop": {"rounds": 4}}, *words)


def test_energy_is_counted_unless_it_is_switched_off_and_changes_nothing_else():
    with_it, without = small_run(), small_run("world.energy=none")
    assert without.metrics["energy"] is None and np.isnan(without.rounds["joules"]).all()
    drawn = with_it.metrics["energy"]
    assert drawn["joules"] == pytest.approx(drawn["useful"] + drawn["wasted"]) and drawn["wasted"] > 0
    assert with_it.rounds["joules"].sum() == pytest.approx(drawn["joules"])
    assert with_it.clients["joules"].sum() == pytest.approx(drawn["joules"])
    told = [e for e in with_it.events if isinstance(e, TasksSpent)]
    assert sum(float(e.spent["joules"].sum()) for e in told if "joules" in e.spent) == pytest.approx(drawn["joules"])
    about_it = {"energy", "fates", "budgets", "targets", "digest", "spec_digest", "wall_seconds"}
    same = with_it.metrics.keys() - about_it
    assert {k: with_it.metrics[k] for k in same} == {k: without.metrics[k] for k in same}


def test_watts_of_a_kind_that_is_not_there_are_refused():
    with pytest.raises(BadInput, match=r"no device is of the kind 'fats'.*fast"):
        assemble(resolve({"world": {**WORLD, "energy": {"use": "per_kind", "watts": {"fats": {"compute": 1.0}}}}}))


def test_an_algorithm_that_pools_sees_all_training_data_in_one_place():
    flat = assemble(resolve({"world": {"clients": 20}}))
    pooled = assemble(resolve({"world": {"clients": 20}, "algorithm": "centralized"}))
    everybody = np.sort(np.concatenate([flat.world.data.shard(c, "train", 0) for c in range(20)]))
    assert (pooled.plan.clients, pooled.plan.pace.cohort, pooled.plan.byte_scale) == (1, 1, 0.0)
    assert np.array_equal(np.sort(pooled.world.data.shard(0, "train", 0)), everybody)
    for c in range(20):
        assert np.array_equal(pooled.world.data.shard(c, "test", 0), flat.world.data.shard(c, "test", 0))


def test_states_are_scored_one_by_one():
    states = load_states("builtin:30")
    scores = score_states(states, 120.0, 50, 200, "paper")
    assert scores.shape == (30,) and (scores >= 0).all() and len(np.unique(scores)) > 1


@pytest.mark.parametrize("edge", [{}, {"edge": "hierfl"}])
def test_whoever_is_down_cannot_be_reached_and_users_neither(edge):
    table = {
        **WORLD,
        "users": {"use": "households"},
        "faults": {"use": "outages", "rate": 0.9, "groups": 3, "seconds": 9000.0},
    }
    pace = {"use": "deadline", "cohort": 3}
    world = assemble(resolve({"world": table, "pace": pace, **edge})).world
    up = assemble(resolve({"world": {k: v for k, v in table.items() if k != "faults"}, "pace": pace, **edge})).world
    assert up.faults is None and world.faults is not None and len(world.keys) == len(up.keys)
    times = np.arange(0.0, 86400.0, 1800.0).tolist()
    for t in times:
        assert np.array_equal(world.states.online(t), up.states.online(t) & ~world.faults.away(t))
    assert sum(world.faults.away(t).sum() for t in times) > 0


RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(10), 30)
DATA = Dataset(RNG.normal(size=(300, 2)).astype(np.float32), RNG.integers(0, 3, 300), 3, PEOPLE)


def task_of(data=DATA, seed=0):
    return Task("toy", data, hold_out(data, seed, 0), lambda: None, lambda seed: {})


def spec_with(**world):
    return resolve({"seed": 5, "task": {"use": "digits_logreg"}, "world": world})


def held(task=None, **world):
    return apply_holdouts(spec_with(**world), task or task_of())


def test_without_the_keys_nothing_changes():
    task = task_of()
    assert apply_holdouts(spec_with(), task) is task


@pytest.mark.parametrize(("wanted", "size"), [(0.5, 150), (0.001, 1), (7, 7), (299, 299)])
def test_the_test_set_has_the_size_that_was_asked_for(wanted, size):
    result = held(holdout=wanted)
    assert len(result.holdout) == size and len(result.client_rows()) == 300 - size
    assert len(np.unique(result.holdout)) == size


def test_larger_test_sets_have_the_smaller_ones_inside_and_the_usual_one_is_one_of_them():
    small, large = held(holdout=30).holdout, held(holdout=0.4).holdout
    assert np.isin(small, large).all()
    assert np.array_equal(held(holdout=0.2).holdout, hold_out(DATA, 5, 0))


@pytest.mark.parametrize(
    ("world", "why"),
    [
        ({"holdout": 300}, r"world.holdout = 300: the data has 300 samples, .*hold out fewer"),
        ({"unseen": 10}, r"world.unseen: 10 of 10 people would be held out"),
        ({"unseen": [3, 77]}, r"world.unseen: there is no person 77; .* 0 to 9"),
        ({"unseen": []}, r"world.unseen: the list is empty"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(world, why):
    with pytest.raises(BadInput, match=why):
        held(**world)


def test_data_without_owners_have_nobody_to_hold_out():
    with pytest.raises(BadInput, match=r"'toy' do not name the owner of each sample.*world.holdout"):
        held(task_of(replace(DATA, owner=None)), unseen=0.2)


def test_test_users_and_holdout_are_two_answers_to_one_question():
    spec = spec_with(holdout=0.1)
    with pytest.raises(BadInput, match=r"world.holdout: task.test_users"):
        apply_holdouts(replace(spec, task={**spec.task, "test_users": 2}), task_of())


@pytest.mark.parametrize(
    ("world", "why"),
    [
        ({"holdout": 0.0}, r"world.holdout = 0.0"), ({"holdout": 1.5}, r"world.holdout = 1.5"),
        ({"holdout": 0}, "world.holdout = 0"),
        ({"unseen": "all"}, r"world.unseen = 'all'"),
        ({"charge": "free"}, r"world.charge = 'free'"), ({"charge": 0}, "world.charge = 0"),
        ({"holdot": 0.2}, r"world has no key 'holdot'.*holdout"),
    ],
)  # fmt: skip
def test_keys_are_checked(world, why):
    with pytest.raises(BadInput, match=why):
        spec_with(**world)
