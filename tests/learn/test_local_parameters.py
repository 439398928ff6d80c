"""What stays home: never on the wire, each client's own, and refused where it makes no sense."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.cost import cost_of
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Offer
from fedfleet.core.records import Cost, whole_work
from fedfleet.learn.baselines import own_leaves
from fedfleet.learn.local_parameters import Leaves, leaf_union, with_local_leaves
from fedfleet.learn.zoo import centralized, ditto, fedavg, local_only
from fedfleet.testing.toys import consensus

MODEL = {"body.weight": np.zeros(10, np.float32), "head.weight": np.zeros(3, np.float32)}


def test_leaves_are_values():
    assert Leaves(("a.*",)) == Leaves(("a.*",)) and hash(Leaves(("a.*",))) == hash(Leaves(("a.*",)))
    inner = replace(Leaves(("a.*",)), others=True, within=Leaves(("*.bias",)))
    assert [inner(n) for n in ("a.bias", "b.bias", "b.weight")] == [False, True, False]


def test_two_homes_are_one_object_for_equal_ones():
    a, b = Leaves(("a",)), Leaves(("b",))
    assert leaf_union(None, a) is a and leaf_union(a, Leaves(("a",))) == a
    both = leaf_union(a, b)
    assert both is leaf_union(Leaves(("a",)), Leaves(("b",)))
    assert [both(n) for n in "abc"] == [True, True, False]


def test_what_stays_home_costs_no_bytes_either_way():
    result = with_local_leaves(fedavg(), keep="head.*")
    server = result.init(MODEL)
    cost = cost_of(result, server, whole_work(np.arange(2)), np.array([7, 20]))
    assert cost.bytes_down.tolist() == cost.bytes_up.tolist() == [40, 40]
    assert result.personal is own_leaves


def test_an_algorithms_own_price_falls_by_what_stays_home():
    def dear(server, asked, samples):
        return Cost(samples * 1.0, np.full(len(samples), 52.0), np.full(len(samples), 5.0))

    result = with_local_leaves(replace(fedavg(), cost=dear), keep="head.*")
    cost = cost_of(result, result.init(MODEL), whole_work(np.arange(1)), np.array([4]))
    assert (cost.bytes_down.tolist(), cost.bytes_up.tolist(), cost.samples.tolist()) == ([40], [0], [4])


def test_keeping_leaves_of_a_model_of_ones_own_is_refused():
    with pytest.raises(BadInput, match="'ditto' have a whole model of their own"):
        with_local_leaves(ditto(), keep="head.*")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: with_local_leaves(fedavg(), keep="tail.*").init(MODEL), r"'tail.\*' matches no leaf .* body.weight, head.weight"),
        (lambda: with_local_leaves(fedavg(), keep="*").init(MODEL), "nothing is learnt together"),
        (lambda: with_local_leaves(local_only(), keep="head.*").init(MODEL), "nothing is learnt together"),
        (lambda: with_local_leaves(centralized(), keep="head.*"), "'centralized' trains in one place"),
        (lambda: with_local_leaves(consensus(), keep="head.*"), "cannot be changed from outside, so algorithm.keep cannot keep"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_the_run(make, says):
    with pytest.raises(BadInput, match=says):
        make()


def test_many_leaves_are_not_all_named():
    with pytest.raises(BadInput, match=r"l11 and others$"):
        with_local_leaves(fedavg(), keep="x").init({f"l{i}": np.zeros(1) for i in range(40)})


def test_everyone_has_the_very_same_pass():
    result = with_local_leaves(fedavg(), keep="head.*")
    assert result.local(0, {}) is result.local(1, {})
    assert result.offer(result.init(MODEL), 0, {}) == Offer(MODEL)
