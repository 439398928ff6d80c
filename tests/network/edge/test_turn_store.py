"""Turns on an edge's disk: the same task begins once, reports outlive a restart, and what no resume needs goes."""

import threading

import numpy as np
import pytest

from fedfleet.core.errors import RunFailed
from fedfleet.network.edge.turn_store import SyncStats, TurnReport, TurnStore
from fedfleet.network.protocol.turn_format import EdgeSync, EdgeTurn, turn_to_bytes

PLACES = 2
MODEL = {"w": np.arange(3, dtype=np.float32)}


def turn(task, syncs=2):
    return turn_to_bytes(EdgeTurn(task, tuple(EdgeSync(np.array([0, 1]), (None, None)) for _ in range(syncs))))


def report(task):
    return TurnReport(b"bytes of %d" % task, float(task), {"loss": 0.5})


def test_a_task_that_is_asked_again_is_the_same_turn(tmp_path):
    store = TurnStore(tmp_path, PLACES)
    first = store.begin(7, b"model", MODEL, turn(7))
    assert store.begin(7, b"model", MODEL, turn(7)) is first
    store.finish(first, report(7))
    again = TurnStore(tmp_path, PLACES)
    assert again.begin(7, b"model", MODEL, turn(7)).number == first.number
    assert again.report(again.last) == report(7)
    # The number of a task that is given again by a server whose journal was damaged is another turn.
    other = again.begin(7, b"another model", MODEL, turn(7))
    assert (other.number, other.first) == (1, 2)
    assert again.report(other) is None


def test_averages_are_numbered_through(tmp_path):
    store = TurnStore(tmp_path, PLACES)
    for task, syncs in ((3, 2), (5, 3)):
        store.finish(store.begin(task, b"m", MODEL, turn(task, syncs)), report(task))
    for at in (store, TurnStore(tmp_path, PLACES)):
        found = [at.find(sync) for sync in range(6)]
        assert [None if one is None else one[0].turn.task for one in found] == [3, 3, 5, 5, 5, None]
        assert at.last.model["w"].tolist() == MODEL["w"].tolist()


def test_a_turn_does_not_begin_before_the_last_one_is_over(tmp_path):
    store = TurnStore(tmp_path, PLACES)
    store.begin(1, b"m", MODEL, turn(1))
    with pytest.raises(RunFailed, match="is not over"):
        store.begin(2, b"m", MODEL, turn(2))


def test_who_waits_for_a_report_gets_it_or_the_reason_why_there_is_none(tmp_path):
    store, got = TurnStore(tmp_path, PLACES), []
    first = store.begin(1, b"m", MODEL, turn(1))

    def wait(stored):
        try:
            got.append(store.await_report(stored))
        except RunFailed as error:
            got.append(str(error))

    waiting = threading.Thread(target=wait, args=(first,))
    waiting.start()
    store.finish(first, report(1))
    waiting.join(60)
    second = store.begin(2, b"m", MODEL, turn(2))
    waiting = threading.Thread(target=wait, args=(second,))
    waiting.start()
    store.end("the disk is full")
    waiting.join(60)
    assert got == [report(1), "the disk is full"]


def test_statistics_of_a_turn_are_those_of_its_averages_each_once(tmp_path):
    store = TurnStore(tmp_path, PLACES)
    first = store.begin(1, b"m", MODEL, turn(1))
    store.add_stats(first, 1, SyncStats([(0.25, 4.0)], 1))
    store.add_stats(first, 0, SyncStats([(9.0, 9.0)], 0))
    store.add_stats(first, 0, SyncStats([(0.5, 8.0)], 0))  # after a kill
    assert TurnStore(tmp_path, PLACES).stats(first) == SyncStats([(0.5, 8.0), (0.25, 4.0)], 1)


def test_turns_that_no_resume_needs_are_removed_but_never_the_last(tmp_path):
    store = TurnStore(tmp_path, PLACES)
    for task in range(3):
        store.finish(store.begin(task, b"m", MODEL, turn(task)), report(task))
    store.forget_before(3)  # a checkpoint within the second turn
    assert [store.find(sync) is not None for sync in range(6)] == [False, False, True, True, True, True]
    store.forget_before(99)
    assert store.last.turn.task == 2
    again = TurnStore(tmp_path, PLACES)
    assert (again.last.turn.task, again.last.first) == (2, 4)
    assert again.begin(3, b"m", MODEL, turn(3)).first == 6


def test_a_damaged_turn_is_named(tmp_path):
    TurnStore(tmp_path, PLACES).begin(1, b"m", MODEL, turn(1))
    path = tmp_path / "turn-00000000.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(RunFailed, match="damaged"):
        TurnStore(tmp_path, PLACES)
