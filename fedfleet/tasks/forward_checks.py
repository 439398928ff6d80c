"""The forward pass of an own model, tried on a few samples: what it draws, what it changes, what its loss reaches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from fedfleet.core.errors import BadInput
from fedfleet.tasks.data_checks import error_line

_NAMES_SHOWN = 3
_CLOSE = 1e-3  # relative to the largest output: what another batch size may change by rounding
Objective = Callable[[torch.Tensor], torch.Tensor]  # from the outputs for the samples to one value


def last_layer_type(module: torch.nn.Module, x: torch.Tensor) -> tuple[Any, str]:
    """The outputs for these samples, and the type of the layer that gave just them; "" where forward() computes them itself."""
    last: list[tuple[str, Any]] = []
    leaves = [leaf for leaf in module.modules() if not list(leaf.children())]
    hooks = [leaf.register_forward_hook(lambda leaf, _, out: last.append((type(leaf).__name__, out))) for leaf in leaves]
    try:
        with torch.no_grad():
            out = module(x)
    finally:
        for hook in hooks:
            hook.remove()
    return out, last[-1][0] if last and last[-1][1] is out else ""


def evaluation_warnings(module: torch.nn.Module, x: torch.Tensor, out: torch.Tensor) -> list[str]:
    """What makes outputs of a model in evaluation unreliable; `out` are those for x. One that changes its parameters is refused."""
    before = {n: v.clone() for n, v in module.state_dict().items()}
    with global_draws() as draws, torch.no_grad():
        again, one = module(x), _one_sample(module, x, out)
    _refuse_changed_parameters(module, before)
    found: list[str] = []
    changed = [n for n, v in module.named_buffers() if n in before and not _same(v, before[n])]
    if changed:
        found.append(
            f"model: forward() changes {_listed('buffer', changed)} in evaluation too, so that scores depend on what was evaluated "
            "before; change it only if self.training"
        )
    if draws or not _same(again, out):
        cause = f"draws from {' and '.join(draws)}" if draws else "gives other outputs for the same inputs"
        found.append(
            f"model: forward() {cause} in evaluation, so that scores are random and a replay cannot confirm them; draw only if "
            "self.training"
        )
    elif not torch.allclose(one, out[:1], rtol=_CLOSE, atol=_CLOSE * float(out.abs().max())):
        found.append(
            "model: its outputs for a sample depend on the other samples of the batch in evaluation too, so that scores depend on "
            "the size of batches; normalise over features, or keep running statistics as BatchNorm does"
        )
    return found


def _one_sample(module: torch.nn.Module, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The outputs for the first sample alone, in the form of all outputs."""
    try:
        one = module(x[:1])
    except Exception as error:
        raise BadInput(
            f"model: it cannot take a single sample in evaluation: {error_line(error)}; a last batch may have one sample, so keep "
            "the first dimension, for example with flatten(1) instead of squeeze() or view(..)"
        ) from None
    if not isinstance(one, torch.Tensor) or one.numel() != out[:1].numel() or (one.dim() != out.dim() and out[:1].numel() > 1):
        raise BadInput(
            f"model: for a single sample it gives shape {tuple(getattr(one, 'shape', ()))}, not {tuple(out[:1].shape)}; a last "
            "batch may have one sample, so keep the first dimension, for example with flatten(1) instead of squeeze() or view(..)"
        )
    return one.reshape(out[:1].shape)


def training_warnings(module: torch.nn.Module, x: torch.Tensor, objective: Objective) -> list[str]:
    """What a pass of training shows: parameters that the loss does not reach, and draws that no seed decides."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    before = {n: v.clone() for n, v in module.state_dict().items()}
    module.train()
    with global_draws() as draws:
        try:
            outputs = module(x)
        except Exception as error:
            raise BadInput(
                f"model: it fails in training mode on {len(x)} samples: {error_line(error)}; correct its forward()"
            ) from None
        try:
            total = objective(outputs)
        except Exception:  # the check of an own loss says why
            return _random_training(draws)
    _refuse_changed_parameters(module, before)
    if isinstance(outputs, torch.Tensor) and not outputs.requires_grad:
        raise BadInput(
            "model: its outputs do not depend on its parameters as far as gradients can tell, so nothing can be learnt; remove "
            "detach(), no_grad() and argmax() from forward()"
        )
    if not total.requires_grad:  # the check of an own loss says why
        return _random_training(draws)
    try:
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    except RuntimeError as error:
        raise BadInput(f"model: its gradients cannot be computed: {error_line(error)}; change forward()") from None
    return [*_out_of_reach(names, gradients), *_random_training(draws)]


def _out_of_reach(names: Sequence[str], gradients: Sequence[torch.Tensor | None]) -> list[str]:
    unused = [n for n, g in zip(names, gradients, strict=True) if g is None]
    if not unused:
        return []
    return [
        f"model: the loss does not reach {_listed('parameter', unused)}, so training leaves it as it is, and every update carries "
        "it all the same; use it in forward(), or remove it"
    ]


def _random_training(draws: Sequence[str]) -> list[str]:
    if not draws:
        return []
    return [
        f"model: forward() draws from {' and '.join(draws)} in training, which no seed of a run decides, so that two runs differ "
        "and a replay cannot confirm the models; draw from PyTorch's generator, which FedFleet seeds, for example with nn.Dropout"
    ]


@contextmanager
def global_draws() -> Iterator[list[str]]:
    """The global generators that the block draws from, named at its end; all of them are as before then."""
    drawn: list[str] = []
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield drawn
    finally:
        if not torch.equal(torch.get_rng_state(), torch_state):
            drawn.append("torch's global generator")
        if any(not np.array_equal(now, then) for now, then in zip(np.random.get_state(), numpy_state, strict=True)):
            drawn.append("NumPy's global generator")
        if random.getstate() != python_state:
            drawn.append("Python's global generator")
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)
        random.setstate(python_state)


def _refuse_changed_parameters(module: torch.nn.Module, before: dict[str, torch.Tensor]) -> None:
    changed = [n for n, v in module.named_parameters() if n in before and not _same(v, before[n])]
    if changed:
        raise BadInput(
            f"model: forward() changes {_listed('parameter', changed)}, which only training may change; compute with a copy "
            "instead, or make it a buffer that changes only if self.training"
        )


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


def _listed(word: str, names: Sequence[str]) -> str:
    """Names of a kind, the first few and how many.

    >>> _listed("parameter", ["a", "b"]), _listed("buffer", ["m"])
    ("2 parameters ('a', 'b')", "buffer 'm'")
    """
    if len(names) == 1:
        return f"{word} {names[0]!r}"
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN])) + (", .." if len(names) > _NAMES_SHOWN else "")
    return f"{len(names)} {word}s ({shown})"
