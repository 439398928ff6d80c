"""Who plays whom: everybody once, evenly, and the same for the same seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.pool.client_allocation import allocate_clients

sizes = st.integers(1, 60)


@given(sizes, sizes, st.integers(0, 1000))
def test_each_client_has_one_process_and_the_loads_are_even(clients, processes, seed):
    own = allocate_clients(clients, processes, seed)
    assert sorted(c for clients_of in own for c in clients_of) == list(range(clients))
    assert len(own) == min(clients, processes)
    assert max(map(len, own)) - min(map(len, own)) <= 1


@given(sizes, sizes, st.integers(0, 1000))
def test_the_same_seed_gives_the_same_allocation(clients, processes, seed):
    assert allocate_clients(clients, processes, seed) == allocate_clients(clients, processes, seed)


def test_other_seeds_give_other_allocations():
    assert len({str(allocate_clients(20, 4, seed)) for seed in range(10)}) > 5


@pytest.mark.parametrize("processes", [5, 9])
def test_with_enough_processes_clients_are_pinned(processes):
    assert allocate_clients(5, processes, 3) == [[0], [1], [2], [3], [4]]
