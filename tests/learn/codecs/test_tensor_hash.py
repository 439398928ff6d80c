"""Addressed draws: uniform, and the same alone or among others."""

import numpy as np
import torch

from fedfleet.learn.codecs import tensor_hash


def drawn(where, leaf, n):
    return torch.cat([bits for _, bits in tensor_hash.draws(torch.tensor(where), leaf, n)])


def test_draws_depend_on_address_leaf_and_element_alone(monkeypatch):
    whole = drawn([3, -7, 9], 2, 50)
    assert torch.equal(whole[1], drawn([-7], 2, 50)[0]) and torch.equal(whole[:, :20], drawn([3, -7, 9], 2, 20))
    assert not torch.equal(whole, drawn([3, -7, 9], 3, 50))
    monkeypatch.setattr(tensor_hash, "CHUNK_ELEMENTS", 60)
    assert torch.equal(whole, drawn([3, -7, 9], 2, 50))


def test_draws_are_uniform():
    each = torch.cat([u for _, u in tensor_hash.uniforms(torch.arange(100), 0, 1000)]).numpy().ravel()
    assert each.min() >= 0.0 and each.max() < 1.0
    counts = np.histogram(each, 20, (0, 1))[0]
    assert np.square(counts - 5000).sum() / 5000 < 45  # chi squared with 19 degrees of freedom: one in a thousand
    assert int(drawn([5], 0, 100).min()) >= 0
