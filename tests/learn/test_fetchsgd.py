"""FetchSGD: sketches are linear, lose nothing where nothing collides, and give large coordinates back."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.events import TaskArrived
from fedfleet.core.part_facts import RunFacts
from fedfleet.learn.fedavg import fedavg
from fedfleet.learn.fetchsgd import largest, table_of, with_sketch
from fedfleet.learn.zoo import fetchsgd
from tests.learn.digits import task, trained
from tests.learn.facts import FACTS
from tests.worlds import only

pytestmark = pytest.mark.slow

SIZE = 650  # weights of the logistic regression on digits


def vectors(seed, n, size):
    return np.random.default_rng(seed).normal(size=(n, size)).astype(np.float32)


@pytest.mark.parametrize("semantics", ["paper", "released"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_without_collisions_momentum_or_omission_it_is_fedavg(rows, semantics):
    free = {"columns": SIZE, "k": SIZE, "server_momentum": 0.0, "server_lr": 1.0, "semantics": semantics}
    ends = [trained(a, rounds=3)[1].state.server.params for a in (fetchsgd(rows=rows, facts=FACTS, **free), fedavg())]
    assert all(np.allclose(ends[0][n], ends[1][n], atol=1e-6) for n in ends[1])


@given(st.integers(0, 1000), st.integers(1, 60), st.integers(1, 3), st.integers(1, 70), st.floats(-3, 3))
def test_a_sketch_is_linear(seed, size, rows, columns, scale):
    table = table_of(seed, size, rows, columns)
    a, b = vectors(seed, 2, size)
    whole, parts = table.sketch((a + np.float32(scale) * b)[None])[0], table.sketch(np.stack([a, b]))
    assert np.allclose(whole, parts[0] + np.float32(scale) * parts[1], atol=1e-4)


@given(st.integers(0, 1000), st.integers(1, 60), st.integers(1, 4), st.integers(0, 20))
def test_as_many_columns_as_coordinates_lose_nothing(seed, size, rows, more):
    table, x = table_of(seed, size, rows, size + more), vectors(seed, 1, size)
    assert np.array_equal(table.unsketch(table.sketch(x)[0]), x[0])


def test_the_large_coordinates_of_a_sparse_vector_come_back():
    size, k = 5000, 10
    for seed in range(10):
        x = np.zeros(size, np.float32)
        at = np.random.default_rng(seed).choice(size, k, replace=False)
        x[at] = vectors(seed, 1, k)[0] + 3.0
        table = table_of(seed, size, 5, 2500)
        assert np.array_equal(largest(table.unsketch(table.sketch(x[None])[0]), k), x)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(2, 80), st.integers(1, 3), st.integers(1, 30))
def test_torch_sketches_as_numpy_does(seed, size, rows, columns):
    table, x = table_of(seed, size, rows, columns), vectors(seed, 3, size)
    assert np.allclose(table.sketch(torch.from_numpy(x)).numpy(), table.sketch(x), atol=1e-5)


@given(st.integers(0, 500), st.integers(1, 90), st.integers(1, 40))
def test_every_coordinate_falls_into_one_cell_and_no_cell_gets_more_than_its_share(seed, size, columns):
    table = table_of(seed, size, 2, columns)
    for row in range(2):
        loads = np.bincount(table.cells[row], minlength=columns)
        assert loads.sum() == size and loads.max() <= -(-size // columns)
        for i in range(size):
            lone = np.zeros((1, size), np.float32)
            lone[0, i] = 1.0
            assert np.flatnonzero(table.sketch(lone)[0, row]).tolist() == [table.cells[row, i]]
    assert set(np.unique(table.own_signs)) <= {-1.0, 1.0}


def test_two_coordinates_meet_as_seldom_as_by_hashes():
    meetings = [np.mean(np.equal(*table_of(seed, 300, 1, 30).cells[:, [3, 77]].T)) for seed in range(2000)]
    assert np.mean(meetings) == pytest.approx(1 / 30, abs=0.012)


def test_seeds_and_rows_give_other_tables_and_the_same_seed_the_same():
    one = table_of(1, 100, 2, 10)
    assert not np.array_equal(one.cells[0], one.cells[1])
    assert not np.array_equal(one.cells, table_of(2, 100, 2, 10).cells)
    table_of.cache_clear()
    assert np.array_equal(one.cells, table_of(1, 100, 2, 10).cells)


def applied(built, updates):
    """The server after updates that were sketched as clients do, and all that was added to the model."""
    server = built.init({"w": np.zeros(40, np.float32)})
    table = table_of(0, 40, *built.fold.like(server)["sketch"].shape)
    for update in updates:
        before = server
        server = built.apply(server, Aggregate({"sketch": table.sketch(update[None])[0]}, 1.0, 1))
    return table, before, server


def test_what_is_not_sent_is_kept():
    """Taking the sketch of what was sent out of the error leaves the rest: nothing is lost, nothing comes twice."""
    built = with_sketch(
        fedavg(), rows=3, columns=20, k=5, server_momentum=0.5, server_lr=0.5, semantics="paper",
        facts=RunFacts(1, 0, 9),
    )  # fmt: skip
    updates = vectors(3, 4, 40)
    table, _, server = applied(built, updates)
    velocity = total = np.zeros_like(server.extra["sketch/error"])
    for update in updates:
        velocity = 0.5 * velocity + table.sketch(update[None])[0]
        total = total + 0.5 * velocity
    sent = table.sketch(server.params["w"][None])[0]
    assert np.allclose(server.extra["sketch/error"] + sent, total, atol=1e-4)
    assert np.allclose(server.extra["sketch/momentum"], velocity, atol=1e-5)


def test_as_released_the_cells_that_were_hit_are_cleared():
    built = with_sketch(fedavg(), rows=2, columns=20, k=3, facts=RunFacts(1, 0, 9))
    table, before, server = applied(built, vectors(4, 3, 40))
    hit = table.sketch((server.params["w"] - before.params["w"])[None])[0] != 0
    assert hit.any() and not hit.all()
    for name in ("sketch/error", "sketch/momentum"):
        assert not server.extra[name][hit].any()
        assert server.extra[name][~hit].all()


@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=20), st.integers(1, 25))
def test_the_largest_are_as_many_as_asked_and_none_left_out_is_larger(values, k):
    x = np.array(values, np.float32)
    result = largest(x, k)
    inside = result != 0
    assert inside.sum() <= k and np.array_equal(result[inside], x[inside])
    assert inside.sum() == min(k, np.count_nonzero(x))
    if inside.any() and not inside.all():
        assert np.abs(x[~inside]).max() <= np.abs(x[inside]).min()


def test_only_the_sketch_goes_up():
    events, end = trained(fetchsgd(rows=2, columns=30, facts=FACTS), rounds=1)
    assert {e.bytes_up for e in only(TaskArrived, events)} == {2 * 30 * 4.0}
    assert end.state.server.params["1.weight"].shape == task().init(3)["1.weight"].shape


def test_left_out_sizes_follow_the_model():
    built = fetchsgd(facts=FACTS)
    assert built.fold.like(built.init(task().init(3)))["sketch"].shape == (3, 65)
    _, end = trained(built, rounds=1)
    moved = sum(np.count_nonzero(v - task().init(3)[n]) for n, v in end.state.server.params.items())
    assert 0 < moved <= 65
