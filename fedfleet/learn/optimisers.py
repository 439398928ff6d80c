"""Functional optimisers on dictionaries of tensors.

Every operation is elementwise, so that the same function serves one client's tensors and a stack of clients' tensors. Equal
settings give the same object: passes are compared by value, and what compares equal trains together.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np

from fedfleet.core.passes import LinearStep, Optimiser, Tensors

OptimiserName = Literal["sgd", "adam", "adamw"]


def _zeros(params: Tensors) -> dict[str, Any]:
    """A zero for every parameter, as arrays or tensors without a history."""
    return {n: np.zeros_like(p) if isinstance(p, np.ndarray) else p.detach() * 0.0 for n, p in params.items()}


@cache
def sgd(*, momentum: float = 0.0, weight_decay: float = 0.0) -> Optimiser:
    """Gradient descent, v <- m v + g; w <- w - rate v, with weight decay as part of the gradient."""

    def init(params: Tensors) -> Any:
        return _zeros(params) if momentum else None

    def update(params: Tensors, grads: Tensors, state: Any, rates: Tensors) -> tuple[dict[str, Any], Any]:
        if weight_decay:
            grads = {n: g + weight_decay * params[n] for n, g in grads.items()}
        if momentum:
            grads = state = {n: momentum * state[n] + g for n, g in grads.items()}
        return {n: _descend(p, grads[n], rates[n]) for n, p in params.items()}, state

    return Optimiser(init, update, LinearStep(momentum, weight_decay))


@cache
def adam(
    *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0, decoupled: bool = False
) -> Optimiser:
    """Adam with bias correction; `decoupled` takes weight decay out of the gradient (AdamW)."""
    b1, b2 = betas

    def init(params: Tensors) -> Any:
        return 0, _zeros(params), _zeros(params)

    def update(params: Tensors, grads: Tensors, state: Any, rates: Tensors) -> tuple[dict[str, Any], Any]:
        t, m, v = state
        t += 1
        if weight_decay and not decoupled:
            grads = {n: g + weight_decay * params[n] for n, g in grads.items()}
        c1, c2 = 1 - b1**t, 1 - b2**t
        new: dict[str, Any] = {}
        for n, p in params.items():
            # The moments belong to this optimiser alone, so they change in place: on an accelerator every pass over memory counts.
            kernels = _kernels(p, grads[n])
            if kernels is not None:
                decay = weight_decay if decoupled else 0.0
                new[n] = kernels.adam_step(p, grads[n], (m[n], v[n]), rates[n], t, betas=betas, eps=eps, decay=decay)
                continue
            if isinstance(p, np.ndarray):
                m[n], v[n] = b1 * m[n] + (1 - b1) * grads[n], b2 * v[n] + (1 - b2) * grads[n] * grads[n]
                step = m[n] / (np.sqrt(v[n]) * c2**-0.5 + eps)
            else:
                m[n].mul_(b1).add_(grads[n], alpha=1 - b1)
                v[n].mul_(b2).addcmul_(grads[n], grads[n], value=1 - b2)
                step = m[n] / (v[n].sqrt() * c2**-0.5).add_(eps)
            step *= rates[n] * (1.0 / c1)
            new[n] = p * (1.0 - rates[n] * weight_decay) - step if weight_decay and decoupled else p - step
        return new, (t, m, v)

    return Optimiser(init, update)


def _descend(param: Any, grad: Any, rate: Any) -> Any:
    """w - rate g; on an accelerator in one pass over memory."""
    if getattr(param, "is_cuda", False) and isinstance(rate, float):
        return param.sub(grad, alpha=rate)
    return param - rate * grad


def _kernels(param: Any, grad: Any) -> Any:
    """Kernels that make a step in one pass over memory, where there are any."""
    if not getattr(param, "is_cuda", False):
        return None
    import torch

    from fedfleet.tasks.kernel_choice import kernels_for

    return kernels_for(param, "optimiser_kernels") if param.dtype == grad.dtype == torch.float32 else None


def build_optimiser(name: OptimiserName, *, momentum: float, weight_decay: float) -> Optimiser:
    """The optimiser of this name."""
    if name == "sgd":
        return sgd(momentum=momentum, weight_decay=weight_decay)
    return adam(weight_decay=weight_decay, decoupled=True) if name == "adamw" else adam(weight_decay=weight_decay)
