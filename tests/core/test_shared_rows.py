"""Many clients on few rows: who has which row, and names that are kept once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.shared_rows import SharedNames, compact_rows, row_of, rows_of_all

laws = settings(deadline=None, derandomize=True, max_examples=100)


@laws
@given(st.data(), st.integers(1, 8))
def test_everyone_keeps_the_row_that_was_taken(data, rows):
    clients = np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=12)), np.int64)
    kept, of = compact_rows(None, rows, clients)
    assert kept[rows_of_all(of, len(kept))].tolist() == clients.tolist()
    assert len(set(kept.tolist())) == len(kept) == len(set(clients.tolist())), "each row once, none for nothing"


@laws
@given(st.data())
def test_taking_twice_is_taking_once(data):
    first = np.array(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=9)), np.int64)
    second = np.array(data.draw(st.lists(st.integers(0, len(first) - 1), max_size=9)), np.int64)
    kept, of = compact_rows(None, 6, first)
    again, of_again = compact_rows(of, len(kept), second)
    assert kept[again][rows_of_all(of_again, len(again))].tolist() == first[second].tolist()


def test_clients_without_company_keep_their_order_and_need_no_numbers():
    kept, of = compact_rows(None, 5, np.array([4, 0, 2]))
    assert (kept.tolist(), of) == ([4, 0, 2], None)
    assert row_of(of, np.array([1, 2])).tolist() == [1, 2]


def test_a_client_costs_four_bytes():
    _, of = compact_rows(None, 700, np.arange(10_000) % 700)
    assert of is not None
    assert of.nbytes == 4 * 10_000


def test_shared_names_read_like_a_list():
    names = SharedNames(np.array(["slow", "fast"]), np.array([1, 0, 1, 1], np.int32))
    written_out = ["fast", "slow", "fast", "fast"]
    assert list(names) == written_out
    assert [names[i] for i in range(-4, 4)] == written_out * 2
    assert list(names[1:3]) == ["slow", "fast"]
    assert (len(names), names.index("slow"), names.count("fast"), "middle" in names) == (4, 1, 3, False)
    assert np.array(names).tolist() == written_out
    assert np.asarray(names, object).dtype == object
