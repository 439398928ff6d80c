"""The functions of MNN that build expressions, and their values from and to numpy.

MNN's Python package puts a cast before each argument of many functions, and a cast has no gradient: gradients would stop there
without a word. So everything here is called in the extension module below it. Where a cast is written, it stops a gradient.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

import numpy as np

from fedfleet.core.engines import require_engine
from fedfleet.core.trees import Array

# An expression or a value of MNN.
Var = Any


@cache
def mnn() -> Any:
    """The module of MNN's functions, imported once, to compute lazily; `BadInput` where the package is missing."""
    require_engine("mnn")
    with _SilentOutput():
        import _mnncengine  # type: ignore[import-not-found]

    functions = _mnncengine._expr
    functions.lazy_eval(True)
    return functions


@cache
def gradient_graphs() -> Any:
    """What adds the graph of gradients to expressions."""
    mnn()
    import _mnncengine  # type: ignore[import-not-found]

    return _mnncengine._optim.Grad()


class _SilentOutput:
    """Standard output goes nowhere: MNN prints what the processor can do when it is loaded, and a command may print JSON."""

    def __enter__(self) -> None:
        sys.stdout.flush()
        self._kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)

    def __exit__(self, *_: object) -> None:
        ctypes.CDLL(None).fflush(None)
        os.dup2(self._kept, 1)
        os.close(self._kept)


def placeholder(shape: tuple[int, ...], *, integers: bool = False) -> Var:
    """A value that is written later."""
    lib = mnn()
    return lib.placeholder(list(shape), lib.NCHW, lib.int if integers else lib.float)


def constant(value: Array | float) -> Var:
    """A fixed value: integers stay integers, all else is single precision."""
    lib, array = mnn(), np.asarray(value)
    if array.dtype.kind in "iu":
        return lib.const(np.ascontiguousarray(array, np.int32), list(array.shape), lib.NCHW, lib.int)
    return lib.const(np.ascontiguousarray(array, np.float32), list(array.shape), lib.NCHW, lib.float)


def write(var: Var, value: Array) -> None:
    """Give a placeholder its value."""
    var.write(np.ascontiguousarray(value, np.int32 if var.dtype == mnn().int else np.float32))


def read(var: Var) -> Array:
    """Compute an expression. What MNN gives is its own memory, which the next step overwrites."""
    return np.array(var.read())
