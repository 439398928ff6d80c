"""Linear leaves: weights that clients share until the end of a pass, kept as a sum of low rank, are the same weights."""

import numpy as np
import pytest
import torch

from fedfleet.executors.stacked import linear_layers
from fedfleet.executors.stacked.fused_step import Move
from fedfleet.executors.stacked.linear_layers import Linear, Stack
from fedfleet.learn.zoo import fedavg, fedprox
from tests.executors.cohorts import compare, dense, small_task

CLIENTS, BATCH, WIDTH, OUT, STEPS = 3, 2, 30, 20, 3


@pytest.mark.parametrize("sizes", [(12, 12, 12), (12, 9, 5, 12), (60, 3)])
def test_weights_that_clients_share_until_the_end_are_the_same_weights(sizes, monkeypatch):
    task, algorithm = small_task(dense()), fedavg(lr=0.05, batch=4, epochs=2)
    made, share = [], Linear._begin_past
    monkeypatch.setattr(Linear, "_begin_past", lambda leaf, x: (share(leaf, x), made.append(leaf.past))[0])
    compare(task, algorithm, sizes)
    assert [past is not None for past in made] == [len(sizes) > 2, False], "the wide layer shares if its past is small"


@pytest.mark.parametrize(
    "algorithm",
    [
        fedavg(lr=0.05, batch=4, epochs=2, weight_decay=0.1),
        fedavg(lr=0.02, batch=4, epochs=2, momentum=0.9, weight_decay=0.01),
        fedprox(lr=0.05, batch=4, epochs=2, mu=0.7),
        fedprox(lr=0.02, batch=4, epochs=2, mu=0.7, momentum=0.9),
    ],
    ids=["decay", "momentum", "prox", "prox with momentum"],
)
def test_every_linear_rule_shares_its_beginning(algorithm, monkeypatch):
    task, made, share = small_task(dense()), [], Linear._begin_past
    monkeypatch.setattr(Linear, "_begin_past", lambda leaf, x: (share(leaf, x), made.append(leaf.past))[0])
    compare(task, algorithm, (12, 12, 12))
    assert [past is not None for past in made] == [True, False]
    made.clear()
    compare(task, algorithm, (12, 9, 5, 12))  # some leave early, and then weights are made at the beginning
    assert made == [None, None]


def leaf_with(weight, bias, move=None):
    stack = Stack(CLIENTS, move=move, trigger=torch.zeros((), requires_grad=True), steps=STEPS)
    leaf = Linear(stack)
    leaf.weight, leaf.bias, leaf.names = weight, bias, {"weight": "weight", "bias": "bias"}
    return leaf


def drawn(*shape):
    return torch.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape)).double()


def test_a_stack_is_each_clients_own_layer():
    weight, bias, x = drawn(CLIENTS, OUT, WIDTH), drawn(CLIENTS, OUT), drawn(CLIENTS * BATCH, WIDTH)
    out = leaf_with(weight, bias)(x)
    each = [torch.nn.functional.linear(x[c * BATCH : (c + 1) * BATCH], weight[c], bias[c]) for c in range(CLIENTS)]
    assert torch.allclose(out, torch.cat(each))


def test_further_dimensions_of_a_sample_pass_through():
    weight, x = drawn(CLIENTS, OUT, WIDTH), drawn(CLIENTS * BATCH, 4, WIDTH)
    out = leaf_with(weight, None)(x)
    assert out.shape == (CLIENTS * BATCH, 4, OUT)
    assert torch.allclose(out[BATCH:][:BATCH], x[BATCH:][:BATCH] @ weight[1].T)


def test_a_frozen_leaf_that_all_share_gives_the_same_product():
    weight, bias, x = drawn(1, OUT, WIDTH), drawn(CLIENTS, OUT), drawn(CLIENTS * BATCH, WIDTH)
    shared = leaf_with(weight.expand(CLIENTS, OUT, WIDTH), bias)
    assert torch.allclose(shared(x), leaf_with(weight.repeat(CLIENTS, 1, 1), bias)(x))


MOVES = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "decay": {"decay": 0.1},
    "prox with momentum and decay": {"momentum": 0.5, "decay": 0.05, "pull": 0.7},
    "rates of their own": {"rate": torch.tensor([0.1, 0.2, 0.05], dtype=torch.float64)},
}


@pytest.mark.parametrize("rule", MOVES)
def test_a_shared_beginning_and_steps_kept_apart_come_to_the_weights_of_their_own(rule, monkeypatch):
    """The low rank way against the plain way, on outputs, gradients of the input, and the weights at the end."""
    monkeypatch.setattr(linear_layers, "IN_CACHE", 0)  # so few weights would lie in a cache
    begun, bias = drawn(1, OUT, WIDTH), drawn(CLIENTS, OUT)
    ends, seen = [], []
    for weight in (begun.expand(CLIENTS, OUT, WIDTH), begun.repeat(CLIENTS, 1, 1)):
        anchor = {"weight": begun.repeat(CLIENTS, 1, 1), "bias": bias.clone()}
        move = Move(**{"rate": 0.1, **MOVES[rule]}, anchor=anchor)
        if not move.plain:
            move.tabulate(STEPS, torch.device("cpu"))
        leaf = leaf_with(weight, bias.clone(), move)
        for step in range(STEPS):
            x = drawn(CLIENTS * BATCH, WIDTH + step)[:, :WIDTH].clone().requires_grad_(True)
            out = leaf(x)
            assert (leaf.past is not None) == (weight.stride(0) == 0)
            (out * torch.cos(out.detach())).sum().backward()
            seen.append((out.detach(), x.grad))
        leaf.settle()
        ends.append((leaf.weight.detach(), leaf.bias.detach()))
    # The table of coefficients is kept in single precision.
    for one, other in zip(seen[:STEPS], seen[STEPS:], strict=True):
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*ends, strict=True))
    assert not torch.allclose(ends[0][0], begun.expand(CLIENTS, OUT, WIDTH), atol=1e-2)


OWN = {
    "plain": {},
    "pulled elsewhere, with momentum": {"momentum": 0.5, "pull": 0.7, "apart": True},
    "with a constant gradient": {"decay": 0.05, "constant": 0.3},
    "all of it": {"momentum": 0.5, "pull": 0.7, "apart": True, "constant": -0.2},
}


@pytest.mark.parametrize("rule", OWN)
def test_weights_of_their_own_with_steps_kept_apart_come_to_the_same_weights(rule, monkeypatch):
    monkeypatch.setattr(linear_layers, "IN_CACHE", 0)
    monkeypatch.setattr(linear_layers, "keeps_past", lambda out, width, rank, *, on_cpu: True)
    begun, bias, elsewhere = drawn(CLIENTS, OUT, WIDTH), drawn(CLIENTS, OUT), drawn(1, OUT, WIDTH + 1)[:, :, 1:]
    ends, seen = [], []
    for past in (True, False):
        given = {"rate": 0.1, **OWN[rule]}
        constant = given.pop("constant", 0.0)
        anchor = {"weight": elsewhere.expand(CLIENTS, OUT, WIDTH), "bias": bias * 0.5}
        fixed = {"weight": torch.full_like(begun, constant), "bias": torch.full_like(bias, constant)} if constant else {}
        move = Move(**given, anchor=anchor, constant=fixed)
        if not move.plain:
            move.tabulate(STEPS, torch.device("cpu"))
        leaf = leaf_with(begun.clone(), bias.clone(), move)
        leaf.stack.own_past = past
        for step in range(STEPS):
            x = drawn(CLIENTS * BATCH, WIDTH + step)[:, :WIDTH].clone().requires_grad_(True)
            out = leaf(x)
            assert (leaf.past is not None) == past
            (out * torch.cos(out.detach())).sum().backward()
            seen.append((out.detach(), x.grad))
        leaf.settle()
        ends.append((leaf.weight.detach(), leaf.bias.detach()))
    for one, other in zip(seen[:STEPS], seen[STEPS:], strict=True):
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*ends, strict=True))
    assert not torch.allclose(ends[0][0], begun, atol=1e-2)


def test_a_past_beside_weights_of_their_own_must_save_half_of_the_memory(monkeypatch):
    asked = []
    monkeypatch.setattr(linear_layers, "keeps_past", lambda out, width, rank, *, on_cpu: asked.append(rank) or False)
    for weight in (drawn(1, OUT, WIDTH).expand(CLIENTS, OUT, WIDTH), drawn(CLIENTS, OUT, WIDTH)):
        leaf = leaf_with(weight, None, Move(0.1))
        leaf.stack.own_past = True
        leaf(drawn(CLIENTS * BATCH, WIDTH))
    assert asked == [STEPS * BATCH, 2 * STEPS * BATCH]


def test_a_frozen_leaf_or_one_that_is_used_twice_does_not_move_itself():
    leaf = leaf_with(drawn(CLIENTS, OUT, WIDTH), None, Move(0.1))
    assert leaf.stack.moves(leaf)
    leaf.frozen = True
    assert not leaf.stack.moves(leaf)
    leaf.frozen, leaf.alone = False, False
    assert not leaf.stack.moves(leaf)
    leaf.alone = True
    with torch.no_grad():  # nothing moves while a model is judged
        assert not leaf.stack.moves(leaf)


def test_a_past_is_kept_where_it_is_smaller_than_weights_that_do_not_lie_in_a_cache():
    assert linear_layers.keeps_past(200, 144, 60, on_cpu=True)
    assert not linear_layers.keeps_past(200, 144, 90, on_cpu=True), "the weights are smaller"
    assert not linear_layers.keeps_past(64, 64, 10, on_cpu=True), "the weights lie in a cache"
    assert linear_layers.keeps_past(64, 64, 10, on_cpu=False)
    assert not linear_layers.keeps_past(200, 144, 0, on_cpu=True), "nobody knows how many steps there are"
