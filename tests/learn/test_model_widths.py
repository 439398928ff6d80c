"""Who trains which width: dealt, held back by memory, or drawn anew for every task."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import BadInput
from fedfleet.core.records import ServerState, whole_work
from fedfleet.core.task_cost import cost_of
from fedfleet.learn.model_widths import MODEL_COPIES
from fedfleet.learn.zoo import fjord, heterofl
from tests.learn.unlike import facts, model, task

WIDTHS = [1.0, 0.5, 0.25]
BATCH = 16
HIDDEN = {16: 1.0, 8: 0.5, 4: 0.25, 12: 0.75}


def width_of(algorithm, client, server=None):
    server = server or algorithm.init(task().init(0))
    return HIDDEN[len(algorithm.offer(server, client, {}).params["1.bias"])]


def widths(algorithm, clients=9, server=None):
    return [width_of(algorithm, c, server) for c in range(clients)]


def need_mb(width, scale=1.0):
    """4 bytes for each of four copies of the slice and for the activations of a batch."""
    shape = model(width)
    size = sum(np.prod([len(at) for at in axes]) for axes in shape.places.values())
    return 4.0 * (MODEL_COPIES * size + BATCH * shape.activations) * scale / 2**20


def test_widths_are_dealt_evenly_and_never_change():
    algorithm = heterofl(widths=WIDTHS, fleet=facts())
    result = widths(algorithm)
    assert sorted(result) == sorted(WIDTHS * 3)
    later = ServerState({n: v + 1 for n, v in task().init(0).items()})
    assert widths(algorithm, server=later) == result
    assert widths(heterofl(widths=WIDTHS, fleet=facts())) == result


def test_a_device_gets_the_widest_slice_that_it_can_hold():
    memory = [need_mb(1.0), need_mb(1.0) * 0.999, need_mb(0.5), need_mb(0.25), 1e-9, np.nan, 1e9, 0.0, np.nan]
    by_memory = heterofl(widths=WIDTHS, assign="memory", fleet=facts(memory))
    assert widths(by_memory) == [1.0, 0.5, 0.5, 0.25, 0.25, 1.0, 1.0, 0.25, 1.0]
    assert widths(heterofl(widths=WIDTHS, assign="memory", fleet=facts())) == [1.0] * 9, "unknown is enough"
    dealt, capped = widths(heterofl(widths=WIDTHS, fleet=facts())), widths(heterofl(widths=WIDTHS, fleet=facts(memory)))
    assert capped == [min(a, b) for a, b in zip(dealt, widths(by_memory), strict=True)]


def test_a_declared_size_of_the_model_counts():
    memory = [need_mb(0.5, 1000.0)] * 9
    assert widths(heterofl(widths=WIDTHS, assign="memory", fleet=facts(memory, byte_scale=1000.0))) == [0.5] * 9


@given(st.lists(st.floats(0.0, 1.0) | st.just(np.nan), min_size=9, max_size=9), st.sampled_from(["evenly", "memory"]))
@settings(max_examples=25, deadline=None)
def test_nobody_gets_more_than_its_memory_holds(memory, assign):
    result = widths(heterofl(widths=WIDTHS, assign=assign, fleet=facts(memory)))
    for width, own in zip(result, memory, strict=True):
        assert np.isnan(own) or need_mb(width) <= own or width == 0.25


# ---- FjORD --------------------------------------------------------------------------------------------------------


def versions(algorithm, count):
    """Servers after so many commits that changed nothing."""
    server = algorithm.init(task().init(0))
    for _ in range(count):
        yield server
        server = algorithm.apply(server, Aggregate({}, 1.0, 1))


def test_widths_are_drawn_anew_for_each_version_up_to_the_own():
    memory = [need_mb(0.5)] * 4 + [np.nan] * 5
    algorithm = fjord(fleet=facts(memory))
    drawn = np.array([widths(algorithm, server=server) for server in versions(algorithm, 120)])
    assert set(drawn[:, :4].ravel()) == {0.5, 0.25} and set(drawn[:, 4:].ravel()) == {1.0, 0.75, 0.5, 0.25}
    for width in (1.0, 0.75, 0.5, 0.25):
        assert 0.2 < (drawn[:, 4:] == width).mean() < 0.3
    assert 0.43 < (drawn[:, :4] == 0.5).mean() < 0.57
    again = fjord(fleet=facts(memory))
    assert np.array_equal(drawn[:3], [widths(again, server=server) for server in versions(again, 3)])


def test_what_is_drawn_is_charged():
    algorithm = fjord(fleet=facts())
    for server in versions(algorithm, 3):
        cost = cost_of(algorithm, server, whole_work(np.arange(9)), np.full(9, 20))
        offered = [sum(v.nbytes for v in algorithm.offer(server, c, {}).params.values()) for c in range(9)]
        assert cost.bytes_down.tolist() == cost.bytes_up.tolist() == offered


# ---- specs --------------------------------------------------------------------------------------------------------


def test_kinds_of_device_may_have_widths_of_their_own():
    spec = {
        "task": {"use": "digits_mlp", "hidden": 16},
        "world": {"clients": 9, "devices": "spread"},
        "pace": {"cohort": 3},
    }
    spec |= {"algorithm": {"use": "heterofl", "widths": [1.0]}}
    spec |= {"override": [{"kinds": ["slow"], "algorithm": {"widths": [0.25]}}]}
    setup = assemble(resolve(spec))
    result = widths(setup.plan.algorithm)
    assert result == [0.25 if kind == "slow" else 1.0 for kind in setup.world.devices.kinds]


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        ({"widths": []}, "1 to 16 different shares"),
        ({"widths": [1 / n for n in range(1, 18)]}, "1 to 16 different shares"),
        ({"widths": [0.5, 1.0]}, "the widest first"),
        ({"widths": [0.5, 0.5]}, "different shares"),
        ({"widths": [0.0]}, "greater than 0"),
        ({"widths": [1.5]}, "less than or equal to 1"),
        ({"assign": "size"}, "'evenly' or 'memory'"),
        ({"fleet": 3}, "has no key 'fleet'"),
    ],
)
def test_bad_widths_are_one_sentence(algorithm, says):
    with pytest.raises(BadInput, match=says):
        assemble(resolve({"task": "digits_mlp", "algorithm": {"use": "heterofl", **algorithm}}))


def test_without_a_run_it_says_what_it_needs():
    bare = heterofl()
    with pytest.raises(BadInput, match="known in a run"):
        bare.init(task().init(0))
