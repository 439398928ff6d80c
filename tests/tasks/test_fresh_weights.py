"""What can be told of a module object: random weights that no seed decided, and nothing else."""

import copy

import pytest
import torch
from torch import nn

from fedfleet.tasks import fresh_weights
from fedfleet.tasks.fresh_weights import looks_fresh, unseeded_weights


def network():
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(24, 16), nn.LayerNorm(16), nn.Linear(16, 3))


def trained(model, steps=20):
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    x, y = torch.randn(32, 1, 4, 4), torch.arange(32) % 3
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model


class Own(nn.Module):
    """A parameter that no layer initialises."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(20))


@pytest.mark.parametrize("build", [network, lambda: nn.Linear(30, 5), lambda: nn.Embedding(9, 7), lambda: nn.LSTM(5, 6)])
def test_fresh_layers_look_fresh(build):
    assert all(looks_fresh(build()) for _ in range(20))


def test_trained_scaled_and_own_initialisations_do_not():
    small = nn.Linear(30, 5)
    nn.init.normal_(small.weight, std=0.02)
    assert not looks_fresh(trained(network())) and not looks_fresh(small) and not looks_fresh(Own()) and not looks_fresh(nn.ReLU())


def test_looking_changes_nothing():
    model = network()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    looks_fresh(model)
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_seed_that_somebody_gave_is_enough(monkeypatch):
    torch.manual_seed(5)
    assert not unseeded_weights(network())
    monkeypatch.setattr(fresh_weights.torch, "initial_seed", lambda: 2**52 + 1)
    assert unseeded_weights(network())
    assert not unseeded_weights(network) and not unseeded_weights(trained(network()))
