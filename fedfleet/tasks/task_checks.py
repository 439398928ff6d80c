"""Checking an own model and own arrays before anything is trained: each mistake is said in one sentence with its cure."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from fedfleet.core.errors import BadInput, error_context
from fedfleet.core.parts import Dataset, Loss, Task
from fedfleet.core.records import Ints
from fedfleet.core.trees import Array, Tree
from fedfleet.tasks.task import build_cheaply, require_torch


def checked_data(data: Any) -> Dataset:
    """The arrays as a dataset: (inputs, labels) or (inputs, labels, owners)."""
    if not isinstance(data, Sequence) or isinstance(data, str | bytes) or len(data) not in (2, 3):
        kind = f"{len(data)} things" if isinstance(data, list | tuple) else f"a {type(data).__name__}"
        raise BadInput(f"data must be (inputs, labels) or (inputs, labels, owners), each an array; got {kind}")
    x = checked_inputs(data[0])
    y = checked_labels(data[1], len(x))
    return Dataset(x, y, int(y.max()) + 1, checked_owners(data[2], len(x)) if len(data) == 3 else None)


def checked_inputs(values: Any) -> Array:
    """Inputs as float32, one row for each sample; all of them finite."""
    x = _array(values, "inputs")
    if x.dtype.kind not in "fiub" or x.ndim < 2 or not x.size:
        raise BadInput(
            f"data: the inputs are {x.dtype} of shape {x.shape}; give numbers with one row for each sample, such as (1000, 20)"
        )
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, and is named below
        x = x.astype(np.float32)
    bad_rows = np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))
    if len(bad_rows):
        raise BadInput(
            f"data: {len(bad_rows)} of {len(x)} inputs hold values that are not finite in float32 (NaN or infinite), the first of "
            f"them in row {bad_rows[0]}; fill or drop them"
        )
    return x


def checked_labels(values: Any, samples: int) -> Ints:
    """Labels as whole numbers from 0, one for each sample."""
    y = _array(values, "labels")
    if y.ndim != 1:
        cure = "labels.argmax(1)" if y.ndim == 2 and y.shape[1] > 1 else "labels.ravel()"
        raise BadInput(
            f"data: the labels have shape {y.shape}; give as many labels as inputs, {samples} integers in a row, for example {cure}"
        )
    if len(y) != samples:
        raise BadInput(f"data: {samples} inputs need as many labels, one each; got {len(y)}")
    if y.dtype.kind == "f" and np.isnan(y).any():
        nan_rows = np.flatnonzero(np.isnan(y))
        raise BadInput(
            f"data: {len(nan_rows)} of {samples} labels are NaN, the first of them in row {nan_rows[0]}; drop these samples"
        )
    if y.dtype.kind not in "iu":
        raise BadInput(
            f"data: the labels are {y.dtype}, not integers; number the classes 0, 1, .., for example with "
            "np.unique(labels, return_inverse=True)[1]"
        )
    if int(y.min()) < 0 or int(y.max()) >= 2**31:
        row = int(np.argmax((y < 0) | (y >= 2**31)))
        raise BadInput(f"data: the label in row {row} is {y[row]}, out of range; number the classes 0, 1, ..")
    return y.astype(np.int64)


def checked_owners(values: Any, samples: int) -> Ints:
    """Who made each sample, as numbers 0, 1, .. in the order of the sorted names."""
    owner = _array(values, "owners")
    if owner.shape != (samples,):
        raise BadInput(f"data: {samples} inputs need as many owners, one each; got an array of shape {owner.shape}")
    if owner.dtype.kind == "f" and not np.isfinite(owner).all():
        row = int(np.argmin(np.isfinite(owner)))
        raise BadInput(f"data: the owner in row {row} is {owner[row]}; give the owner of each sample, by name or number")
    try:
        return np.unique(owner, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        raise BadInput("data: the owners mix names and numbers; give all of them as one or the other") from None


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


def check_fit(build: Callable[[], Any], dataset: Dataset, *, scores: bool = True) -> None:
    """See that the model can be made, has finite float32 parameters, takes the inputs and tells all classes apart.

    Without `scores` its outputs are left to an own loss to understand.
    """
    try:
        module = build()
    except Exception as error:
        raise BadInput(f"model: the function that makes it fails: {_error_line(error)}") from None
    if not isinstance(module, torch.nn.Module):
        raise BadInput(f"model: the function that makes it gives a {type(module).__name__}, not a PyTorch module")
    if isinstance(module, torch.jit.ScriptModule):
        raise BadInput("model: it is a TorchScript module, whose weights cannot be replaced; give the module that it was made from")
    _check_parameters(module)
    shape = tuple(dataset.x.shape[1:])
    try:
        with torch.no_grad():
            out = module.eval()(torch.from_numpy(dataset.x[:2]))
    except Exception as error:
        raise BadInput(
            f"model: it cannot take inputs of shape (samples, {', '.join(map(str, shape))}): {_error_line(error)}; "
            "change its first layer or the shape of the inputs"
        ) from None
    if scores:
        _check_outputs(out, dataset)


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


def _check_outputs(out: Any, dataset: Dataset) -> None:
    if not isinstance(out, torch.Tensor):
        raise BadInput(f"model: it gives a {type(out).__name__}; let it give one tensor (samples, classes) of scores")
    if out.ndim != 2 or len(out) != min(2, len(dataset.y)) or not out.is_floating_point():
        raise BadInput(
            f"model: for {min(2, len(dataset.y))} samples it gives {out.dtype} of shape {tuple(out.shape)}; let it give a row of "
            "scores for each sample, one for each class"
        )
    if out.shape[1] < dataset.classes:
        row = int(np.argmax(dataset.y))
        raise BadInput(
            f"data: the label in row {row} is {dataset.y[row]}, and the model has {out.shape[1]} outputs, for labels 0 to "
            f"{out.shape[1] - 1}; give its last layer {dataset.classes} outputs, or correct the labels"
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


def _array(values: Any, what: str) -> Array:
    try:
        return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise BadInput(f"data: the {what} are not an array: {_error_line(error)}; give rows of equal length") from None


def _error_line(error: Exception) -> str:
    """An error of the user's code, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


_BATCH = 2048
_SAMPLES = 3


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
    return module.eval()


def check_loss(function: Callable[[Any, Any], Any], task: Task) -> Loss:
    """A loss function of the person's own: whether it gives one value per sample or one for all is seen by trying it."""
    if not callable(function):
        raise BadInput(f"loss: {function!r} is not a function; give one that takes (outputs, labels)")
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
