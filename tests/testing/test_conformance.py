"""Every registered part passes the public conformance checks; the checks themselves can fail."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet import testing
from fedfleet.app.assemble import score_states
from fedfleet.core.errors import BadInput
from fedfleet.core.folding import Entry
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import Decision, ServerState, whole_work
from fedfleet.core.registry import builder, names, parameters
from fedfleet.core.rng import client_keys
from fedfleet.runtime.executors.inline import inline
from fedfleet.tasks.digits import digits_logreg

KEYS = client_keys(30)
TASK = digits_logreg()(0)
# What a builder cannot do without, by name.
NEEDED = {
    "overcommit": lambda: {"policy": builder("policies", "deadline")(5)},
    "mobile": lambda: {"devices": builder("devices", "spread")()},
    "dpcsm": lambda: {"score": score_states},
}


def built(kind: str, name: str):
    return builder(kind, name)(**NEEDED.get(name, dict)())


@pytest.mark.parametrize("name", names("algorithms"))
def test_algorithms(name):
    testing.check_algorithm(built("algorithms", name), TASK, inline(TASK))


@pytest.mark.parametrize("name", names("folds"))
def test_folds(name):
    testing.check_fold(
        built("folds", name), ServerState({"a": np.zeros((3, 2), np.float32), "n": np.zeros(2, np.int64)})
    )


@pytest.mark.parametrize("name", names("selectors"))
def test_selectors(name):
    testing.check_selector(built("selectors", name))


@pytest.mark.parametrize("name", names("policies"))
def test_policies(name):
    testing.check_policy(built("policies", name))


@pytest.mark.parametrize("name", [n for n in names("devices") if not n.endswith("_file")])
def test_devices(name):
    testing.check_device_source(built("devices", name)(KEYS, 1), len(KEYS))


@pytest.mark.parametrize("name", [n for n in names("states") if not n.endswith("_file")])
def test_states(name):
    testing.check_state_source(built("states", name)(KEYS, 1), len(KEYS))


@pytest.mark.parametrize("name", names("partitions"))
def test_partitions(name):
    task = TASK
    if name == "by_owner":
        task = replace(TASK, dataset=replace(TASK.dataset, owner=np.arange(len(TASK.dataset.y)) % 20))
    testing.check_partition(builder("partitions", name), task)


@pytest.mark.parametrize("name", names("tasks"))
def test_tasks_start_the_same_from_the_same_seed(name):
    try:
        task = built("tasks", name)(3)
    except BadInput:  # its data is not on this machine
        task = builder("tasks", name)(synthetic=True)(3)
    a, b, c = task.init(3), task.init(3), task.init(4)
    assert all(np.array_equal(a[n], b[n]) for n in a)
    assert any(not np.array_equal(a[n], c[n]) for n in a)
    if "test_users" in parameters(builder("tasks", name)):  # whole users are held out
        left = np.setdiff1d(np.arange(len(task.dataset.y)), task.holdout)
        assert not np.intersect1d(task.dataset.owner[task.holdout], task.dataset.owner[left]).size
    else:
        assert len(task.holdout) == round(0.2 * len(task.dataset.y))


def test_a_selector_that_picks_twice_is_caught():
    twice = Selector("twice", lambda state, roster, n, draw: whole_work(np.repeat(roster.clients[:1], min(n, 2))))
    with pytest.raises(AssertionError, match="twice"):
        testing.check_selector(twice)


def test_a_policy_that_asks_in_reply_to_candidates_is_caught():
    with pytest.raises(AssertionError, match="in reply"):
        testing.check_policy(Policy("greedy", lambda book: Decision(ask=3), 3))


def test_a_policy_that_never_ends_a_round_is_caught():
    with pytest.raises(AssertionError, match="for ever"):
        testing.check_policy(Policy("asleep", lambda book: Decision(wake_at=book.now + 1), 3))


def test_a_fold_whose_entries_depend_on_who_came_before_is_caught():
    seen = []

    def enter(weight, stats, context):
        seen.append(context)
        return Entry(weight / len(seen))

    with pytest.raises(AssertionError, match="order of arrival"):
        testing.check_fold(replace(built("folds", "mean"), enter=enter), ServerState({"a": np.zeros(3, np.float32)}))
