"""Wrapping: state of both sides, everything passed on, candidates left out, picks put together."""

import numpy as np

from fedfleet.choose.power_of_choice import power_of_choice
from fedfleet.choose.wrappers import add_state, merge_picks, restrict_candidates
from fedfleet.core.events import TasksSpent
from fedfleet.core.parts import Draw, Selector
from fedfleet.core.records import Assignments, whole_work
from tests.choose.rosters import ended, roster


def counting(name):
    """A selector that counts what it hears, in columns of its own."""
    return Selector(
        name,
        lambda state, roster, n, draw: whole_work(roster.clients[:n] * int(state["heard"][0])),
        lambda state, ended, now: {**state, "heard": state["heard"] + now},
        probe=lambda state, roster, n, draw: (roster.clients[: int(state["heard"][0])], "loss"),
        initial=lambda clients: {"heard": np.ones(clients), "charged": np.zeros(1)},
        sees=("steps",),
        probe_seconds=7.0,
        charge=lambda state, spent: {**state, "charged": state["charged"] + 1},
        by_round=True,
    )


def wrapped(inner):
    return add_state(
        inner,
        lambda clients: {"heard": np.zeros(1)},
        lambda state, ended: {"heard": state["heard"] + 10},
        ("untold", "steps"),
    )


def test_both_keep_columns_of_the_same_name():
    part = wrapped(wrapped(counting("x")))
    state = part.initial(3)
    assert {name: len(column) for name, column in state.items()} == {
        "heard": 1, "inner.heard": 1, "inner.inner.heard": 3, "inner.inner.charged": 1,
    }  # fmt: skip
    state = part.learn(state, ended([0]), 1.0)
    assert [state[n][0] for n in ("heard", "inner.heard", "inner.inner.heard")] == [10, 10, 2]
    state = part.charge(state, TasksSpent(0.0, np.zeros(0, np.int64), np.zeros(0, np.int64), {}))
    assert [state[n][0] for n in ("heard", "inner.heard", "inner.inner.heard", "inner.inner.charged")] == [10, 10, 2, 1]
    assert part.pick(state, roster(3), 2, Draw(0, 0)).clients.tolist() == [0, 2]
    assert part.probe(state, roster(3), 2, Draw(0, 0))[0].tolist() == [0, 1]


def test_what_the_inner_one_sees_and_wants_is_kept():
    part = wrapped(counting("x"))
    assert (part.sees, part.probe_seconds, part.by_round, part.name) == (("steps", "untold"), 7.0, True, "x")
    plain = wrapped(Selector("y", counting("y").pick))
    assert plain.probe is plain.charge is None
    assert plain.learn(plain.initial(2), ended([0]), 1.0) == {"heard": [10.0]}


def test_who_is_left_out_is_neither_probed_nor_picked():
    part = restrict_candidates(power_of_choice(6), lambda state, roster: roster.clients % 2 == 0, "even")
    there = roster(9, loss=np.arange(9.0))
    assert set(part.probe({}, there, 2, Draw(0, 0))[0].tolist()) == {0, 2, 4, 6, 8}
    assert part.pick({}, there, 3, Draw(0, 0)).clients.tolist() == [8, 6, 4]
    assert part.pick({}, there, 9, Draw(0, 0)).clients.tolist() == [8, 6, 4, 2, 0]
    assert part.name == "even" and restrict_candidates(counting("x"), part.pick, "z").probe is not None


def test_picks_are_put_together_with_all_their_columns():
    def pick(clients, due):
        n = len(clients)
        return Assignments(np.array(clients, np.int64), np.arange(n), np.ones(n), {"lr": np.full(n, float(n))}, due)

    result = merge_picks([pick([3, 1], 5.0), pick([2], 9.0), pick([], 99.0)])
    assert (result.clients.tolist(), result.steps.tolist(), result.settings["lr"].tolist()) == (
        [3, 1, 2],
        [0, 1, 0],
        [2, 2, 1],
    )
    assert result.due == 9.0
    assert not len(merge_picks([pick([], None)]).clients) and merge_picks([pick([1], None)]).due is None
