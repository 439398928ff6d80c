"""The fused step: its closed form is the steps themselves, and the steps are the optimiser's."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.passes import BatchPlan, ConstantTerm, LinearStep, LocalPass, ProximalTerm
from fedfleet.executors.stacked.fused_step import Move, combination, fused_rule, response
from fedfleet.learn.optimisers import adam, sgd

RULES = {
    "momentum": st.sampled_from([0.0, 0.5, 0.9]),
    "decay": st.sampled_from([0.0, 0.01, 0.3]),
    "pull": st.sampled_from([0.0, 0.1, 2.0]),
}


def literally(begin, grads, rate, momentum, decay, pull):
    """Step by step, as the rule is written."""
    w, v, result = begin, 0.0, [begin]
    for g in grads:
        v = momentum * v + g + decay * w + pull * (w - begin)
        w = w - rate * v
        result.append(w)
    return result


@settings(deadline=None, derandomize=True, max_examples=120)
@given(
    rates=st.lists(st.floats(1e-3, 0.5), min_size=1, max_size=3),
    grads=st.lists(st.floats(-3, 3), max_size=9),
    begin=st.floats(-2, 2),
    **RULES,
)
def test_the_closed_form_is_the_steps_themselves(rates, grads, begin, momentum, decay, pull):
    shares, weights = combination(np.array(rates), len(grads), momentum, decay, pull)
    for c, rate in enumerate(rates):
        wanted = literally(begin, grads, rate, momentum, decay, pull)
        result = shares[:, c] * begin - weights[:, c] @ np.array(grads, np.float64)
        assert np.allclose(result, wanted, rtol=1e-9, atol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    rate=st.floats(1e-3, 0.5),
    grads=st.lists(st.floats(-3, 3), min_size=1, max_size=9),
    begin=st.floats(-2, 2),
    anchor=st.floats(-2, 2),
    constant=st.floats(-2, 2),
    **RULES,
)
def test_a_pull_to_elsewhere_and_a_constant_gradient_have_shares_of_their_own(
    rate, grads, begin, anchor, constant, momentum, decay, pull
):
    w, v, steps, rates = begin, 0.0, len(grads), np.array([rate])
    for g in grads:
        v = momentum * v + g + constant + decay * w + pull * (w - anchor)
        w = w - rate * v
    hold, (_, weights) = decay + pull, combination(rates, steps, momentum, decay, pull)
    shares = [response(rates, steps, momentum, hold, push, first) for push, first in ((0.0, 1.0), (-pull, 0.0), (1.0, 0.0))]
    parts = sum(share[steps, 0] * of for share, of in zip(shares, (begin, anchor, constant), strict=True))
    assert np.isclose(parts - weights[steps, 0] @ np.array(grads), w, rtol=1e-9, atol=1e-9)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(steps=st.integers(1, 6), **RULES)
def test_gradients_that_are_yet_to_come_count_nothing(steps, momentum, decay, pull):
    shares, weights = combination(np.array([0.1, 0.2]), steps, momentum, decay, pull)
    assert (shares.shape, weights.shape) == ((steps + 1, 2), (steps + 1, 2, steps))
    for t in range(steps + 1):
        assert not weights[t, :, t:].any()
    assert (shares[0] == 1.0).all()
    if decay == 0.0:
        assert np.allclose(shares, 1.0)  # without decay a walk only adds to where it began


def tensor(*shape, at=0.0):
    return torch.sin(torch.arange(float(np.prod(shape))) + at).reshape(shape)


def stepped(local, rates, steps=5, *, clients=3):
    """A leaf moved by the fused step, and by terms and optimiser."""
    rule, pull = fused_rule(local)
    begin = {"w": tensor(clients, 4, 2)}
    fused = begin["w"].clone()
    move = Move(rates, rule.momentum, rule.weight_decay, pull, {"w": begin["w"].clone()})
    params, state = dict(begin), local.optimiser.init(begin)
    each = rates if isinstance(rates, float) else rates.reshape(-1, 1, 1)
    for t in range(steps):
        grad = tensor(clients, 4, 2, at=t)
        move.step("w", fused, grad.clone())
        grads = {"w": grad}
        for term in local.terms:
            grads["w"] = grads["w"] + term(params, begin, None)["w"]
        params, state = local.optimiser.update(params, grads, state, {"w": each})
    return fused, params["w"]


PLAIN = LocalPass(sgd(), BatchPlan())
PASSES = {
    "plain": PLAIN,
    "momentum": replace(PLAIN, optimiser=sgd(momentum=0.9)),
    "decay": replace(PLAIN, optimiser=sgd(weight_decay=0.1)),
    "two pulls": replace(PLAIN, terms=(ProximalTerm(0.5), ProximalTerm(0.25))),
    "everything": replace(PLAIN, optimiser=sgd(momentum=0.9, weight_decay=0.1), terms=(ProximalTerm(0.5),)),
}


@pytest.mark.parametrize("rates", [0.1, torch.tensor([0.1, 0.02, 0.3])], ids=["one rate", "rates of their own"])
@pytest.mark.parametrize("name", PASSES)
def test_a_fused_step_is_the_optimisers(name, rates):
    fused, wanted = stepped(PASSES[name], rates)
    assert torch.allclose(fused, wanted, atol=1e-6)


def test_who_goes_on_alone_goes_on_as_before():
    rates = torch.tensor([0.1, 0.02, 0.3])
    whole, cut = (Move(rates.clone(), 0.9, 0.1, 0.5, {"w": tensor(3, 4)}) for _ in range(2))
    a, b = tensor(3, 4), tensor(3, 4)
    for move, w in ((whole, a), (cut, b)):
        move.step("w", w, tensor(3, 4, at=1))
    cut.shrink(2)
    b = b[:2].clone()
    for t in (2, 3):
        whole.step("w", a, tensor(3, 4, at=t))
        cut.step("w", b, tensor(3, 4, at=t)[:2].clone())
    assert torch.equal(a[:2], b)


def test_a_plain_step_has_one_rate_and_nothing_else():
    assert Move(0.1).plain
    assert not any(m.plain for m in (Move(0.1, 0.9), Move(0.1, decay=0.1), Move(0.1, pull=0.1), Move(torch.ones(2))))
    assert not Move(0.1, constant={"w": torch.ones(2)}).plain


def test_coefficients_are_repeated_for_every_sample_of_a_step():
    move = Move(torch.tensor([0.1, 0.2]), 0.9, 0.1)
    move.tabulate(4, torch.device("cpu"))
    shares, weights = combination(np.array([0.1, 0.2]), 4, 0.9, 0.1, 0.0)
    share, each = move.coefficients(3, 5)
    assert each.shape == (2, 15)
    assert np.allclose(share, shares[3], atol=1e-6)
    assert np.allclose(each, np.repeat(weights[3, :, :3], 5, axis=1), atol=1e-6)


def test_only_what_leaves_can_do_by_themselves_is_fused():
    assert fused_rule(PASSES["everything"]) == (LinearStep(0.9, 0.1), 0.5)
    assert fused_rule(PASSES["two pulls"]) == (LinearStep(), 0.75)
    assert fused_rule(replace(PLAIN, optimiser=adam())) is None
    mixed = replace(PLAIN, terms=(ProximalTerm(0.5), ConstantTerm(lambda start, carried: {})))
    assert fused_rule(mixed) is None
    assert fused_rule(mixed, constants=True) == (LinearStep(), 0.5)
    assert fused_rule(replace(PLAIN, terms=(lambda params, start, carried: {},)), constants=True) is None
    assert fused_rule(replace(PLAIN, objective=lambda *given: None)) is None
