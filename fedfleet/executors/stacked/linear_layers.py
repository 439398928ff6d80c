"""Linear leaves: products of a whole stack of clients, fused with their update, and kept as a sum of low rank where possible.

Clients that begin with the same weights W0 and take steps that are linear in their gradients (SGD, momentum, weight decay,
FedProx; see `moving`) differ from W0 by what their own batches added,

    W_c = a W0 - sum_s c_s G_s' X_s        (inputs X_s and output gradients G_s of the steps so far)

which has at most steps x batch ranks. So x W_c' = a x W0' - (x X') c G: one product with W0 that all clients share, and two
small ones. No client's weights are read or written before the end of the pass, where they are made once. For a layer of
3,136 x 1,024 and twelve steps of batch 16 that is a thirtieth of the memory traffic, on any device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import nn

from fedfleet.executors.stacked.fused_step import Move
from fedfleet.executors.stacked.products import is_worth_compiling, kernel_for, panels_of, product, product_of_panels
from fedfleet.tasks.kernel_choice import kernels_for, splits_numbers

IN_CACHE = 1 << 14  # weights of one client


@dataclass(slots=True)
class Stack:
    """What all leaves of one twin share: how many clients, the weights of samples, and the fused step if there is one."""

    clients: int = 1
    weights: torch.Tensor | None = None  # [clients, batch]: 0 for padding; None when nothing is padded
    move: Move | None = None  # set: leaves update themselves
    trigger: torch.Tensor | None = None  # makes autograd visit fused leaves, whose weights ask for no gradient
    steps: int = 0  # how many steps the pass has; 0: unknown
    even: bool = True  # do all clients take all of these steps?
    own_past: bool = False  # may leaves keep a past of their steps also where each client begins with weights of its own?
    fewest: int = 0  # real samples of the client that has fewest in this step; 0: unknown

    def moves(self, leaf: Any) -> bool:
        """Does this leaf update itself now?"""
        return leaf.alone and not leaf.frozen and self.move is not None and torch.is_grad_enabled()


@dataclass(slots=True)
class PastSteps:
    """The steps so far of a leaf whose beginning stays as it is: inputs [clients, rank, in], gradients [.., out].

    `others` are what else the weights are made of, as `Move.others` gives it.
    """

    inputs: torch.Tensor
    grads: torch.Tensor
    used: int = 0
    steps: int = 0
    panels: torch.Tensor | None = None  # the weights with which all began, as the compiled product reads them
    others: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)


class SelfUpdatingLayer(Protocol):
    """A layer that takes its own step: its output, the gradient of its input, and the step itself."""

    def product(self, x: torch.Tensor) -> torch.Tensor: ...
    def back(self, grad: torch.Tensor) -> torch.Tensor: ...
    def move(self, x: torch.Tensor, grad: torch.Tensor) -> None: ...


class FusedStep(torch.autograd.Function):
    """A layer's output, with the layer moved in the backward pass instead of handing its gradients on."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, trigger: torch.Tensor, leaf: SelfUpdatingLayer) -> torch.Tensor:
        del trigger
        ctx.leaf = leaf
        ctx.save_for_backward(x)
        return leaf.product(x)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor):
        (grad,), (x,), leaf = grad_outputs, ctx.saved_tensors, ctx.leaf
        down = leaf.back(grad) if ctx.needs_input_grad[0] else None
        leaf.move(x, grad)
        return down, None, None


def keeps_past(out: int, width: int, rank: int, *, on_cpu: bool) -> bool:
    """Is a sum of this rank worth keeping instead of the weights? Small ones lie in a processor's cache anyway."""
    return 0 < rank * (out + width) <= out * width and not (on_cpu and out * width < IN_CACHE)


def _product_kernels(x: torch.Tensor, weight: torch.Tensor) -> ModuleType | None:
    kernels = kernels_for(x, "product_kernels") if splits_numbers(x) else None
    return kernels if kernels is not None and kernels.takes(x, weight) else None


class OwnProduct(torch.autograd.Function):
    """x W' with each client's own weights [clients, out, in] on an accelerator; the gradient of W lies in memory as W does."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return _stack_product(x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor):
        (grad,), (x, weight) = grad_outputs, ctx.saved_tensors
        down = _stack_product(grad, weight) if ctx.needs_input_grad[0] else None
        change = torch.bmm(grad.transpose(1, 2), x) if ctx.needs_input_grad[1] else None
        return down, change


def _stack_product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[clients, n, a] times [clients, a, b]; with one tensor for all clients one plain product."""
    if weight.stride(0):
        kernels = _product_kernels(x, weight)
        return torch.bmm(x, weight) if kernels is None else kernels.stack_product(x, weight)
    return (x.reshape(-1, x.shape[2]) @ weight[0]).reshape(*x.shape[:2], -1)


class Linear(nn.Module):
    """A linear layer per client: weight [clients, out, in], bias [clients, out]."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.stack, self.alone, self.frozen = stack, True, False  # used once in a forward pass? left as it is?
        self.names: dict[str, str] = {}  # what the model calls each attribute
        self.weight: torch.Tensor
        self.bias: torch.Tensor | None = None
        self.past: PastSteps | None = None

    def product(self, x: torch.Tensor) -> torch.Tensor:
        """[clients, n, in] -> [clients, n, out]."""
        past = self.past
        if past is None:
            if self.weight.stride(0) == 0:  # frozen and the same for all
                out = (x.reshape(-1, x.shape[2]) @ self.weight[0].T).reshape(*x.shape[:2], -1)
                return out if self.bias is None else out + self.bias.unsqueeze(1)
            if x.is_cuda and not self.stack.moves(self):
                out: torch.Tensor = OwnProduct.apply(x, self.weight)
                return out if self.bias is None else out + self.bias.unsqueeze(1)
            return product(x, self.weight.transpose(1, 2), init=None if self.bias is None else self.bias.unsqueeze(1))
        out = self._minus_past(self._product_of_start(x), x, past.inputs, past.grads)
        for base, shares in past.others if past.used else ():
            out += _stack_product(x * shares[past.steps].reshape(-1, 1, 1), base.transpose(1, 2))
        return out if self.bias is None else out.add_(self.bias.unsqueeze(1))

    def back(self, grad: torch.Tensor) -> torch.Tensor:
        """The gradient of the input from that of the output."""
        past = self.past
        if past is None:
            return product(grad, self.weight)
        if self.weight.stride(0) == 0 and kernel_for(grad, self.weight) is not None:
            rows = grad.reshape(1, -1, grad.shape[2])
            down = product(rows, self.weight[:1]).reshape(*grad.shape[:2], -1)
        else:
            down = _stack_product(grad, self.weight)
        down = self._minus_past(down, grad, past.grads, past.inputs)
        for base, shares in past.others if past.used else ():
            down += _stack_product(grad * shares[past.steps].reshape(-1, 1, 1), base)
        return down

    def _product_of_start(self, x: torch.Tensor) -> torch.Tensor:
        """x times the weights with which the pass began; where all clients share them, they are laid out once in a pass."""
        past, rows, (_, out, width) = self.past, x.reshape(1, -1, x.shape[2]), self.weight.shape
        assert past is not None
        compiled = self.weight.stride(0) == 0 and kernel_for(x, self.weight) is not None
        if not compiled or not is_worth_compiling(rows.shape[1], width, out):
            return _stack_product(x, self.weight.transpose(1, 2))
        if past.panels is None:
            past.panels = panels_of(self.weight[:1].transpose(1, 2))
        return product_of_panels(rows, past.panels, out).reshape(*x.shape[:2], -1)

    def _minus_past(self, out: torch.Tensor, x: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """What was made with the beginning, corrected by the steps since: a out - (x left') c right."""
        past, move = self.past, self._move
        assert past is not None
        if not past.used:
            return out
        near = torch.bmm(x, left[:, : past.used].transpose(1, 2))
        if move.plain:
            assert isinstance(move.rate, float)
            return out.baddbmm_(near, right[:, : past.used], alpha=-move.rate)
        share, weights = move.coefficients(past.steps, past.used // past.steps)
        if move.scales_start:
            out.mul_(share.reshape(-1, 1, 1))
        return out.baddbmm_(near.mul_(weights.unsqueeze(1)), right[:, : past.used], alpha=-1.0)

    def move(self, x: torch.Tensor, grad: torch.Tensor) -> None:
        """One step."""
        move, past = self._move, self.past
        if past is not None:
            past.inputs[:, past.used : past.used + x.shape[1]] = x
            past.grads[:, past.used : past.used + x.shape[1]] = grad
            past.used += x.shape[1]
            past.steps += 1
        elif move.plain:
            assert isinstance(move.rate, float)
            product(grad.transpose(1, 2), x, init=self.weight, alpha=-move.rate, out=self.weight)
        else:
            move.step(self.names["weight"], self.weight, product(grad.transpose(1, 2), x))
        if self.bias is not None:
            move.step(self.names["bias"], self.bias, grad.sum(1))

    def settle(self) -> None:
        """Make each client's weights from what was shared and what was added since."""
        past, self.past = self.past, None
        if past is None:
            return
        move, grads, inputs = self._move, past.grads[:, : past.used], past.inputs[:, : past.used]
        if move.plain:
            assert isinstance(move.rate, float)
            self.weight = product(grads.transpose(1, 2), inputs, init=self.weight, alpha=-move.rate)
            return
        share, weights = move.coefficients(past.steps, past.used // max(past.steps, 1))
        base = self.weight * share.reshape(-1, 1, 1) if move.scales_start else self.weight
        for other, shares in past.others:
            base = torch.addcmul(base, other, shares[past.steps].reshape(-1, 1, 1))
        self.weight = product((grads * weights.unsqueeze(2)).transpose(1, 2), inputs, init=base, alpha=-1.0)

    def _begin_past(self, x: torch.Tensor) -> None:
        """At the first step: keep a past if it is smaller than the weights, else make them now if they are shared."""
        clients, out, width = self.weight.shape
        stack, move, shared = self.stack, self._move, self.weight.stride(0) == 0
        rank = stack.steps * x.shape[1]
        # Weights of each client's own are read in every step with or without a past, which then saves half of the traffic at most.
        worth = rank if shared else 2 * rank
        # Where clients leave early, only plain steps can go on from settled weights: nothing else remembers its velocity.
        if keeps_past(out, width, worth, on_cpu=x.device.type == "cpu") and (move.plain or stack.even):
            others = move.others(self.names["weight"], x.device)
            self.past = PastSteps(x.new_empty(clients, rank, width), x.new_empty(clients, rank, out), others=others)
        else:
            self.weight = self.weight.contiguous()

    @property
    def _move(self) -> Move:
        assert self.stack.move is not None
        return self.stack.move

    def stacked_product(self, x: torch.Tensor) -> torch.Tensor:
        """The product, fused with its update when training asks for that."""
        stack = self.stack
        if stack.moves(self):
            if self.past is None and (self.weight.stride(0) == 0 or stack.own_past):
                self._begin_past(x)
            return FusedStep.apply(x, stack.trigger, self)
        return self.product(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.stacked_product(x.reshape(self.stack.clients, -1, x.shape[-1]))
        return out.reshape(*x.shape[:-1], out.shape[-1])
