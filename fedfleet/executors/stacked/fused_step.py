"""The fused step: leaves that update themselves in the backward pass, by any rule that is linear in the gradients.

    v <- momentum v + g + C + decay w + pull (w - w_start);   w <- w - rate v

covers SGD, momentum, weight decay and FedProx, and on accelerators terms C that stay the same (SCAFFOLD, FedDyn). Because the rule
is linear, weights after t steps are a known combination

    W_t = a_t W_0 + b_t W_start + e_t C - sum_s c_{t,s} g_s

of where they began, of what pulls and drives them, and of the gradients so far, whose coefficients depend on the rule alone. (Where
W_0 is W_start, as in a first stage, a_t stands for both.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch

from fedfleet.core.passes import ConstantTerm, LinearStep, LocalPass, ProximalTerm


@dataclass(slots=True)
class Move:
    """One pass's fused step. `rate` is one number for all, or one per client; `anchor` is where the pull pulls to, by name.

    `apart`: that is not where the pass begins. `constant` are gradients that stay the same all through the pass, by name.
    """

    rate: float | torch.Tensor
    momentum: float = 0.0
    decay: float = 0.0
    pull: float = 0.0
    anchor: dict[str, torch.Tensor] = field(default_factory=dict)
    velocity: dict[str, torch.Tensor] = field(default_factory=dict)
    shares: torch.Tensor | None = None  # a_t, [steps + 1, 1 or clients]
    weights: torch.Tensor | None = None  # c_{t,s}, [steps + 1, 1 or clients, steps]
    apart: bool = False
    constant: dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Is it w <- w - rate g with one rate for all, the case worth a path of its own?"""
        return self.momentum == self.decay == self.pull == 0.0 and isinstance(self.rate, float) and not self.constant

    def step(self, name: str, weight: torch.Tensor, grad: torch.Tensor) -> None:
        """Move one leaf, in place."""
        if name in self.constant:
            grad = grad + self.constant[name]
        if self.decay or self.pull:
            grad = grad + (self.decay + self.pull) * weight
            if self.pull:
                grad -= self.pull * self.anchor[name]
        if self.momentum:
            before = self.velocity.get(name)
            grad = grad if before is None else before.mul_(self.momentum).add_(grad)
            self.velocity[name] = grad
        if isinstance(self.rate, torch.Tensor):
            weight.sub_(self.rate.reshape(-1, *(1,) * (weight.dim() - 1)) * grad)
        else:
            weight.add_(grad, alpha=-self.rate)

    def shrink(self, active: int) -> None:
        """Only the first clients go on."""
        self.velocity = {n: v[:active].contiguous() for n, v in self.velocity.items()}
        self.anchor = {n: v[:active] for n, v in self.anchor.items()}
        self.constant = {n: v[:active] for n, v in self.constant.items()}
        if isinstance(self.rate, torch.Tensor):
            self.rate = self.rate[:active].contiguous()

    def coefficients(self, t: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """After t steps: what the beginning counts, and each of the t x width gradients so far, [1 or clients, ..]."""
        assert self.shares is not None and self.weights is not None
        return self.shares[t], self.weights[t, :, :t].repeat_interleave(width, dim=1)

    def tabulate(self, steps: int, device: torch.device) -> None:
        """Work the coefficients of a whole pass out, in double precision."""
        self.shares, self.weights = _table(self._rates(), steps, self.momentum, self.decay, self.pull, device)
        if self.pull and self.apart:
            self.shares = self._response(device, 1.0, 0.0)

    @property
    def scales_start(self) -> bool:
        """Does where the weights began come to count less on the way?"""
        return bool(self.decay or (self.pull and self.apart))

    def others(self, name: str, device: torch.device) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """What else this leaf's weights are made of, beside their beginning and the gradients, and how much each counts,
        [steps + 1, 1 or clients]."""
        found: list[tuple[torch.Tensor, torch.Tensor]] = []
        if self.pull and self.apart:
            found.append((self.anchor[name], self._response(device, 0.0, -self.pull)))
        if name in self.constant:
            found.append((self.constant[name], self._response(device, 0.0, 1.0)))
        return found

    def _rates(self) -> tuple[float, ...]:
        return tuple(self.rate.tolist()) if isinstance(self.rate, torch.Tensor) else (self.rate,)

    def _response(self, device: torch.device, first: float, push: float) -> torch.Tensor:
        assert self.weights is not None
        return _response_table(self._rates(), self.weights.shape[2], self.momentum, self.decay + self.pull, push, first, device)


@lru_cache(maxsize=64)  # kept, so that a recording finds it where it was and need not cross the bus
def _table(
    rates: tuple[float, ...], steps: int, momentum: float, decay: float, pull: float, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    shares, weights = combination(np.array(rates), steps, momentum, decay, pull)
    return torch.from_numpy(shares).to(device, torch.float32), torch.from_numpy(weights).to(device, torch.float32)


def combination(rates: np.ndarray, steps: int, momentum: float, decay: float, pull: float) -> tuple[np.ndarray, np.ndarray]:
    """a_t, [steps + 1, rates], and c_{t,s}, [steps + 1, rates, steps], of W_t = a_t W_0 - sum_s c_{t,s} g_s.

    >>> a, c = combination(np.array([0.5]), 2, 0.0, 0.0, 1.0)  # half of the way back to the start in each step
    >>> a.ravel().tolist(), c[2, 0].tolist()
    ([1.0, 1.0, 1.0], [0.25, 0.5])
    """
    n = len(rates)
    shares = response(rates, steps, momentum, decay + pull, -pull, 1.0)
    weights, grad_shares = np.zeros((steps + 1, n, steps)), np.zeros((n, steps))  # the velocity as p W_0 + sum_s q_s g_s
    for t in range(steps):
        grad_shares = momentum * grad_shares - (decay + pull) * weights[t]
        grad_shares[:, t] = 1.0
        weights[t + 1] = weights[t] + rates[:, None] * grad_shares
    return shares, weights


def response(rates: np.ndarray, steps: int, momentum: float, hold: float, push: float, first: float) -> np.ndarray:
    """How much something counts in the weights after t steps, [steps + 1, rates], that counts `first` before and adds `push` to
    every gradient; `hold` is the share of the weights themselves that every gradient holds.

    >>> response(np.array([0.5]), 2, 0.0, 0.0, 1.0, 0.0).ravel().tolist()  # a constant gradient
    [0.0, -0.5, -1.0]
    """
    shares, velocity = np.full((steps + 1, len(rates)), first), np.zeros(len(rates))
    for t in range(steps):
        velocity = momentum * velocity + hold * shares[t] + push
        shares[t + 1] = shares[t] - rates * velocity
    return shares


@lru_cache(maxsize=64)
def _response_table(
    rates: tuple[float, ...], steps: int, momentum: float, hold: float, push: float, first: float, device: torch.device
) -> torch.Tensor:
    return torch.from_numpy(response(np.array(rates), steps, momentum, hold, push, first)).to(device, torch.float32)


def fused_rule(stage: LocalPass, *, constants: bool = False) -> tuple[LinearStep, float] | None:
    """The linear rule and the pull of a stage; None if it asks for more than leaves can do by themselves.

    With `constants`, leaves can add terms that stay the same.
    """
    linear = stage.optimiser.linear
    pulls = [term.mu for term in stage.terms if isinstance(term, ProximalTerm)]
    fixed = sum(isinstance(term, ConstantTerm) for term in stage.terms) if constants else 0
    if linear is None or stage.objective is not None or len(pulls) + fixed != len(stage.terms):
        return None
    return linear, sum(pulls)
