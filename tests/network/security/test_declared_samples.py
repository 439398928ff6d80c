"""What devices declared, task by task: an earlier task keeps what held when it was sent, in memory and on the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.network.security.declared_samples import DeclaredSamples

CLIENTS = 3
EVERYBODY = np.ones(CLIENTS, np.bool_)


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    yield made
    made.close()


def again(db: sqlite3.Connection, declared: DeclaredSamples) -> DeclaredSamples:
    """As a server that starts finds them: enrolments say what is declared now."""
    result = DeclaredSamples(db, CLIENTS)
    for client in range(CLIENTS):
        result.declare(client, int(declared.samples[client]), own=bool(declared.own[client]), next_task=None)
    return result


def test_the_median_is_that_of_enrolled_devices_with_data_of_their_own(db: sqlite3.Connection) -> None:
    declared = DeclaredSamples(db, CLIENTS)
    assert declared.median(EVERYBODY) is None
    for client, samples in enumerate((10, 1 << 40, 30)):
        declared.declare(client, samples, own=client != 2, next_task=None)
    assert declared.median(EVERYBODY) == 10, "of an even number the lower of the two in the middle"
    assert declared.median(np.array([False, True, True])) == 1 << 40
    declared.declare(2, 30, own=True, next_task=0)
    assert declared.median(EVERYBODY) == 30 and declared.median(~EVERYBODY) is None


def test_caps_hold_from_a_task_on_until_the_next(db: sqlite3.Connection) -> None:
    declared = DeclaredSamples(db, CLIENTS)
    assert declared.cap(0) == np.inf
    for first, cap in ((3, 50.0), (7, 50.0), (9, 20.0), (9, 25.0)):
        declared.fix_cap(first, cap)
    for seen in (declared, again(db, declared)):
        assert [seen.cap(task) for task in (0, 2, 3, 8, 9, 99)] == [np.inf, np.inf, 50.0, 50.0, 25.0, 25.0]
    assert db.execute("SELECT COUNT(*) FROM sample_caps").fetchone() == (2,), "what says nothing new is not written"


def test_a_device_that_declares_often_without_a_task_in_between_leaves_one_row(db: sqlite3.Connection) -> None:
    declared = DeclaredSamples(db, CLIENTS)
    declared.declare(0, 10, own=True, next_task=None)
    for samples in range(20, 40):
        declared.declare(0, samples, own=True, next_task=5)
    assert db.execute("SELECT COUNT(*) FROM declarations").fetchone() == (1,)
    assert [int(declared.at(np.array([0]), task)[0][0]) for task in (4, 5)] == [10, 39]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, CLIENTS - 1), st.integers(0, 4), st.booleans(), st.integers(0, 3)), max_size=12),
    st.integers(0, 12),
)
def test_every_task_keeps_what_held_when_it_was_sent(changes: list[tuple[int, int, bool, int]], lost_from: int) -> None:
    db = sqlite3.connect(":memory:", isolation_level=None)
    declared, next_task = DeclaredSamples(db, CLIENTS), 0
    sent: dict[int, tuple[list[int], list[bool]]] = {}
    for client, samples, own, tasks in changes:
        declared.declare(client, samples, own=own, next_task=next_task)
        for task in range(next_task, next_task + tasks):
            sent[task] = declared.samples.tolist(), declared.own.tolist()
        next_task += tasks
    clients = np.arange(CLIENTS)
    for seen in (declared, again(db, declared)):
        assert all(tuple(column.tolist() for column in seen.at(clients, task)) == values for task, values in sent.items())
    declared.forget_tasks(lost_from)
    for seen in (declared, again(db, declared)):
        kept = {task: values for task, values in sent.items() if task < lost_from}
        assert all(tuple(column.tolist() for column in seen.at(clients, task)) == values for task, values in kept.items())
        assert seen.at(clients, max(lost_from, 0))[0].tolist() == declared.samples.tolist(), "the next task goes by what holds now"
    db.close()
