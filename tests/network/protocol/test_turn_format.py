"""Turns cross the wire whole; what an edge cannot carry out is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.errors import Refused
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.network.protocol.turn_format import EdgeSync, EdgeTurn, turn_from_bytes, turn_to_bytes

PLACES = 5
ROWS = st.none() | st.lists(st.integers(0, 2**32 - 1), max_size=4).map(lambda some: np.array(some, np.int64))


@st.composite
def turns(draw):
    syncs = []
    for _ in range(draw(st.integers(1, 4))):
        slots = np.array(sorted(draw(st.sets(st.integers(0, PLACES - 1), min_size=1))), np.int64)
        syncs.append(EdgeSync(slots, tuple(draw(ROWS) for _ in slots), draw(st.integers(0, 9))))
    weight = draw(st.none() | st.floats(0.5, 100.0))
    return EdgeTurn(draw(st.integers(0, 2**40)), tuple(syncs), draw(st.integers(0, 99)), weight, {"moved": 3.0})


@given(turns())
def test_a_turn_arrives_as_it_was_sent(turn):
    came = turn_from_bytes(turn_to_bytes(turn), PLACES)
    assert (came.task, came.samples, came.weight, came.stats) == (turn.task, turn.samples, turn.weight, turn.stats)
    assert turn_to_bytes(came) == turn_to_bytes(turn)
    for one, other in zip(came.syncs, turn.syncs, strict=True):
        assert one.slots.tolist() == other.slots.tolist()
        assert one.steps == other.steps
        for mine, theirs in zip(one.rows, other.rows, strict=True):
            assert (mine is None) == (theirs is None)
            assert mine is None or mine.tolist() == theirs.tolist()


def test_the_sum_goes_up_only_of_a_single_average_with_the_devices_own_weights():
    sync = EdgeSync(np.array([0]), (None,))
    assert EdgeTurn(1, (sync,)).forwards
    assert not EdgeTurn(1, (sync, sync)).forwards
    assert not EdgeTurn(1, (sync,), weight=2.0).forwards


GOOD = turn_to_bytes(EdgeTurn(1, (EdgeSync(np.array([0, 2]), (None, np.array([7, 8]))),)))


@pytest.mark.parametrize(
    "change",
    [
        {"slots": np.array([2, 0])},
        {"slots": np.array([0, PLACES])},
        {"slots": np.array([0, 0])},
        {"slots": np.array([-1, 2])},
        {"devices": np.array([1])},
        {"devices": np.array([0])},
        {"counts": np.array([-1, 3])},
        {"counts": np.array([-1])},
        {"head": np.frombuffer(b"[]", np.uint8)},
        {
            "head": np.frombuffer(
                json.dumps({"task": -1, "samples": 0, "weight": None, "steps": [0], "stats": {}}).encode(), np.uint8
            )
        },
    ],
)
def test_a_turn_that_contradicts_itself_is_refused(change):
    with pytest.raises(Refused):
        turn_from_bytes(pack_tree({**unpack_tree(GOOD), **change}), PLACES)


def test_bytes_that_are_no_turn_are_refused():
    for data in (b"", b"x", GOOD[:-1], pack_tree({"head": np.zeros(1, np.uint8)})):
        with pytest.raises(Refused):
            turn_from_bytes(data, PLACES)


ROWS_HERE = np.array([7, 8])
EXCHANGE = EdgeSync(np.array([1]), (ROWS_HERE,), exchange=True)
TRAIN = EdgeSync(np.array([0]), (ROWS_HERE,))


def test_an_exchange_arrives_with_who_gets_what():
    came = turn_from_bytes(turn_to_bytes(EdgeTurn(1, (EXCHANGE, TRAIN), gets={0: ROWS_HERE})), PLACES)
    assert (came.exchanges, came.forwards, [sync.exchange for sync in came.syncs]) == (1, True, [True, False])
    assert {place: rows.tolist() for place, rows in came.gets.items()} == {0: [7, 8]}


@pytest.mark.parametrize(
    "turn",
    [
        EdgeTurn(1, (EXCHANGE,), gets={0: ROWS_HERE}),
        EdgeTurn(1, (EXCHANGE, TRAIN)),
        EdgeTurn(1, (EXCHANGE, TRAIN), gets={0: ROWS_HERE[:1]}),
        EdgeTurn(1, (EXCHANGE, TRAIN), gets={0: ROWS_HERE, 2: ROWS_HERE}),
        EdgeTurn(1, (EXCHANGE, TRAIN), gets={PLACES: ROWS_HERE}),
        EdgeTurn(1, (TRAIN,), gets={0: ROWS_HERE}),
        EdgeTurn(1, (EdgeSync(np.array([1]), (None,), exchange=True), TRAIN), gets={0: ROWS_HERE}),
    ],
)
def test_an_exchange_that_loses_or_makes_samples_is_refused(turn):
    with pytest.raises(Refused):
        turn_from_bytes(turn_to_bytes(turn), PLACES)
