"""Functional optimisers on dictionaries of tensors.

Every operation is elementwise, so that the same function serves one client's tensors and a stack of clients' tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fedfleet.core.parts import Optimiser

Tensors = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlainSgd(Optimiser):
    """SGD without momentum, which an executor may fuse into the product that makes the gradient: w <- w - lr (g + wd w)."""

    lr: float = 0.0
    weight_decay: float = 0.0


OptimiserName = Literal["sgd", "adam", "adamw"]


def sgd(lr: float, *, momentum: float = 0.0, weight_decay: float = 0.0) -> Optimiser:
    """Gradient descent, v <- m v + g; w <- w - lr v, with weight decay as part of the gradient."""

    def init(params: Tensors) -> Any:
        return {n: p.detach() * 0.0 for n, p in params.items()} if momentum else None

    def update(params: Tensors, grads: Tensors, state: Any) -> tuple[dict[str, Any], Any]:
        if weight_decay:
            grads = {n: g + weight_decay * params[n] for n, g in grads.items()}
        if momentum:
            grads = state = {n: momentum * state[n] + g for n, g in grads.items()}
        return {n: p - lr * grads[n] for n, p in params.items()}, state

    return Optimiser(init, update) if momentum else PlainSgd(init, update, lr, weight_decay)


def adam(
    lr: float,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> Optimiser:
    """Adam with bias correction; `decoupled` takes weight decay out of the gradient (AdamW)."""
    b1, b2 = betas

    def init(params: Tensors) -> Any:
        return 0, {n: p.detach() * 0.0 for n, p in params.items()}, {n: p.detach() * 0.0 for n, p in params.items()}

    def update(params: Tensors, grads: Tensors, state: Any) -> tuple[dict[str, Any], Any]:
        t, m, v = state
        t += 1
        if weight_decay and not decoupled:
            grads = {n: g + weight_decay * params[n] for n, g in grads.items()}
        m = {n: b1 * m[n] + (1 - b1) * g for n, g in grads.items()}
        v = {n: b2 * v[n] + (1 - b2) * g * g for n, g in grads.items()}
        shrink = 1.0 - lr * weight_decay if decoupled else 1.0
        c1, c2 = 1 - b1**t, 1 - b2**t
        new = {n: shrink * p - lr * (m[n] / c1) / ((v[n] / c2).sqrt() + eps) for n, p in params.items()}
        return new, (t, m, v)

    return Optimiser(init, update)


def named(name: OptimiserName, lr: float, *, momentum: float, weight_decay: float) -> Optimiser:
    """The optimiser of this name."""
    match name:
        case "sgd":
            return sgd(lr, momentum=momentum, weight_decay=weight_decay)
        case "adam":
            return adam(lr, weight_decay=weight_decay)
        case "adamw":
            return adam(lr, weight_decay=weight_decay, decoupled=True)
