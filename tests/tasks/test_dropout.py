"""Dropout whose mask is an address: the same alone and in a stack, scaled to keep the mean, silent when judging."""

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.tasks.dropout import AddressedDropout, addresses, dropout_names

ADDRESSES = torch.from_numpy(addresses(3, np.array([5, 9], np.uint64), np.array([1, 2]), 7))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def dropped(x, address, *, p=0.25, layer=0):
    leaf = AddressedDropout(p, layer).train()
    leaf.address = address
    return leaf(x)


def test_the_share_that_is_dropped_and_the_scale_of_the_rest():
    out = dropped(torch.ones(4, 5000), ADDRESSES[0])
    assert float((out == 0).float().mean()) == pytest.approx(0.25, abs=0.01)
    assert torch.unique(out[out != 0]).tolist() == pytest.approx([1 / 0.75])


def test_a_client_drops_the_same_units_alone_and_in_a_stack():
    x = torch.randn(2 * 3, 40)
    together = dropped(x, ADDRESSES)
    for k in range(2):
        assert torch.equal(together[3 * k : 3 * k + 3], dropped(x[3 * k : 3 * k + 3], ADDRESSES[k]))


def test_layers_steps_tasks_and_clients_have_masks_of_their_own():
    x = torch.ones(1, 400)
    key, task = np.array([5], np.uint64), np.array([1])
    base = addresses(3, key, task, 7)
    others = (addresses(4, key, task, 7), addresses(3, key, task, 8), addresses(3, key, task + 1, 7))
    mine = dropped(x, torch.from_numpy(base))
    assert torch.equal(mine, dropped(x, torch.from_numpy(addresses(3, key, task, 7))))
    assert not torch.equal(mine, dropped(x, torch.from_numpy(base), layer=1))
    for other in others:
        assert not torch.equal(mine, dropped(x, torch.from_numpy(other)))


def test_judging_and_p_zero_change_nothing():
    x = torch.randn(3, 4)
    assert AddressedDropout(0.5, 0).eval()(x) is x
    assert AddressedDropout(0.0, 0).train()(x) is x


def test_a_dropped_unit_has_no_gradient():
    x = torch.ones(1, 300, requires_grad=True)
    out = dropped(x, ADDRESSES[0])
    out.sum().backward()
    assert torch.equal(x.grad == 0, out == 0)


def test_names_of_the_addresses():
    module = nn.Sequential(nn.Linear(2, 2), AddressedDropout(0.1, 0), nn.Sequential(AddressedDropout(0.1, 1)))
    assert dropout_names(module) == ["1.address", "2.0.address"]
    assert not any("address" in name for name in module.state_dict()), "addresses are no part of a model"
