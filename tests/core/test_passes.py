"""Passes are values: equal settings make equal passes, whatever the learning rate; terms are what they say."""

from dataclasses import replace

import numpy as np
import torch

from fedfleet.core.passes import BatchPlan, Carry, ConstantTerm, LocalPass, ProximalTerm, Slot, zeros_like
from fedfleet.learn.optimisers import sgd
from fedfleet.learn.zoo import fedavg, fedprox, local_only

CARRIED = Carry({"c": {"w": torch.tensor([0.5, 0.5])}}, {})


def test_equal_settings_make_equal_passes_and_other_settings_do_not():
    for build in (fedavg, fedprox, local_only):
        a, b = (build(lr=lr, momentum=0.9, batch=8).local(client, {}) for client, lr in ((0, 0.1), (7, 0.3)))
        assert a == b
        assert hash(a) == hash(b)
        assert (a.rate, b.rate) == (0.1, 0.3)
        assert a != build(lr=0.1, momentum=0.9, batch=4).local(0, {})
    assert fedprox(mu=0.1).local(0, {}) != fedprox(mu=0.2).local(0, {})


def test_the_pull_is_the_gradient_of_the_squared_distance():
    w = torch.tensor([3.0, 1.0], requires_grad=True)
    start = torch.tensor([1.0, 1.5])
    (result,) = torch.autograd.grad(0.5 * 0.7 * (w - start).square().sum(), w)
    assert torch.allclose(ProximalTerm(0.7)({"w": w}, {"w": start}, CARRIED)["w"], result)


def test_a_drift_is_the_same_all_through_and_touches_only_what_is_trained():
    drift = ConstantTerm(lambda start, carried: {**carried.memory["c"], "frozen": torch.ones(1)})
    start = {"w": torch.zeros(2)}
    a, b = (drift({"w": torch.full((2,), v)}, start, CARRIED) for v in (1.0, 5.0))
    assert list(a) == ["w"]
    assert torch.equal(a["w"], b["w"])


def test_a_chain_walks_through_its_stages():
    last = LocalPass(sgd(), BatchPlan(4))
    chain = LocalPass(sgd(), BatchPlan(8), then=replace(last, then=LocalPass(sgd(), BatchPlan(2))))
    assert [stage.batches.size for stage in chain.stages()] == [8, 4, 2]


def test_what_goes_up_is_what_is_sent_and_not_kept():
    names = {"a": 0, "b": 0, "c": 0}
    base = LocalPass(sgd(), BatchPlan())
    assert base.sent_names(names) == ["a", "b", "c"]
    assert replace(base, keep=lambda n: n == "a").sent_names(names) == ["b", "c"]
    assert replace(base, keep=lambda n: n == "a", sends=lambda n: n != "b").sent_names(names) == ["c"]
    assert not base.remembers()
    assert replace(base, slots=(Slot("c", zeros_like),)).remembers()
    assert replace(base, keep=lambda n: False).remembers()


def test_fresh_zeros_are_of_the_floating_leaves():
    fresh = zeros_like({"w": np.ones((2, 3), np.float32), "n": np.array(4)})
    assert list(fresh) == ["w"]
    assert fresh["w"].shape == (2, 3)
    assert not fresh["w"].any()
