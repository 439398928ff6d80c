"""Does a module object hold fresh random weights that no seed decides? What cannot be told counts as no."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from fedfleet.tasks.task import INIT_LOCK

# PyTorch starts its generator from 53 random bits; a seed that a person gives is shorter, but for one in two million.
_LEAST_RANDOM_SEED = 1 << 32
_FEW = 16  # values: their spread says nothing
_SPREAD = 0.25  # relative: how far the spread of fresh values may lie from that of others, for the smallest arrays
_BELOW = 10.0


def unseeded_weights(model: Any) -> bool:
    """Is this a module whose weights are as PyTorch's layers draw them, made while nobody had called torch.manual_seed?

    >>> torch.manual_seed(0) is not None and unseeded_weights(nn.Linear(8, 8))
    False
    """
    return isinstance(model, nn.Module) and torch.initial_seed() >= _LEAST_RANDOM_SEED and looks_fresh(model)


def looks_fresh(module: nn.Module) -> bool:
    """Are all weights such as `reset_parameters` of the layers makes? Training, loading and an initialisation of one's own show."""
    layers = [(path, leaf) for path, leaf in module.named_modules() if hasattr(leaf, "reset_parameters")]
    inside = {f"{path}.{n}".lstrip(".") for path, leaf in layers for n, _ in leaf.named_parameters(recurse=False)}
    if not inside or inside != {n for n, _ in module.named_parameters()}:
        return False
    drawn = False
    for _, leaf in layers:
        other: Any = copy.deepcopy(leaf)
        with INIT_LOCK, torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            other.reset_parameters()
        for (_, value), (_, fresh) in zip(leaf.state_dict().items(), other.state_dict().items(), strict=True):
            if bool((fresh == fresh.reshape(-1)[:1]).all()) and fresh.numel() > 1:
                # Norms begin with ones and zeros.
                if not torch.equal(value, fresh):
                    return False
            elif fresh.is_floating_point() and fresh.numel() >= _FEW:
                drawn = True
                if not _alike(value, fresh, uniform=not isinstance(leaf, nn.Embedding | nn.EmbeddingBag)):
                    return False
    return drawn


def _alike(value: torch.Tensor, fresh: torch.Tensor, *, uniform: bool) -> bool:
    """Could both be draws from one distribution, by their spread and, of a uniform one, their largest value?"""
    ratio = float(value.std()) / max(float(fresh.std()), 1e-12)
    slack = max(_SPREAD, 4.0 / fresh.numel() ** 0.5)
    # The largest of n uniform draws hardly lies further below the bound than this.
    bound = float(fresh.abs().max()) * (1.0 + _BELOW / fresh.numel())
    within = not uniform or float(value.abs().max()) <= bound
    return abs(ratio - 1.0) < slack and within
