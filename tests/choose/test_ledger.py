"""A ledger says what a plain column would, however it was written, and never changes what it was given."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose import ledger as ledgers
from fedfleet.choose.ledger import full_column, ledger, look_up, write_rows

KINDS = {"count": np.uint16, "value": np.float32}
some_clients = st.lists(st.integers(0, 29), unique=True, max_size=12).map(lambda c: np.array(sorted(c), np.int64))


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(some_clients, max_size=8), st.lists(some_clients, min_size=1, max_size=3), st.integers(0, 15))
def test_it_is_a_column_that_can_be_written_to(writes, reads, least):
    before, ledgers._MIN_LOG_ROWS = ledgers._MIN_LOG_ROWS, least
    try:
        state, plain = ledger(30, KINDS), {name: np.zeros(30, kind) for name, kind in KINDS.items()}
        for turn, clients in enumerate(writes, start=1):
            for array in state.values():
                array.setflags(write=False)
            rows = {"count": clients + turn, "value": clients / turn}
            state = write_rows(state, clients, rows)
            for name, values in rows.items():
                plain[name][clients] = values
        for name in KINDS:
            assert (
                np.array_equal(full_column(state, name), plain[name]) and full_column(state, name).dtype == KINDS[name]
            )
            for clients in (*reads, np.arange(30)):
                assert np.array_equal(look_up(state, name, clients), plain[name][clients])
    finally:
        ledgers._MIN_LOG_ROWS = before


def test_few_rows_are_written_without_copying_the_columns_and_many_with():
    state = ledger(10_000, KINDS)
    few = write_rows(state, np.arange(100), {"count": np.ones(100), "value": np.ones(100)})
    assert few["count"] is state["count"] and len(few["log"]) == 100
    many = write_rows(few, np.arange(50, 3000), {"count": np.ones(2950), "value": np.ones(2950)})
    assert many["count"].sum() == 3000 and len(many["log"]) == 0 and not state["count"].any()


def test_what_else_is_in_the_state_stays():
    state = {**ledger(3, KINDS), "other": np.ones(2)}
    assert write_rows(state, np.array([1]), {"count": np.ones(1), "value": np.ones(1)})["other"] is state["other"]
