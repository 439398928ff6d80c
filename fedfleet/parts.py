"""What parts of your own are made of: methods to begin with, functions that change them, and addressed randomness.

    from fedfleet.parts import fedavg, with_rule

The names load on first use. The records that they take and give are in `fedfleet`, the checks in `fedfleet.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# module -> the names that it holds
_PUBLIC = {
    "fedfleet.learn.fedavg": ("fedavg",),
    "fedfleet.learn.composition": ("method", "with_pass", "with_extra", "split_aggregate"),
    "fedfleet.learn.server_optimisers": ("with_rule",),
    "fedfleet.learn.objectives": ("with_term", "with_penalty"),
    "fedfleet.learn.folds": ("mean", "with_fold"),
    "fedfleet.learn.strategy": ("algorithm_from_strategy",),
    "fedfleet.core.aggregation": ("Aggregate", "Entry"),
    "fedfleet.core.passes": ("ConstantTerm", "ProximalTerm", "zeros_like"),
    "fedfleet.core.cost": ("cost_of",),
    "fedfleet.core.rng": ("hash_keys", "stream", "uniforms"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

if TYPE_CHECKING:
    from fedfleet.core.aggregation import Aggregate, Entry
    from fedfleet.core.cost import cost_of
    from fedfleet.core.passes import ConstantTerm, ProximalTerm, zeros_like
    from fedfleet.core.rng import hash_keys, stream, uniforms
    from fedfleet.learn.composition import method, split_aggregate, with_extra, with_pass
    from fedfleet.learn.fedavg import fedavg
    from fedfleet.learn.folds import mean, with_fold
    from fedfleet.learn.objectives import with_penalty, with_term
    from fedfleet.learn.server_optimisers import with_rule
    from fedfleet.learn.strategy import algorithm_from_strategy

__all__ = [
    "Aggregate", "ConstantTerm", "Entry", "ProximalTerm", "algorithm_from_strategy", "cost_of", "fedavg", "hash_keys", "mean",
    "method", "split_aggregate", "stream", "uniforms", "with_extra", "with_fold", "with_pass", "with_penalty", "with_rule",
    "with_term", "zeros_like",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedfleet.parts' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
