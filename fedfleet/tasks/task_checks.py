"""Checking an own model and own arrays before anything is trained: each mistake is said in one sentence with its cure."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from fedfleet.core.errors import BadInput, error_context
from fedfleet.core.parts import Dataset, Loss, Task
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array, Tree
from fedfleet.tasks import forward_checks, output_checks
from fedfleet.tasks.data_checks import error_line
from fedfleet.tasks.dropout import plain_dropout
from fedfleet.tasks.scores import sample_losses
from fedfleet.tasks.seeded_draws import unseed_draws
from fedfleet.tasks.task import INIT_LOCK, build_cheaply, require_torch


def checked_build(model: Any) -> Callable[[], Any]:
    """A function that makes the model anew: of a module, whose weights training starts from, or of such a function."""
    require_torch()
    if isinstance(model, torch.nn.Module):
        # The given module itself is never changed.
        return lambda: copy.deepcopy(model)
    name = getattr(model, "__name__", repr(model)[:80])
    if inspect.isclass(model):
        _check_class(model, name)
    if not callable(model):
        raise BadInput(f"model is {name}, a {type(model).__name__}; give a PyTorch module or a function that makes one")
    return model


def _check_class(model: Any, name: str) -> None:
    """A class makes models too, if it needs nothing to make one."""
    try:
        inspect.signature(model).bind()
    except ValueError:  # its signature is unknown
        return
    except TypeError as error:
        raise BadInput(
            f"model is the class {name}, which cannot make a model without arguments ({error}); give an instance, model={name}(..)"
        ) from None


def check_fit(build: Callable[[], Any], dataset: Dataset, *, scores: bool = True, loss: Any = None) -> list[str]:
    """See that the model can be made, has finite float32 parameters, takes the inputs, tells all classes apart, and can learn.

    Without `scores` its outputs are left to an own `loss` to understand. What works and is probably wrong is returned as sentences.
    The global generators are as before.
    """
    with INIT_LOCK, forward_checks.global_draws():
        torch.manual_seed(_TRIAL_SEED)  # what is said of a model must not change from one look to the next
        return _check_fit(build, dataset, scores=scores, loss=loss)


def _check_fit(build: Callable[[], Any], dataset: Dataset, *, scores: bool, loss: Any) -> list[str]:
    module = _build_module(build)
    _check_parameters(module)
    _check_buffers(module)
    x, y = _trial_samples(dataset)
    out, last = _first_outputs(module, x, dataset)
    if scores or not isinstance(out, torch.Tensor):
        if scores:
            output_checks.check_type(out, dataset)
            output_checks.check_shape(out, dataset, len(x))
        else:  # an own loss may take several tensors
            return []
    name = output_checks.loss_name(loss, dataset)
    found = output_checks.output_warnings(out, dataset, last, name, bounded=_stays_between(module, x))
    found += forward_checks.evaluation_warnings(module, x, out)
    if len(x) < 2 or (loss is not None and not callable(loss)):
        return found
    # The module that was evaluated may remember; training begins from a new one.
    return found + forward_checks.training_warnings(_build_module(build), x, lambda o: _mean_loss(loss, o, y))


def _stays_between(module: torch.nn.Module, x: torch.Tensor) -> bool:
    """Do the outputs stay between 0 and 1 for inputs that are far larger? Scores of a fresh model may lie there by chance."""
    if not x.is_floating_point():
        return True
    with torch.no_grad():
        out = module(_FAR * x)
    return bool(((out >= 0) & (out <= 1)).all())


def _mean_loss(loss: Any, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return sample_losses(outputs, labels).mean() if loss is None else loss(outputs, labels).mean()


def _build_module(build: Callable[[], Any]) -> torch.nn.Module:
    try:
        module = build()
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"model: the function that makes it fails: {error_line(error)}") from None
    if not isinstance(module, torch.nn.Module):
        raise BadInput(f"model: the function that makes it gives a {type(module).__name__}, not a PyTorch module")
    if isinstance(module, torch.jit.ScriptModule):
        raise BadInput("model: it is a TorchScript module, whose weights cannot be replaced; give the module that it was made from")
    return module


def _trial_samples(dataset: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    """A few samples; of tokens also the row with the largest, which an embedding must know."""
    rows = np.arange(min(_TRIAL_SAMPLES, len(dataset.x)))
    if dataset.x.dtype.kind in "iu":
        rows[-1] = int(np.argmax(dataset.x.reshape(len(dataset.x), -1).max(1)))
    return torch.from_numpy(dataset.x[rows]), torch.from_numpy(dataset.y[rows])


def _first_outputs(module: torch.nn.Module, x: torch.Tensor, dataset: Dataset) -> tuple[Any, str]:
    try:
        return forward_checks.last_layer_type(module.eval(), x)
    except BadInput:
        raise
    except Exception as error:
        shape = ", ".join(map(str, x.shape[1:]))
        raise BadInput(
            f"model: it cannot take inputs of shape (samples, {shape}): {error_line(error)}; {_input_cure(error, dataset)}"
        ) from None


def _input_cure(error: Exception, dataset: Dataset) -> str:
    """What to change where a model cannot take the inputs: most often their type, or the size of a table of tokens."""
    text, whole = str(error), dataset.x.dtype.kind in "iu"
    if "indices" in text and not whole:
        return "inputs are float32, so look tokens up by x.long() in forward()"
    if isinstance(error, IndexError) and "out of range" in text:
        return f"the largest token is {int(dataset.x.max())}, so give the embedding {int(dataset.x.max()) + 1} rows or more"
    if whole and ("dtype" in text or "type Float" in text or "Long" in text):
        return "inputs are tokens (int64), so look them up with nn.Embedding as the first layer"
    return "change its first layer or the shape of the inputs"


def _check_buffers(module: torch.nn.Module) -> None:
    """Buffers of the state travel with the parameters."""
    state = module.state_dict()
    for name, value in module.named_buffers():
        if name not in state:
            continue
        cure = "a constant need not travel: register_buffer(.., persistent=False)"
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise BadInput(f"model: buffer {name!r} holds values that are not finite; {cure}")
        if value.is_complex() or (value.is_floating_point() and value.dtype != torch.float32):
            raise BadInput(f"model: buffer {name!r} is {value.dtype}; make it float32 with model.float(), or {cure}")


def _check_parameters(module: Any) -> None:
    parameters = list(module.named_parameters())
    if not parameters:
        raise BadInput("model: it has no parameters, so there is nothing to train")
    for name, value in parameters:
        if torch.nn.parameter.is_lazy(value):
            raise BadInput(f"model: parameter {name!r} has no shape yet; call the model once before, or give its sizes")
        if value.dtype != torch.float32:
            raise BadInput(f"model: parameter {name!r} is {value.dtype}; train in float32, with model.float()")
        if not bool(torch.isfinite(value).all()):
            raise BadInput(f"model: parameter {name!r} holds values that are not finite; initialise it again")
    # Every parameter is trained: one that the user meant to keep as it is must not change silently.
    frozen = [name for name, value in parameters if not value.requires_grad]
    if frozen:
        others = f" and {len(frozen) - 1} more are" if frozen[1:] else " is"
        raise BadInput(
            f"model: parameter {frozen[0]!r}{others} frozen (requires_grad=False), and a run trains all parameters; keep what must "
            "not change in buffers (register_buffer), or let everything be trained with model.requires_grad_(True)"
        )


def needs_two_samples(build: Callable[[], Any], x: Array) -> bool:
    """Does training this model fail on a batch of one sample, as batch normalisation of a single value does?"""
    if not any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in build_cheaply(build).modules()):
        return False
    try:
        build().train()(torch.from_numpy(x[:1]))
    except ValueError:
        return True
    return False


_BATCH = 2048
_SAMPLES = 3
_TRIAL_SEED = 0
_FAR = 1e3
_TRIAL_SAMPLES = 8  # of which a model is tried before it is trained


def outputs_of(task: Task, params: Tree, rows: Ints) -> Array:
    """What the model answers to these rows of the dataset, [rows, outputs]; in one thread, so that it is the same every time."""
    module = task.build().eval()
    tensors = {n: torch.from_numpy(np.array(v)) for n, v in params.items()}
    outputs: list[Array] = []
    with torch.no_grad(), _one_thread():
        for a in range(0, len(rows), _BATCH):
            x = torch.from_numpy(task.dataset.x[rows[a : a + _BATCH]])
            outputs.append(functional_call(module, tensors, (x,)).numpy())
    return np.concatenate(outputs) if outputs else np.zeros((0, task.dataset.classes), np.float32)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def module_of(task: Task, params: Tree) -> torch.nn.Module:
    """The task's model with these parameters, for use; what is frozen is inside already."""
    module = task.build()
    module.load_state_dict({n: torch.from_numpy(np.array(v)) for n, v in params.items() if n not in task.frozen})
    return plain_dropout(unseed_draws(module)).eval()


# Losses as people name them, and the function of torch.nn.functional.
_LOSSES = {
    "mse": "mse_loss", "l2": "mse_loss", "mae": "l1_loss", "l1": "l1_loss", "huber": "huber_loss", "ce": "cross_entropy",
    "crossentropy": "cross_entropy", "cross_entropy": "cross_entropy", "bce": "binary_cross_entropy_with_logits", "nll": "nll_loss",
}  # fmt: skip


def check_loss(function: Callable[[Any, Any], Any], task: Task) -> Loss:
    """A loss function of the person's own: whether it gives one value per sample or one for all is seen by trying it."""
    if not callable(function):
        known = _LOSSES.get(str(function).lower().replace(" ", "_"))
        example = f", for example torch.nn.functional.{known}" if known else ""
        raise BadInput(f"loss: {function!r} is not a function; give one that takes (outputs, labels){example}, or leave loss out")
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        raise BadInput(f"loss is the class {function.__name__}; give an instance, loss={function.__name__}()")
    data, n = task.dataset, min(_SAMPLES, len(task.dataset.y))
    module = task.build().eval()
    with error_context("your loss function, tried on the first samples,"):
        outputs = module(torch.from_numpy(data.x[:n]))
        value = function(outputs, torch.from_numpy(data.y[:n]))
    shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
    if shape not in ((), (n,)):
        shape_text = type(value).__name__ if shape is None else f"a tensor of shape {shape}"
        raise BadInput(f"loss: it gave {shape_text} for {n} samples; return a tensor with one value per sample, or their mean")
    if not value.requires_grad:
        raise BadInput("loss: its value does not depend on the outputs, so that nothing can be learnt from it")
    return Loss(function, joint=shape == ())
