"""The functional optimisers against torch.optim."""

import pytest
import torch

from fedfleet.learn import optimisers

PAIRS = {
    "sgd": (optimisers.sgd(), torch.optim.SGD, {"lr": 0.1}),
    "momentum": (optimisers.sgd(momentum=0.9), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "decay": (
        optimisers.sgd(momentum=0.5, weight_decay=0.01),
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.01},
    ),
    "plain decay": (optimisers.sgd(weight_decay=0.01), torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "adam": (optimisers.adam(), torch.optim.Adam, {"lr": 0.01}),
    "adam with decay": (
        optimisers.adam(weight_decay=0.1, betas=(0.8, 0.9), eps=1e-6),
        torch.optim.Adam,
        {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-6},
    ),
    "adamw": (
        optimisers.adam(weight_decay=0.1, decoupled=True),
        torch.optim.AdamW,
        {"lr": 0.01, "weight_decay": 0.1},
    ),
    "named sgd": (
        optimisers.build_optimiser("sgd", momentum=0.9, weight_decay=0.01),
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    ),
    "named adam": (
        optimisers.build_optimiser("adam", momentum=0.0, weight_decay=0.01),
        torch.optim.Adam,
        {"lr": 0.01, "weight_decay": 0.01},
    ),
    "named adamw": (
        optimisers.build_optimiser("adamw", momentum=0.0, weight_decay=0.01),
        torch.optim.AdamW,
        {"lr": 0.01, "weight_decay": 0.01},
    ),
}


def gradients(params, step):
    """Unlike gradients at every step, some of them zero."""
    return {n: torch.sin(p.detach() * 3 + step) * (torch.arange(p.numel()).reshape(p.shape) % 4 > 0) for n, p in params.items()}


@pytest.mark.parametrize("name", PAIRS)
def test_twenty_steps_equal_those_of_torch(name):
    ours, theirs, options = PAIRS[name]
    params = {"w": torch.linspace(-1, 1, 12).reshape(3, 4), "b": torch.linspace(0.5, 2, 3)}
    twins = {n: torch.nn.Parameter(p.clone()) for n, p in params.items()}
    reference = theirs(list(twins.values()), **options)
    state = ours.init(params)
    for step in range(20):
        result = gradients(params, step)
        for n, twin in twins.items():
            twin.grad = result[n].clone()
        params, state = ours.update(params, result, state, dict.fromkeys(params, options["lr"]))
        reference.step()
    for n, twin in twins.items():
        assert torch.allclose(params[n], twin.detach(), rtol=1e-6, atol=1e-6)
        assert not torch.equal(params[n], torch.linspace(-1, 1, 12).reshape(3, 4) if n == "w" else torch.linspace(0.5, 2, 3))


@pytest.mark.parametrize("name", PAIRS)
def test_updating_leaves_its_input_alone(name):
    ours = PAIRS[name][0]
    params = {"w": torch.ones(3)}
    ours.update(params, {"w": torch.ones(3)}, ours.init(params), {"w": 0.1})
    assert torch.equal(params["w"], torch.ones(3))


@pytest.mark.parametrize("name", PAIRS)
def test_a_stack_of_clients_is_treated_like_each_client(name):
    ours = PAIRS[name][0]
    stack = {"w": torch.stack([torch.linspace(-1, 1, 5), torch.linspace(2, 3, 5)])}
    rows = [{"w": stack["w"][i]} for i in range(2)]
    states, stacked = [ours.init(r) for r in rows], ours.init(stack)
    rates = [0.125, 0.5]
    for step in range(3):
        result = {"w": torch.cos(stack["w"] + step)}
        both = [
            ours.update(r, {"w": result["w"][i]}, s, {"w": rates[i]}) for i, (r, s) in enumerate(zip(rows, states, strict=True))
        ]
        rows, states = [r for r, _ in both], [s for _, s in both]
        stack, stacked = ours.update(stack, result, stacked, {"w": torch.tensor(rates).reshape(2, 1)})
    assert torch.equal(stack["w"], torch.stack([r["w"] for r in rows]))


def test_equal_settings_are_the_same_optimiser():
    assert optimisers.sgd(momentum=0.9) is optimisers.sgd(momentum=0.9)
    assert optimisers.sgd(momentum=0.9) != optimisers.sgd(momentum=0.8)
    assert optimisers.build_optimiser("adam", momentum=0.0, weight_decay=0.0) is optimisers.adam(weight_decay=0.0)
