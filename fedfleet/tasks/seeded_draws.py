"""Models that draw random numbers in forward() themselves, as attention layers do for dropout: each step has its own seed.

PyTorch draws from one generator of the process. While such a model is called in training, the generator is seeded by the address of
client, task and step, as `AddressedDropout` is, and afterwards it is as before; other threads wait.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from fedfleet.tasks.dropout import AddressedDropout, scramble
from fedfleet.tasks.task import INIT_LOCK

_NAME = "fedfleet_draws"
_LAYER = 1 << 20  # no layer of a model has this number


class SeededDraws(AddressedDropout):
    """Where executors leave the address of a step; it drops nothing itself."""

    def __init__(self) -> None:
        super().__init__(0.0, _LAYER)
        self.state: torch.Tensor | None = None


def draws_in_training(module: nn.Module, x: Any) -> bool | None:
    """Does forward() in training draw from PyTorch's generator? A copy is tried. None: its parameters have no numbers."""
    if any(nn.parameter.is_lazy(v) or v.is_meta for v in module.parameters()):
        return None
    trial = copy.deepcopy(module).train()
    with INIT_LOCK:
        before = torch.get_rng_state()
        try:
            with torch.no_grad():
                trial(torch.as_tensor(x))
        except Exception:
            return False
        finally:
            drew = not torch.equal(torch.get_rng_state(), before)
            torch.set_rng_state(before)
    return drew


def seed_draws(module: nn.Module) -> nn.Module:
    """The module, whose draws in training follow the address that executors give."""
    module.add_module(_NAME, SeededDraws())
    module.register_forward_pre_hook(_begin)
    module.register_forward_hook(_end, always_call=True)
    return module


def unseed_draws(module: nn.Module) -> nn.Module:
    """The module as its maker meant it, for use outside a run."""
    if hasattr(module, _NAME):
        delattr(module, _NAME)  # without it the hooks do nothing
    return module


def _begin(module: nn.Module, *_: Any) -> None:
    draws = getattr(module, _NAME, None)
    if draws is None or not module.training:
        return
    INIT_LOCK.acquire()
    draws.state = torch.get_rng_state()
    torch.manual_seed(int(scramble(draws.address.reshape(()))))


def _end(module: nn.Module, *_: Any) -> None:
    draws = getattr(module, _NAME, None)
    if draws is None or draws.state is None:
        return
    torch.set_rng_state(draws.state)
    draws.state = None
    INIT_LOCK.release()
