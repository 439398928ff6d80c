"""Tied weights: a parameter that a model holds under several names is trained, sent and kept under the first of them alone."""

from __future__ import annotations

from typing import Any

import torch


def tied_names(module: torch.nn.Module) -> dict[str, str]:
    """The names under which a parameter occurs again, with its first name.

    >>> a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    >>> b.weight = a.weight
    >>> tied_names(torch.nn.Sequential(a, b))
    {'1.weight': '0.weight'}
    """
    first: dict[int, str] = {}
    ties: dict[str, str] = {}
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    for name, value in named:
        if first.setdefault(id(value), name) != name:
            ties[name] = first[id(value)]
    return ties


def hide_ties(module: torch.nn.Module) -> torch.nn.Module:
    """The module, whose state lists tied parameters once, and takes them back so."""
    if not tied_names(module):
        return module
    module.register_state_dict_post_hook(_drop_ties)
    module.register_load_state_dict_pre_hook(_add_ties)
    return module


def _drop_ties(module: torch.nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    del metadata
    for name in tied_names(module):
        state.pop(f"{prefix}{name}", None)


def _add_ties(module: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name, first in tied_names(module).items():
        if f"{prefix}{first}" in state:
            state.setdefault(f"{prefix}{name}", state[f"{prefix}{first}"])
